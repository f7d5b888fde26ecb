"""Exact arithmetic on 64-bit codes, for generated code. What does not fit is an OverflowError, never a wrong number."""

from __future__ import annotations

import numpy as np

from viewmill.engines.local.kernels import Ints, Weights, kernel

_MOST = np.int64(2**63 - 1)
_ZERO: int = np.int64(0)  # type: ignore[assignment]
_NAN: int = np.int64(0x7FF8000000000000)  # type: ignore[assignment]


# Compiled signed arithmetic is taken not to wrap around, so a test of the result may be optimised away. Test before.


@kernel
def add(a: int, b: int) -> int:
    if (b > 0 and a > _MOST - b) or (b < 0 and a < -_MOST - b):
        raise OverflowError("a number has more than 64 bits")
    return a + b


@kernel
def subtract(a: int, b: int) -> int:
    if (b < 0 and a > _MOST + b) or (b > 0 and a < -_MOST + b):
        raise OverflowError("a number has more than 64 bits")
    return a - b


@kernel
def multiply(a: int, b: int) -> int:
    if a != 0 and b != 0 and (a < -_MOST or b < -_MOST or abs(b) > _MOST // abs(a)):
        raise OverflowError("a number has more than 64 bits")
    return a * b


@kernel
def round_off(a: int, unit: int) -> int:
    """a / unit, rounded half away from zero."""
    whole, rest = abs(a) // unit, abs(a) % unit
    if rest >= unit - rest:
        whole += 1
    return whole if a >= 0 else -whole


@kernel
def quotient(a: int, b: int, digits: int) -> int:
    """a / b with so many more digits, rounded half away from zero: long division, a digit at a time."""
    if b == 0:
        raise ZeroDivisionError("division by zero")
    top, below = abs(a), abs(b)
    for _ in range(-digits):
        below = multiply(below, 10)
    whole, rest = top // below, top % below
    for _ in range(digits):
        rest = multiply(rest, 10)
        whole = add(multiply(whole, 10), rest // below)
        rest = rest % below
    if rest >= below - rest:
        whole += 1
    return whole if (a >= 0) == (b >= 0) else -whole


@kernel
def within(a: int, limit: int) -> int:
    """The number, if it is less than the limit either way."""
    if a >= limit or a < -limit:
        raise OverflowError("a number does not fit its type")
    return a


@kernel
def divide(a: float, b: float) -> float:
    if b == 0.0:
        raise ZeroDivisionError("division by zero")
    return a / b


@kernel
def bits(value: float) -> int:
    """The code of a double. There is one zero and one NaN."""
    if value == 0.0:
        return _ZERO
    if value != value:
        return _NAN
    return np.float64(value).view(np.int64)  # type: ignore[return-value]


@kernel
def double(code: int) -> float:
    return np.int64(code).view(np.float64)


@kernel
def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a date, by counting from March of year 0 in eras of 400 years."""
    shifted = days + 719468
    era = shifted // 146097
    day_of_era = shifted - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return year_of_era + era * 400 + (1 if month <= 2 else 0), month, day


@kernel
def year_of(days: int) -> int:
    return civil(days)[0]


@kernel
def month_of(days: int) -> int:
    return civil(days)[1]


@kernel
def day_of(days: int) -> int:
    return civil(days)[2]


@kernel
def quarter_of(days: int) -> int:
    return (civil(days)[1] + 2) // 3


@kernel
def grown(keys: Ints, weights: Weights) -> tuple[Ints, Weights]:
    """Output buffers of twice the length, with the same contents."""
    longer_keys = np.empty((2 * keys.shape[0], keys.shape[1]), np.int64)
    longer_keys[: keys.shape[0]] = keys
    longer_weights = np.empty(2 * weights.shape[0], weights.dtype)
    longer_weights[: weights.shape[0]] = weights
    return longer_keys, longer_weights
