"""CAST with Spark's ANSI meaning: a value that does not fit its new type is an error, never NULL or another value.

Digits behind the point are the exception: they are rounded for a decimal (half up) and cut off for an integer.
In one point we are stricter than Spark, where NaN and infinity as a decimal are NULL: here they do not fit, so that
a cast is NULL only for NULL.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from typing import NoReturn

from viewmill.algebra.functions.numbers import EXACT, NAN
from viewmill.errors import DataError, InternalError
from viewmill.types import DATE, INTEGER_BITS, Type


def cast(value: object, type_: Type) -> object:
    """The value as a `type_`, or a `DataError` that names both. NULL stays NULL."""
    if value is None:
        return None
    if type_.name not in _CASTS:
        raise InternalError(f"nothing can be cast to {type_}")
    return _CASTS[type_.name](value, type_)


def _refuse(value: object, type_: Type) -> NoReturn:
    raise DataError(f"cannot cast {_quoted(value)} to {type_}")


def _overflow(value: object, type_: Type) -> NoReturn:
    raise DataError(f"{_quoted(value)} does not fit {type_}")


def _quoted(value: object) -> str:
    return f"'{value}'" if isinstance(value, str | date) else str(value)


# --- numbers and booleans

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SPECIAL = {
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in ("inf", "infinity")},
    "nan": NAN,
}
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}


def _to_integer(value: object, type_: Type) -> int:
    number = _whole(value, type_)
    limit = 1 << INTEGER_BITS[type_.name] - 1
    return number if -limit <= number < limit else _overflow(value, type_)


def _whole(value: object, type_: Type) -> int:
    match value:
        case int():
            return int(value)
        case float() if not math.isfinite(value):
            _overflow(value, type_)
        case float() | Decimal():
            return int(value)
        case str() if _INTEGER.fullmatch(value.strip()):
            return int(value)
        case datetime():
            return math.floor(_epoch_seconds(value))
        case _:
            _refuse(value, type_)


def _to_double(value: object, type_: Type) -> float:
    match value:
        case int() | float() | Decimal():
            return _as_float(value)
        case str():
            text = value.strip()
            if _NUMBER.fullmatch(text):
                return float(text)
            return _SPECIAL[text.lower()] if text.lower() in _SPECIAL else _refuse(value, type_)
        case datetime():
            return float(_epoch_seconds(value))
        case _:
            _refuse(value, type_)


def _as_float(number: int | float | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _to_float(value: object, type_: Type) -> float:
    """The nearest number of 32 bits."""
    wide = _to_double(value, type_)
    try:
        (narrow,) = struct.unpack("f", struct.pack("f", wide))
    except OverflowError:
        return math.copysign(math.inf, wide)
    return NAN if math.isnan(wide) else float(narrow)


def _to_decimal(value: object, type_: Type) -> Decimal:
    exact = _exact(value, type_)
    # Beyond 38 digits before the point nothing fits, and quantize must not try.
    if exact.adjusted() > type_.precision:
        _overflow(value, type_)
    number = exact.quantize(Decimal((0, (1,), -type_.scale)), rounding=ROUND_HALF_UP, context=EXACT)
    if number.adjusted() >= type_.precision - type_.scale and number != 0:
        _overflow(value, type_)
    return number if number else number.copy_abs()


def _exact(value: object, type_: Type) -> Decimal:
    match value:
        case Decimal():
            return value
        case int():
            return Decimal(int(value))
        case float() if math.isfinite(value):
            return Decimal(repr(value))  # what the double shows, as Spark takes it
        case float():
            _overflow(value, type_)
        case str() if _NUMBER.fullmatch(value.strip()):
            return Decimal(value.strip())
        case datetime():
            return _epoch_seconds(value)
        case _:
            _refuse(value, type_)


def _to_boolean(value: object, type_: Type) -> bool:
    match value:
        case bool() | int() | float() | Decimal():
            return bool(value)
        case str() if value.strip().lower() in _BOOLEANS:
            return _BOOLEANS[value.strip().lower()]
        case _:
            _refuse(value, type_)


# --- strings


def _to_string(value: object, type_: Type) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _java_double(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():
            text = value.isoformat(sep=" ", timespec="microseconds")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case date():
            return value.isoformat()
        case _:
            _refuse(value, type_)


def _java_double(number: float) -> str:
    """`1.0`, `1.0E7`, `1.0E-4`, `Infinity`: plain between a thousandth and ten million."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return f"{Decimal(repr(number)):f}" if "." in repr(number) else f"{number:.1f}"
    sign, digits, exponent = Decimal(repr(number)).normalize(EXACT).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent + len(text) - 1}"


def _to_binary(value: object, type_: Type) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case _:
            _refuse(value, type_)


# --- dates and timestamps

_DAY = r"(?P<year>\d{4,})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?P<rest>[ T].*)?)?)?"
_DATE = re.compile(_DAY, re.ASCII | re.DOTALL)
_TIME = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1)


def to_date(value: object, type_: Type = DATE) -> date:
    match value:
        case datetime():
            return value.date()
        case date():
            return value
        case str():
            found = _DATE.fullmatch(value.strip())
            return _day(found, value, type_) if found else _refuse(value, type_)
        case _:
            _refuse(value, type_)


def _day(found: re.Match[str], value: object, type_: Type) -> date:
    try:
        return date(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
    except ValueError:
        _refuse(value, type_)


def _to_timestamp(value: object, type_: Type) -> datetime:
    match value:
        case datetime():
            return value
        case date():
            return datetime(value.year, value.month, value.day)
        case str():
            return _read_timestamp(value, type_)
        case int() | float() | Decimal():
            return _from_epoch(value, type_)
        case _:
            _refuse(value, type_)


def _read_timestamp(value: str, type_: Type) -> datetime:
    found = _DATE.fullmatch(value.strip())
    if found is None:
        _refuse(value, type_)
    day = _day(found, value, type_)
    midnight = datetime(day.year, day.month, day.day)
    rest = (found["rest"] or "").strip(" T")
    if not rest:
        return midnight
    time = _TIME.fullmatch(rest)
    if time is None:
        _refuse(value, type_)
    micros = int((time["fraction"] or "").ljust(6, "0")[:6])
    try:
        moment = midnight.replace(
            hour=int(time["hour"]), minute=int(time["minute"]), second=int(time["second"] or 0), microsecond=micros
        )
        return moment.replace(tzinfo=_zone(time["zone"])).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        _refuse(value, type_)


def _zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return UTC
    hours, minutes = (text[1:].split(":") if ":" in text else (text[1:3], text[3:])) if text else ("0", "0")
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-offset if text[0] == "-" else offset)


def _from_epoch(seconds: int | float | Decimal, type_: Type) -> datetime:
    try:
        micros = math.floor(
            EXACT.multiply(Decimal(repr(seconds) if isinstance(seconds, float) else seconds), 1_000_000)
        )
        return _EPOCH + timedelta(microseconds=micros)
    except (ValueError, OverflowError):
        _overflow(seconds, type_)


def _epoch_seconds(moment: datetime) -> Decimal:
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    return EXACT.divide(Decimal(micros), Decimal(1_000_000))


_CASTS: dict[str, Callable[[object, Type], object]] = {
    **dict.fromkeys(INTEGER_BITS, _to_integer),
    "double": _to_double,
    "float": _to_float,
    "decimal": _to_decimal,
    "boolean": _to_boolean,
    "string": _to_string,
    "binary": _to_binary,
    "date": to_date,
    "timestamp": _to_timestamp,
}
