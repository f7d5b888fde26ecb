"""How large numbers can be: a cast to a type that has room for all of them is no error.

Every variable has 64 bits, and a type that may say that it has less. What is computed from them has a bound, too,
which is taken through the operations:

    total                                at most 2^63 cents, since it is one word
    total * 0.0001                       at most 2^63 hundredths of a thousandth part
    cast(total * 0.0001 as decimal(38,6))    less than 10^32: never an error
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.typing import scalar_type
from viewmill.types import INTEGER_BITS, VOID, Type

Bound = Fraction | None
"""Numbers are at most this, either way; None if nothing is known."""

_WORD = 2**63


def fits(scalar: Scalar, target: Type, types: Mapping[str, Type]) -> bool:
    """Whether all values of an exact number have room in an exact type."""
    if isinstance(scalar, Call) and scalar.op == "mean":
        return True  # it has the type of a mean of such values
    bound = magnitude(scalar, types)
    if bound is None:
        return False
    rounds = scalar_type(scalar, types).scale > target.scale
    return bound + (Fraction(1, 10**target.scale) if rounds else 0) <= _largest(target)


def magnitude(scalar: Scalar, types: Mapping[str, Type]) -> Bound:
    match scalar:
        case Var(name):
            return _of_type(types.get(name, VOID))
        case Const(value):
            return _of_constant(value)
        case Cast(arg, type_) if type_.is_exact:
            within = magnitude(arg, types)
            return _largest(type_) if within is None else min(within, _largest(type_))
        case Call("+" | "-", (left, right)):
            a, b = magnitude(left, types), magnitude(right, types)
            return None if a is None or b is None else a + b
        case Call("*", (left, right)):
            a, b = magnitude(left, types), magnitude(right, types)
            return None if a is None or b is None else a * b
        case Call("/", (left, Const(divisor))):
            a, b = magnitude(left, types), _of_constant(divisor)
            return a / b if a is not None and b else None
        case Call("neg" | "abs", (arg,)):
            return magnitude(arg, types)
        case Call("case", args):
            return _greatest((*args[1:-1:2], args[-1]), types)
        case Call("coalesce", args):
            return _greatest(args, types)
        case _:
            return None


def _greatest(args: tuple[Scalar, ...], types: Mapping[str, Type]) -> Bound:
    bounds = [magnitude(arg, types) for arg in args]
    known = [bound for bound in bounds if bound is not None]
    return max(known) if len(known) == len(bounds) else None


def _of_constant(value: object) -> Bound:
    match value:
        case None:
            return Fraction(0)
        case int() | Decimal():
            return abs(Fraction(value))
        case _:
            return None


def _of_type(type_: Type) -> Bound:
    return min(_largest(type_), Fraction(_WORD, 10**type_.scale)) if type_.is_exact else None


def _largest(type_: Type) -> Fraction:
    """The largest number of an exact type."""
    if type_.is_integer:
        return Fraction(2 ** (INTEGER_BITS[type_.name] - 1) - 1)
    return Fraction(10**type_.precision - 1, 10**type_.scale)
