"""One value into one column, exactly or not at all.

    fit(2.0, INT) == 2      fit("2024-01-31", DATE) == date(2024, 1, 31)      fit(1.5, INT) is a Misfit

A value is taken only if nothing of it is lost. The types that JSON and CSV lack (dates, timestamps, decimals) are
also read from text. A float and a decimal are the same number if the float's shortest text says so: 0.1 fits
`decimal(3,1)`, and 0.1 + 0.2 does not. Timestamps are kept without a zone; those that have one are moved to UTC.
"""

from __future__ import annotations

import math
import numbers
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation, localcontext

from viewmill.algebra.functions.numbers import NAN
from viewmill.types import INTEGER_BITS, MAX_PRECISION, Type


class Misfit(Exception):
    """The reason why a value does not fit, to follow the value in a message: `is not an int`."""


def fit(value: object, type_: Type) -> object:
    """The value as a `type_` (see `types.py` for what carries it), or a `Misfit`. NULL fits every type."""
    if value is None:
        return None
    match type_.name:
        case "tinyint" | "smallint" | "int" | "bigint":
            return _integer(value, type_)
        case "decimal":
            return _decimal(value, type_)
        case "double":
            return _double(value, type_)
        case "float":
            return _float(value, type_)
        case "boolean":
            return _boolean(value)
        case "string":
            return _string(value)
        case "binary":
            return _binary(value)
        case "date":
            return _date(value)
        case "timestamp":
            return _timestamp(value)
        case _:
            raise Misfit(f"cannot be stored as {type_}")


def _integer(value: object, type_: Type) -> int:
    number = _whole(value, type_)
    bound = 1 << (INTEGER_BITS[type_.name] - 1)
    if not -bound <= number < bound:
        raise Misfit(f"is out of range for {type_}")
    return number


def _whole(value: object, type_: Type) -> int:
    if isinstance(value, bool):
        raise Misfit(f"is a boolean, not {type_}")
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        value = float(value)
    is_number = value.is_finite() if isinstance(value, Decimal) else isinstance(value, float) and math.isfinite(value)
    if isinstance(value, float | Decimal) and is_number and value == int(value):
        return int(value)
    raise Misfit(f"is not {_article(type_)}")


def _decimal(value: object, type_: Type) -> Decimal:
    number = _exact(value, type_)
    if not number.is_finite():
        raise Misfit(f"is not {_article(type_)}")
    # The usual context would round to 28 digits on the way.
    with localcontext(prec=2 * MAX_PRECISION):
        try:
            scaled = number.quantize(Decimal(1).scaleb(-type_.scale))
        except InvalidOperation:
            raise Misfit(f"has too many digits for {type_}") from None
        if scaled != number:
            raise Misfit(f"has more than {type_.scale} decimal places, which {type_} cannot hold")
        if scaled.copy_abs() >= Decimal(10) ** (type_.precision - type_.scale):
            raise Misfit(f"has too many digits for {type_}")
    return scaled.copy_abs() if scaled.is_zero() else scaled  # there is no negative zero among SQL decimals


def _exact(value: object, type_: Type) -> Decimal:
    match value:
        case bool():
            raise Misfit(f"is a boolean, not {type_}")
        case Decimal():
            return value
        case numbers.Integral():
            return Decimal(int(value))
        case numbers.Real():
            return Decimal(repr(float(value)))
        case str():
            try:
                return Decimal(value.strip())
            except InvalidOperation:
                raise Misfit(f"is not {_article(type_)}") from None
        case _:
            raise Misfit(f"is not {_article(type_)}")


def _double(value: object, type_: Type) -> float:
    match value:
        case bool():
            raise Misfit(f"is a boolean, not {type_}")
        case float():
            number = float(value)
        case numbers.Integral():
            number = _nearest(int(value), type_)
            if int(number) != int(value):
                raise Misfit(f"has more digits than a {type_} can hold")
        case numbers.Real():
            number = float(value)
        case Decimal():
            number = _nearest(value, type_)
            if math.isfinite(number) and Decimal(repr(number)) != value:
                raise Misfit(f"has more digits than a {type_} can hold")
        case _:
            raise Misfit(f"is not {_article(type_)}")
    return NAN if math.isnan(number) else number  # one NaN, so that equal rows are found by identity


def _nearest(value: int | Decimal, type_: Type) -> float:
    try:
        return float(value)
    except (OverflowError, ValueError):
        raise Misfit(f"is out of range for {type_}") from None


def _float(value: object, type_: Type) -> float:
    """A double rounded to 32 bits: the one type that is approximate by its nature."""
    number = _double(value, type_)
    if not math.isfinite(number):
        return number
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise Misfit(f"is out of range for {type_}") from None
    return rounded


def _boolean(value: object) -> bool:
    # NumPy's booleans are no Python booleans, but say so by name.
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise Misfit("is not a boolean")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Misfit("is not a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit("has half of a surrogate pair, which is no character") from None
    return str(value)


def _binary(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise Misfit("is not binary")


def _date(value: object) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise Misfit("is not a date") from None
    if isinstance(value, datetime):
        moment = _timestamp(value)
        if moment.time() != time.min:
            raise Misfit("has a time of day, which date cannot hold")
        return moment.date()
    if isinstance(value, date):
        return value
    raise Misfit("is not a date")


def _timestamp(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise Misfit("is not a timestamp") from None
    if not isinstance(value, datetime):
        if isinstance(value, date):
            return datetime.combine(value, time.min)
        raise Misfit("is not a timestamp")
    if getattr(value, "nanosecond", 0):  # pandas keeps nanoseconds
        raise Misfit("has nanoseconds, which timestamp cannot hold")
    moment = value if value.tzinfo is None else value.astimezone(UTC)
    return datetime(
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, moment.microsecond
    )


def _article(type_: Type) -> str:
    return f"an {type_}" if type_.name == "int" else f"a {type_}"
