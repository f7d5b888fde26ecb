"""Arithmetic on 64-bit codes, for generated code. What does not fit sets a flag and is never taken for a number."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from viewmill.engines.local.interning import HEAP, STARTS
from viewmill.engines.local.raw import OVERFLOW, ZERO_DIVISOR, Int, add, multiply, peek, peek_byte, poke
from viewmill.engines.local.wordcode import WORD, inlined_words, instruction, words

_NAN = 0x7FF8000000000000
_DOUBLE = ir.DoubleType()


@instruction
def int64(builder: Any, word: Any) -> Any:
    """A word is one already."""
    return word


@instruction
def float64(builder: Any, word: Any) -> Any:
    return word if word.type == _DOUBLE else builder.sitofp(word, _DOUBLE)


@instruction
def whole_part(builder: Any, a: Any, b: Any) -> Any:
    """a / b, rounded towards zero."""
    return builder.sdiv(a, b)


@instruction
def rest_part(builder: Any, a: Any, b: Any) -> Any:
    """What is left of a, with its sign."""
    return builder.srem(a, b)


@instruction
def bits(builder: Any, value: Any) -> Any:
    """The code of a double. There is one zero and one NaN."""
    zero = builder.fcmp_ordered("==", value, _DOUBLE(0.0))
    none = builder.fcmp_unordered("uno", value, value)
    code = builder.select(none, WORD(_NAN), builder.bitcast(value, WORD))
    return builder.select(zero, WORD(0), code)


@instruction
def below(builder: Any, a: Any, b: Any) -> Any:
    """a < b, where NaN is greater than every other number."""
    less = builder.fcmp_ordered("<", a, b)
    last = builder.and_(builder.fcmp_unordered("uno", b, b), builder.fcmp_ordered("ord", a, a))
    return builder.zext(builder.or_(less, last), WORD)


@instruction
def same(builder: Any, a: Any, b: Any) -> Any:
    """a = b, where NaN equals itself."""
    both = builder.and_(builder.fcmp_unordered("uno", a, a), builder.fcmp_unordered("uno", b, b))
    return builder.zext(builder.or_(builder.fcmp_ordered("==", a, b), both), WORD)


@instruction
def divide(builder: Any, a: Any, b: Any, flags: Any) -> Any:
    """The quotient of doubles."""
    with builder.if_then(builder.fcmp_ordered("==", b, _DOUBLE(0.0)), likely=False):
        word = builder.inttoptr(flags, WORD.as_pointer())
        builder.store(builder.or_(builder.load(word), WORD(ZERO_DIVISOR)), word)
    return builder.fdiv(a, b)


@instruction
def abs(builder: Any, value: Any) -> Any:
    if value.type == _DOUBLE:
        return builder.select(builder.fcmp_ordered("<", value, _DOUBLE(0.0)), builder.fneg(value), value)
    return builder.select(builder.icmp_signed("<", value, WORD(0)), builder.neg(value), value)


@inlined_words
def fail(flags: Int, flag: Int) -> None:
    poke(flags, 0, peek(flags, 0) | flag)


@words
def round_off(a: Int, unit: Int) -> Int:
    """a / unit, rounded half away from zero."""
    whole, rest = whole_part(abs(a), unit), rest_part(abs(a), unit)
    if rest >= unit - rest:
        whole += 1
    return whole if a >= 0 else -whole


@words
def truncated(a: Int, unit: Int) -> Int:
    """a / unit, rounded towards zero."""
    return whole_part(a, unit)


@words
def quotient(a: Int, b: Int, digits: Int, flags: Int) -> Int:
    """a / b with so many more digits, rounded half away from zero: long division, a digit at a time."""
    if b == 0:
        fail(flags, ZERO_DIVISOR)
        return a
    below = abs(b)
    for _ in range(-digits):
        below = multiply(below, 10, flags)
    if below <= 0:  # overflowed, and flagged
        return a
    whole, rest = whole_part(abs(a), below), rest_part(abs(a), below)
    for _ in range(digits):
        rest = multiply(rest, 10, flags)
        whole = add(multiply(whole, 10, flags), whole_part(rest, below), flags)
        rest = rest_part(rest, below)
    if rest >= below - rest:
        whole += 1
    return whole if (a >= 0) == (b >= 0) else -whole


@words
def whole_quotient(a: Int, b: Int, flags: Int) -> Int:
    """a / b rounded towards zero."""
    if b == 0:
        fail(flags, ZERO_DIVISOR)
        return a
    return -a if b == -1 else whole_part(a, b)


@words
def remainder(a: Int, b: Int, flags: Int) -> Int:
    """What is left of a, with its sign."""
    if b == 0:
        fail(flags, ZERO_DIVISOR)
        return a
    return 0 if b == -1 else rest_part(a, b)


@inlined_words
def within(a: Int, limit: Int, flags: Int) -> Int:
    """The number, if it is less than the limit either way."""
    if a >= limit or a <= -limit:
        fail(flags, OVERFLOW)
    return a


@inlined_words
def within_bits(a: Int, limit: Int, flags: Int) -> Int:
    """The number, if it is an integer type's: from -limit to limit - 1."""
    if a >= limit or a < -limit:
        fail(flags, OVERFLOW)
    return a


@inlined_words
def a_date(days: Int, flags: Int) -> Int:
    """The day, if it has a date: from the 1st of January of year 1 to the 31st of December of 9999."""
    if days < -719162 or days > 2932896:
        fail(flags, OVERFLOW)
    return days


@words
def compare_texts(dictionary: Int, a: Int, b: Int) -> Int:
    """Below, at or above 0 as string `a` sorts before, with or after string `b`, byte by byte."""
    heap, starts = peek(dictionary, HEAP), peek(dictionary, STARTS)
    at, other = peek(starts, a), peek(starts, b)
    length, other_length = peek(starts, a + 1) - at, peek(starts, b + 1) - other
    for i in range(min(length, other_length)):
        difference = peek_byte(heap, at + i) - peek_byte(heap, other + i)
        if difference != 0:
            return difference
    return length - other_length


@inlined_words
def day_of_era(days: Int) -> Int:
    """Days are counted from the 1st of March of year 0, in eras of 400 years."""
    return rest_part(days + 719468, 146097)


@inlined_words
def year_of_era(days: Int) -> Int:
    day = day_of_era(days)
    leap = whole_part(day, 1460) - whole_part(day, 36524) + whole_part(day, 146096)
    return whole_part(day - leap, 365)


@inlined_words
def day_of_year(days: Int) -> Int:
    year = year_of_era(days)
    return day_of_era(days) - (365 * year + whole_part(year, 4) - whole_part(year, 100))


@words
def month_of(days: Int) -> Int:
    from_march = whole_part(5 * day_of_year(days) + 2, 153)
    return from_march + 3 if from_march < 10 else from_march - 9


@words
def year_of(days: Int) -> Int:
    """Of a date of the year 0 or later, as all are."""
    year = year_of_era(days) + whole_part(days + 719468, 146097) * 400
    return year + 1 if month_of(days) <= 2 else year


@words
def day_of(days: Int) -> Int:
    from_march = whole_part(5 * day_of_year(days) + 2, 153)
    return day_of_year(days) - whole_part(153 * from_march + 2, 5) + 1


@words
def quarter_of(days: Int) -> Int:
    return whole_part(month_of(days) + 2, 3)
