"""Domain extraction: the keys that a batch can affect (Hot Dog section 3.2.2 and figure 1).

A domain of an expression is a set, all weights 1, outside of which the expression is 0:

    domain(Sum[](d_S(b2, c) * (b2 := b)), {b})  ==  Exists(Sum[b](Exists(d_S(b2, c)) * (b := b2)))

It is built from pending batches only, so it is as small as the batch. A domain that is too large does no harm (old and
new cancel); one too small is wrong. That is why the inner `Exists` is there: a batch that moves a row inside
a group has weights that add up to 0, and the group is affected all the same.

We go beyond figure 1 in two points. Equalities with the outside (`{b = b2}`, `(b2 := b)`) are followed, since in our
algebra a correlated variable is an input and not a column. And a sum has the union of its terms' domains,
cut to the variables they share, where the paper keeps only what the terms have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from viewmill.algebra import scalars
from viewmill.algebra.build import agg_sum, assign, exists, factors, product, sum_
from viewmill.algebra.nodes import (
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
from viewmill.algebra.scalars import Call, Scalar, Var
from viewmill.algebra.schema import deltas, inputs, relations, schema, tidy


def domain(expr: Expr, wanted: frozenset[str]) -> Expr | None:
    """A set over some of the `wanted` variables, outside of which `expr` is 0. None: nothing restricts them."""
    support = _support(expr)
    return None if support is None else _project(support, wanted)


def union(domains: Sequence[Expr | None]) -> Expr | None:
    """A set that holds every one of the sets, over the variables that all of them have."""
    found = [d for d in domains if d is not None]
    if not found or len(found) < len(domains):
        return None
    common = frozenset.intersection(*(frozenset(schema(d)) for d in found))
    parts = [part for d in found if (part := _project(d, common)) is not None]
    # The same keys are found once for each aggregate over one body, with other names for what is local.
    distinct = list(dict.fromkeys(_plain(member) for part in parts for member in _members(part)))
    if not distinct:
        return None
    return exists(distinct[0]) if len(distinct) == 1 else exists(sum_(distinct))


def _members(part: Expr) -> tuple[Expr, ...]:
    """A union of sets is taken apart: `Exists(A + B)` joins another union as A and B."""
    match part:
        case Exists(Sum(terms)) if all(isinstance(term, Exists) for term in terms):
            return terms
        case _:
            return (part,)


def _plain(part: Expr) -> Expr:
    visible = {name: name for name in (*schema(part), *inputs(part))}
    return exists(tidy(part, visible))


def _project(support: Expr, wanted: frozenset[str]) -> Expr | None:
    kept = tuple(name for name in schema(support) if name in wanted)
    if not kept:
        return None
    return support if len(kept) == len(schema(support)) else exists(agg_sum(kept, support))


def _support(expr: Expr) -> Expr | None:
    """A product of sets, assignments and tests that is not 0 wherever `expr` is not 0."""
    match expr:
        case DeltaRelation():
            return exists(expr)
        case Exists(body):
            return exists(expr) if _is_small(body) else _support(body)
        case TopK(_, _, _, body):
            return _support(body)  # it has no row that the body has not
        case Product(parts):
            return _product_support(parts)
        case AggSum(group, body):
            inner = _support(body)
            return None if inner is None else _project(inner, frozenset(group) | inputs(expr))
        case Sum(terms):
            return union([_support(term) for term in terms])
        case Relation() | Lift() | Extreme() | Value() | Test() | After():
            return None
        case _:
            assert_never(expr)


def _is_small(expr: Expr) -> bool:
    """Made of pending batches, so as small as they are."""
    return bool(deltas(expr)) and not relations(expr)


def _product_support(parts: Iterable[Expr]) -> Expr | None:
    """Join the supports of all factors, then every test and assignment that the joined variables decide."""
    parts = tuple(parts)
    sets = [support for part in parts if (support := _support(part)) is not None]
    if not sets:
        return None
    chosen = [f for s in sets for f in factors(s)]
    known = set(schema(product(*chosen)))
    rest = [
        part for part in parts if isinstance(part, Test) or (isinstance(part, Lift) and isinstance(part.body, Value))
    ]
    while usable := [(part, step) for part in rest if (step := _decided(part, known)) is not None]:
        for part, step in usable:
            rest.remove(part)
            if step not in chosen:
                chosen.append(step)
            known |= set(schema(step))
    return product(*dict.fromkeys(chosen))


def _decided(part: Expr, known: set[str]) -> Expr | None:
    """The factor to add for a test or assignment whose other side is known."""
    match part:
        case Test() | Lift(_, Value()) if inputs(part) <= known:
            return part
        case Test(Call("=", (left, right))):
            return _solved(left, right, known) or _solved(right, left, known)
        case Lift(var, Value(Var(source))) if var in known:
            return assign(source, Var(var))
        case _:
            return None


def _solved(unknown: Scalar, given: Scalar, known: set[str]) -> Expr | None:
    if isinstance(unknown, Var) and unknown.name not in known and scalars.variables(given) <= known:
        return assign(unknown.name, given)
    return None
