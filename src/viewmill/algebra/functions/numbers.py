"""Arithmetic and numeric functions. Integers and decimals are exact, doubles follow Java, as in Spark.

Arguments are never NULL here, but for those that say so; see `functions/__init__.py`. Integers have no width: whoever
builds a scalar puts a `Cast` where a result must fit a type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    Inexact,
)
from typing import Any, TypeAlias

from viewmill.errors import DataError

Number: TypeAlias = int | float | Decimal

# Spark's decimals have at most 38 digits, so their sums and products have far fewer than 100.
EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_LOSSLESS = Context(prec=100, rounding=ROUND_HALF_UP, traps=[*(t for t, on in EXACT.traps.items() if on), Inexact])

# One object, so that a NaN is found again as a key: Python takes two NaNs for one value only if they are one object.
NAN = math.nan


def one_nan(value: object) -> object:
    """The value; if it is any NaN, ours."""
    return NAN if value != value else value


_BIGINT_LIMIT = 2.0**63


def add(a: Number, b: Number) -> Number:
    return _arithmetic(a, b, lambda x, y: x + y, _LOSSLESS.add)


def sub(a: Number, b: Number) -> Number:
    return _arithmetic(a, b, lambda x, y: x - y, _LOSSLESS.subtract)


def mul(a: Number, b: Number) -> Number:
    return _arithmetic(a, b, lambda x, y: x * y, _LOSSLESS.multiply)


def _arithmetic(a: Number, b: Number, plain: Callable[[Any, Any], Any], exact: Callable[[Any, Any], Decimal]) -> Number:
    """Doubles win over decimals, decimals over integers. A decimal that would lose digits is an error."""
    number: Number
    if isinstance(a, float) or isinstance(b, float):
        number = plain(float(a), float(b))
    elif isinstance(a, Decimal) or isinstance(b, Decimal):
        try:
            number = exact(a, b)
        except Inexact:
            raise DataError(f"a decimal computed from {a} and {b} has more than {EXACT.prec} digits") from None
    else:
        number = plain(a, b)
    return number


def neg(a: Number) -> Number:
    return EXACT.minus(a) if isinstance(a, Decimal) else -a


def divide(a: Number, b: Number) -> Number:
    if b == 0:
        raise DataError("division by zero")
    if isinstance(a, float) or isinstance(b, float):
        return float(a) / float(b)
    return EXACT.divide(Decimal(a), Decimal(b))


def integral_divide(a: Number, b: Number) -> int:
    """Truncated toward zero."""
    if b == 0:
        raise DataError("division by zero")
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return int(EXACT.divide_int(Decimal(a), Decimal(b)))


def remainder(a: Number, b: Number) -> Number:
    """The sign is that of `a`."""
    if b == 0:
        raise DataError("division by zero")
    if isinstance(a, float) or isinstance(b, float):
        return NAN if math.isinf(a) or math.isnan(b) else math.fmod(a, b)
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return _unsigned_zero(EXACT.remainder(Decimal(a), Decimal(b)))
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def positive_remainder(a: Number, b: Number) -> Number:
    rest = remainder(a, b)
    return remainder(add(rest, b), b) if rest < 0 else rest


def absolute(a: Number) -> Number:
    return a.copy_abs() if isinstance(a, Decimal) else abs(a)


def sign(a: Number) -> Number:
    if isinstance(a, float):
        return a if math.isnan(a) or a == 0 else math.copysign(1.0, a)
    direction = (a > 0) - (a < 0)
    return Decimal(direction) if isinstance(a, Decimal) else direction


def ceil(a: Number, scale: int | None = None) -> Number:
    return _toward(a, scale, ROUND_CEILING, math.ceil)


def floor(a: Number, scale: int | None = None) -> Number:
    return _toward(a, scale, ROUND_FLOOR, math.floor)


def _toward(a: Number, scale: int | None, rounding: str, whole: Callable[[float], int]) -> Number:
    """A double becomes a bigint unless a scale is given. NaN becomes 0, as in Java and so in Spark."""
    if scale is not None:
        return _rounded(a, scale, rounding)
    if isinstance(a, Decimal):
        return _unsigned_zero(_at_scale(a, 0, rounding))
    if isinstance(a, float):
        if math.isnan(a):
            return 0
        if not -_BIGINT_LIMIT <= a < _BIGINT_LIMIT:
            raise DataError(f"{a} does not fit bigint")
        return whole(a)
    return a


def round_half_up(a: Number, scale: int = 0) -> Number:
    return _rounded(a, scale, ROUND_HALF_UP)


def round_half_even(a: Number, scale: int = 0) -> Number:
    return _rounded(a, scale, ROUND_HALF_EVEN)


def _rounded(a: Number, scale: int, rounding: str) -> Number:
    if isinstance(a, float):
        # Spark rounds what the double shows, not what it holds: 2.675 to two digits is 2.68.
        return float(_at_scale(Decimal(repr(a)), scale, rounding)) if math.isfinite(a) else a
    if isinstance(a, Decimal):
        return _unsigned_zero(_at_scale(a, scale, rounding))
    return int(_at_scale(Decimal(a), scale, rounding)) if scale < 0 else a


def _at_scale(a: Decimal, scale: int, rounding: str) -> Decimal:
    """At most `scale` digits behind the point; a negative scale rounds to tens, hundreds and so on."""
    if -exponent(a) <= scale:
        return a
    if a.adjusted() < -scale - 1:  # far less than half a unit: keep the sign, not hundreds of digits
        a = Decimal((a.as_tuple().sign, (1,), -scale - 2)) if a else Decimal(0)
    rounded = a.quantize(Decimal((0, (1,), -scale)), rounding=rounding, context=_WIDE)
    return rounded if scale >= 0 else rounded.quantize(Decimal(1), rounding=ROUND_DOWN, context=_WIDE)


# Doubles reach 1e308, so shown at a scale they have more digits than any decimal.
_WIDE = Context(prec=1000)


def exponent(a: Decimal) -> int:
    found = a.as_tuple().exponent
    assert isinstance(found, int), "decimals are finite"
    return found


def _unsigned_zero(a: Decimal) -> Decimal:
    """Spark's decimals know no -0."""
    return a if a else a.copy_abs()


def sqrt(a: float) -> float:
    return math.sqrt(a) if a >= 0 else NAN


def power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:  # 0 to a negative power, or a root of a negative number
        if a != 0:
            return NAN
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf


def exp(a: float) -> float:
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def logarithm(function: Callable[[float], float]) -> Callable[[float], float | None]:
    """Spark: the logarithm of what has none is NULL."""
    return lambda a: None if a <= 0 else function(a)


STRICT: dict[str, Callable[..., object]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": divide,
    "mean": divide,
    "%": remainder,
    "div": integral_divide,
    "neg": neg,
    "pmod": positive_remainder,
    "abs": absolute,
    "sign": sign,
    "ceil": ceil,
    "floor": floor,
    "round": round_half_up,
    "bround": round_half_even,
    "sqrt": sqrt,
    "power": power,
    "exp": exp,
    "ln": logarithm(math.log),
    "log10": logarithm(math.log10),
    "log2": logarithm(math.log2),
}
