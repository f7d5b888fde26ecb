"""Put the factors of every product in an order that can be run from left to right (Hot Dog section 3.2.1).

    M_R(a, b) * {a < x} * (x := M_S(b)) * Exists(d_S(b))   =>   Exists(d_S(b)) * M_R(a, b) * (x := M_S(b)) * {a < x}

Information about variables flows from left to right. Cheapest first: conditions as soon as they can be decided,
look-ups of whole keys and of one record by a primary key, small things (batches) before large ones, slices before
scans, values last (a weight of 0 skips them), and what can fail only for rows that passed everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from viewmill.algebra.build import agg_sum, product, top_k
from viewmill.algebra.nodes import (
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
from viewmill.algebra.scalars import can_fail
from viewmill.algebra.schema import children, inputs, relations, schema, with_children
from viewmill.errors import InternalError

Single = Mapping[str, tuple[frozenset[str], ...]]
"""For a store, sets of keys of which each is found in one record at most."""


def order(expr: Expr, bound: frozenset[str] = frozenset(), single: Single = MappingProxyType({})) -> Expr:
    """The same expression, runnable when `bound` variables are given."""
    match expr:
        case Product(factors):
            return product(*_ordered(list(factors), bound, single))
        case AggSum(group, body):
            return agg_sum(group, order(body, bound - (set(schema(body)) - set(group)), single))
        case Extreme(var, kind, of, body):
            return Extreme(var, kind, of, order(body, bound - set(schema(body)), single))
        case TopK(keys, limit, offset, body):
            # What is known of its rows is asked of those it picks.
            return top_k(keys, limit, offset, order(body, bound - set(schema(body)), single))
        case _:
            return with_children(expr, tuple(order(part, bound, single) for part in children(expr)))


def _ordered(factors: list[Expr], bound: frozenset[str], single: Single) -> list[Expr]:
    # Outer variables of the same name as a produced one would be joined with it: the product's own scope decides.
    known = set(bound)
    done: list[Expr] = []
    while factors:
        ready = [factor for factor in factors if inputs(factor) <= known]
        if not ready:
            missing = sorted(set().union(*map(inputs, factors)) - known)
            raise InternalError(f"no factor can be run: {', '.join(missing)} is never bound")
        chosen = min(ready, key=lambda factor: _cost(factor, known, single))
        factors.remove(chosen)
        done.append(order(chosen, frozenset(known), single))
        known |= set(schema(chosen))
    return done


def _cost(factor: Expr, known: set[str], single: Single) -> tuple[int, int]:
    produced = set(schema(factor))
    free = len(produced - known)
    match factor:
        case Test(scalar) | Lift(_, Value(scalar)) if can_fail(scalar):
            return (8, 0)  # only for rows that passed everything else
        case Test():
            return (0, 0)
        case Lift(_, Value()):
            return (1, 0)
        case Value():
            return (9, 0)
        case _ if not relations(factor):
            return (2, free)
        case Relation() | DeltaRelation() | Exists() | Product() | AggSum() | Sum() if not free:
            return (3, 0)
        case Relation(name, fields, vars_) if name in single:
            given = {field for field, var in zip(fields, vars_, strict=True) if var in known}
            if any(key <= given for key in single[name]):
                return (3, 1)
            return (5 if given else 6, free)
        case Lift() | Extreme():
            return (4, 0)
        case _:
            return (5 if produced & known else 6, free)
