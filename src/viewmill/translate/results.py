"""What an aggregate returns, as a formula of its measures: the count, the sum and the sum of squares of its values.

The formulas hold for at least one value (two for the sample variance); the caller sees to NULL for fewer.
"""

from __future__ import annotations

from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.types import BIGINT, DOUBLE, MAX_PRECISION, Type, as_decimal, decimal

WIDEST = decimal(MAX_PRECISION, 0)


def average(total: str, count: str, type_: Type) -> Scalar:
    """Spark's rule: decimals are divided exactly and rounded to the result type, all else is divided as doubles.

    It is written as a mean and not as a quotient, since it is among its values: those that count are no 0, and what
    has room for each of them has room for it.
    """
    if type_.is_decimal:
        quotient = "mean" if type_.precision < MAX_PRECISION else "/"  # the widest type may have less room
        return Cast(Call(quotient, (Var(total), Cast(Var(count), as_decimal(BIGINT)))), type_)
    return Call("mean", (Cast(Var(total), DOUBLE), Cast(Var(count), DOUBLE)))


def variance(count: str, total: str, squares: str, values: Type, *, sample: bool) -> Scalar:
    """`(n * sum(x * x) - sum(x) * sum(x)) / (n * n)`, or over `n * (n - 1)` for a sample.

    The difference is exact for integers and decimals. For doubles it cancels digits when the mean is large against the
    deviation, and may come out just below 0, which is taken as 0.
    """
    s, q = _wide(Var(total), values), _wide(Var(squares), values)
    n = Cast(Var(count), WIDEST if values.is_exact else DOUBLE)
    difference = _minus(_times(n, q), _times(s, s))
    if not values.is_exact:
        difference = Call("greatest", (difference, Const(0.0)))
    pairs = _times(Var(count), _minus(Var(count), Const(1)) if sample else Var(count))
    return _quotient(difference, pairs)


def _wide(scalar: Scalar, values: Type) -> Scalar:
    """As a number that keeps every digit when multiplied. Sums of decimals are such numbers already."""
    return scalar if values.is_decimal else Cast(scalar, WIDEST if values.is_integer else DOUBLE)


def _times(left: Scalar, right: Scalar) -> Scalar:
    return Call("*", (left, right))


def _minus(left: Scalar, right: Scalar) -> Scalar:
    return Call("-", (left, right))


def _quotient(left: Scalar, right: Scalar) -> Scalar:
    return Call("/", (Cast(left, DOUBLE), Cast(right, DOUBLE)))
