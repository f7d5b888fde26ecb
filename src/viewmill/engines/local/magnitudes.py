"""How large numbers can be: a cast to a type that has room for all of them is no error.

What is kept in a store is one word of 64 bits, and its type may say that it has less. What is computed from such
numbers has a range, too, which is taken through the operations:

    total                                    one word, of cents
    total * 0.0001                           a ten-thousandth of it
    cast(total * 0.0001 as decimal(38,6))    less than 10^32: never an error

A sum over many records is not one word: where it does not fit, it is computed in another way, and is larger. It is no
larger than the words of all records together, so there are two answers: for stores of any size, and for stores that
have no more records than `MANY`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.typing import scalar_type
from viewmill.types import INTEGER_BITS, VOID, Type

_WORD = 2**63

MANY = 2**20
"""Records, more than which a store seldom has. The sum of so many words has 25 digits."""


class Range(NamedTuple):
    """Numbers from `low` to `high`."""

    low: Fraction
    high: Fraction


Ranges = Mapping[str, Range | None]
"""What is known of variables that are no words of a store; None: nothing."""


def sum_of_many(type_: Type) -> Range | None:
    """Sums of words of a store that has no more than `MANY`."""
    one = _of_word(type_, of_type=False)
    return None if one is None else Range(one.low * MANY, one.high * MANY)


def fits(scalar: Scalar, target: Type, types: Mapping[str, Type], ranges: Ranges) -> bool:
    """Whether all values of an exact number have room in an exact type."""
    if isinstance(scalar, Call) and scalar.op == "mean":
        return True  # it has the type of a mean of such values
    found = range_of(scalar, types, ranges)
    if found is None:
        return False
    room = _of_type(target)
    rounding = Fraction(1, 10**target.scale) if scalar_type(scalar, types).scale > target.scale else Fraction(0)
    return room.low <= found.low - rounding and found.high + rounding <= room.high


def range_of(scalar: Scalar, types: Mapping[str, Type], ranges: Ranges) -> Range | None:
    """None if it may be anything."""
    match scalar:
        case Var(name):
            return ranges[name] if name in ranges else _of_word(types.get(name, VOID))
        case Const(value):
            return _of_constant(value)
        case Cast(arg, type_) if type_.is_exact:
            inner, room = range_of(arg, types, ranges), _of_type(type_)
            return room if inner is None else Range(max(inner.low, room.low), min(inner.high, room.high))
        case Call("+" | "-" | "*" | "/" as op, (left, right)):
            a, b = range_of(left, types, ranges), range_of(right, types, ranges)
            return None if a is None or b is None else _combined(op, a, b)
        case Call("neg", (arg,)):
            inner = range_of(arg, types, ranges)
            return None if inner is None else _combined("-", Range(Fraction(0), Fraction(0)), inner)
        case Call("abs", (arg,)):
            inner = range_of(arg, types, ranges)
            return None if inner is None else Range(Fraction(0), max(inner.high, -inner.low))
        case Call("case", args):
            return _union(range_of(arg, types, ranges) for arg in (*args[1:-1:2], args[-1]))
        case Call("coalesce", args):
            return _union(range_of(arg, types, ranges) for arg in args)
        case _:
            return None


def _combined(op: str, a: Range, b: Range) -> Range | None:
    match op:
        case "+":
            return Range(a.low + b.low, a.high + b.high)
        case "-":
            return Range(a.low - b.high, a.high - b.low)
        case "*":
            return _around(x * y for x in a for y in b)
        case _ if b.low > 0 or b.high < 0:
            return _around(x / y for x in a for y in b)
        case _:
            return None


def _around(numbers: Iterable[Fraction]) -> Range:
    found = list(numbers)
    return Range(min(found), max(found))


def _union(parts: Iterable[Range | None]) -> Range | None:
    found = list(parts)
    known = [part for part in found if part is not None]
    return _around(end for part in known for end in part) if len(known) == len(found) else None


def _of_constant(value: object) -> Range | None:
    match value:
        case None:
            return Range(Fraction(0), Fraction(0))
        case int() | Decimal():
            return Range(Fraction(value), Fraction(value))
        case _:
            return None


def _of_word(type_: Type, *, of_type: bool = True) -> Range | None:
    """What one word can be; `of_type`, if it has a value that its type allows."""
    if not type_.is_exact:
        return None
    room, word = _of_type(type_), Fraction(_WORD, 10**type_.scale)
    return Range(max(room.low, -word), min(room.high, word)) if of_type else Range(-word, word)


def _of_type(type_: Type) -> Range:
    """All numbers of an exact type."""
    if type_.is_integer:
        bound = 2 ** (INTEGER_BITS[type_.name] - 1)
        return Range(Fraction(-bound), Fraction(bound - 1))
    most = Fraction(10**type_.precision - 1, 10**type_.scale)
    return Range(-most, most)
