"""The change of an expression for a pending batch (Hot Dog sections 3.1 and 3.2).

    delta(R(a, b) * S(b, c), {R})  ==  d_R(a, b) * S(b, c)

The linear nodes have the usual rules. The others (`Lift`, `Extreme`, `Exists`, `TopK`) have one rule between them,
domain extraction generalised: for the keys that the batch can affect, the new value less the old one,

    delta(N)  ==  Domain * (After(N) - N)

where `After` reads the state that includes the batch. The rule is applied to all such factors of a product at
once. One by one, a derived table with five aggregates over one relation would have 31 terms; at once it has two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias, assert_never

from viewmill.algebra.build import agg_sum, factors, neg, product, sum_, terms
from viewmill.algebra.nodes import (
    ONE,
    ZERO,
    After,
    AggSum,
    DeltaRelation,
    Exists,
    Expr,
    Extreme,
    Lift,
    Product,
    Relation,
    Sum,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.schema import inputs, relations, schema
from viewmill.delta.domains import domain, union
from viewmill.errors import InternalError

NonLinear: TypeAlias = Lift | Extreme | Exists | TopK


def delta(expr: Expr, changed: frozenset[str]) -> Expr:
    """The change in `expr` when the relations `changed` take their pending batches.

    Exact: for every database D and batch d, `expr(D + d) = expr(D) + delta(expr)(D, d)`. The delta may produce some
    of the inputs of `expr`, where a domain knows the values for which there is a change at all.
    """
    if not relations(expr) & changed:
        return ZERO
    match expr:
        case Relation(name, fields, vars_):
            return DeltaRelation(name, fields, vars_)
        case Sum(parts):
            return sum_(delta(part, changed) for part in parts)
        case AggSum(group, body):
            change = delta(body, changed)
            # A domain can bind what was an input. It stays visible, or the correlation would be lost.
            return agg_sum((*group, *(name for name in schema(change) if name in inputs(body))), change)
        case Product(parts):
            return _product(parts, changed)
        case Lift() | Extreme() | Exists() | TopK():
            return _change((expr,), changed)
        case After():
            raise InternalError("a delta has no delta of its own; stores are defined without pending batches")
        case DeltaRelation() | Value() | Test():
            return ZERO
        case _:
            assert_never(expr)


def _product(parts: tuple[Expr, ...], changed: frozenset[str]) -> Expr:
    """`delta(L * N)  ==  delta(L) * After(N) + L * delta(N)` for linear L and non-linear N."""
    same = [f for f in parts if not relations(f) & changed]
    moving = [f for f in parts if relations(f) & changed]
    nonlinear = tuple(f for f in moving if isinstance(f, NonLinear))
    linear = [f for f in moving if not isinstance(f, NonLinear)]
    return sum_(
        (
            _times(_linear(linear, changed), *same, *map(after, nonlinear)),
            _times(_change(nonlinear, changed), *same, *linear),
        )
    )


FEW = 3
"""Up to this many changed factors, all combinations of changes are spelled out."""


def _linear(parts: Sequence[Expr], changed: frozenset[str]) -> Expr:
    """The change of a product of linear factors.

        delta(A * B)      ==  d_A * B + A * d_B + d_A * d_B
        delta(A * B * C)  ==  d_A * B * C + After(A) * d_B * C + After(A) * After(B) * d_C

    The first rule leaves more for stores to keep, and has 2^n - 1 terms; the second has n.
    """
    if len(parts) > FEW:
        return sum_(
            _times(delta(part, changed), *map(After, parts[:i]), *parts[i + 1 :]) for i, part in enumerate(parts)
        )

    def both(left: tuple[Expr, Expr], right: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        (a, d_a), (b, d_b) = left, right
        # The third term pairs changes with changes. Without it a self-join loses
        # the rows that both sides gain in one batch.
        return product(a, b), sum_((_times(d_a, b), _times(d_b, a), *(_times(d_b, term) for term in terms(d_a))))

    start: tuple[Expr, Expr] = ONE, ZERO
    return reduce(both, ((f, delta(f, changed)) for f in parts), start)[1]


def _change(parts: tuple[NonLinear, ...], changed: frozenset[str]) -> Expr:
    """`Domain * (After(N) - N)` for the product N of non-linear factors."""
    if not parts:
        return ZERO
    affected = union([_affected(f, changed) for f in parts])
    return _times(sum_((product(*map(after, parts)), neg(product(*parts)))), affected or ONE)


def _times(change: Expr, *others: Expr) -> Expr:
    """The product, term by term: one term may give the others a variable that another term needs from them."""
    return sum_(product(term, *others) for term in terms(change))


def _affected(factor: NonLinear, changed: frozenset[str]) -> Expr | None:
    """The keys for which a factor can change: its inputs, and for Exists, which looks at each row alone, the rows."""
    visible = inputs(factor) | (set(schema(factor)) if isinstance(factor, Exists) else set())
    return domain(delta(factor.body, changed), frozenset(visible))


def after(factor: Expr) -> Expr:
    """The factor on the state that includes the batch."""
    match factor:
        case Lift(var, body):
            return Lift(var, After(body))
        case Extreme(var, kind, of, body):
            return Extreme(var, kind, of, After(body))
        case Exists(body):
            return Exists(After(body))
        case TopK(order, limit, offset, body):
            return TopK(order, limit, offset, After(body))
        case _:
            return After(factor)


def reach(expr: Expr, changed: frozenset[str]) -> Expr | None:
    """The keys of `expr` that a change of these relations can affect, or None if any may be.

    A product can only change where one of its factors does, so this looks at factors one by one.
    """
    parts = factors(expr)
    visible = frozenset(schema(expr))
    settled = [part for part in parts if not relations(part)]
    moving = [part for part in parts if relations(part) & changed]
    return union([domain(_times(delta(part, changed), *settled), visible) for part in moving])
