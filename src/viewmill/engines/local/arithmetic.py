"""Arithmetic on 64-bit codes, for generated code. What does not fit sets a flag and is never taken for a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from viewmill.engines.local import raw
from viewmill.engines.local.interning import HEAP, STARTS
from viewmill.engines.local.raw import OVERFLOW, ZERO_DIVISOR, Int, Real, add, multiply, peek, peek_byte, poke

F = TypeVar("F", bound=Callable[..., Any])

NULL = np.int64(-(2**63))
_NAN = np.int64(0x7FF8000000000000)


def inlined(function: F) -> F:
    """Compiled into generated code where it is called."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy", inline="never")(function))


@inlined
def fail(flags: Int, flag: Int) -> None:
    poke(flags, 0, peek(flags, 0) | flag)


@inlined
def round_off(a: Int, unit: Int) -> Int:
    """a / unit, rounded half away from zero."""
    whole, rest = abs(a) // unit, abs(a) % unit
    if rest >= unit - rest:
        whole += 1
    return whole if a >= 0 else -whole


@inlined
def truncated(a: Int, unit: Int) -> Int:
    """a / unit, rounded towards zero."""
    return abs(a) // unit if a >= 0 else -(abs(a) // unit)


@inlined
def quotient(a: Int, b: Int, digits: Int, flags: Int) -> Int:
    """a / b with so many more digits, rounded half away from zero: long division, a digit at a time."""
    if b == 0:
        fail(flags, ZERO_DIVISOR)
        return a
    top, below = abs(a), abs(b)
    for _ in range(-digits):
        below = multiply(below, np.int64(10), flags)
    if below == 0:  # overflowed, and flagged
        return a
    whole, rest = top // below, top % below
    for _ in range(digits):
        rest = multiply(rest, np.int64(10), flags)
        whole = add(multiply(whole, np.int64(10), flags), rest // below, flags)
        rest = rest % below
    if rest >= below - rest:
        whole += 1
    return whole if (a >= 0) == (b >= 0) else -whole


@inlined
def whole_quotient(a: Int, b: Int, flags: Int) -> Int:
    """a / b rounded towards zero."""
    if b == 0:
        fail(flags, ZERO_DIVISOR)
        return a
    whole = abs(a) // abs(b)
    return whole if (a >= 0) == (b >= 0) else -whole


@inlined
def remainder(a: Int, b: Int, flags: Int) -> Int:
    """What is left of a, with its sign."""
    if b == 0:
        fail(flags, ZERO_DIVISOR)
        return a
    rest = abs(a) % abs(b)
    return rest if a >= 0 else -rest


@inlined
def within(a: Int, limit: Int, flags: Int) -> Int:
    """The number, if it is less than the limit either way."""
    if a >= limit or a <= -limit:
        fail(flags, OVERFLOW)
    return a


@inlined
def within_bits(a: Int, limit: Int, flags: Int) -> Int:
    """The number, if it is an integer type's: from -limit to limit - 1."""
    if a >= limit or a < -limit:
        fail(flags, OVERFLOW)
    return a


@inlined
def divide(a: Real, b: Real, flags: Int) -> Real:
    if b == 0.0:
        fail(flags, ZERO_DIVISOR)
        return a
    return a / b


@inlined
def bits(value: Real) -> Int:
    """The code of a double. There is one zero and one NaN."""
    if value == 0.0:
        return np.int64(0)
    if value != value:
        return _NAN
    return raw.bits(value)


@inlined
def below(a: Real, b: Real) -> bool:
    """a < b, where NaN is greater than every other number."""
    return (a < b) or (b != b and a == a)


@inlined
def same(a: Real, b: Real) -> bool:
    """a = b, where NaN equals itself."""
    return (a == b) or (a != a and b != b)


@inlined
def compare_texts(dictionary: Int, a: Int, b: Int) -> Int:
    """Below, at or above 0 as string `a` sorts before, with or after string `b`, byte by byte."""
    heap, offsets = peek(dictionary, HEAP), peek(dictionary, STARTS)
    at, other = peek(offsets, a), peek(offsets, b)
    length, other_length = peek(offsets, a + 1) - at, peek(offsets, b + 1) - other
    for i in range(min(length, other_length)):
        difference = peek_byte(heap, at + i) - peek_byte(heap, other + i)
        if difference != 0:
            return difference
    return length - other_length


@inlined
def civil(days: Int) -> tuple[Int, Int, Int]:
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


@inlined
def year_of(days: Int) -> Int:
    return civil(days)[0]


@inlined
def month_of(days: Int) -> Int:
    return civil(days)[1]


@inlined
def day_of(days: Int) -> Int:
    return civil(days)[2]


@inlined
def quarter_of(days: Int) -> Int:
    return (civil(days)[1] + 2) // 3

