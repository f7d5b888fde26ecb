"""Put the factors of every product in an order that can be run from left to right (Hot Dog section 3.2.1).

    M_R(a, b) * {a < x} * (x := M_S(b)) * Exists(d_S(b))   =>   Exists(d_S(b)) * M_R(a, b) * (x := M_S(b)) * {a < x}

Information about variables flows from left to right. Cheapest first: conditions as soon as they can be decided,
look-ups of whole keys and of one record by a primary key, small things (batches) before large ones, short slices
before long ones and before scans, values last (a weight of 0 skips them), and what can fail only for rows that passed
everything else.

One batch is enough to start from. Where a relation is joined with itself by way of others, the second one waits until
something connects both: rows of it are looked up for those that were found, and not each of them paired with each.

    d_n(s) * d_n(c) * supplier(k, s) * item(k, o) * orders(o, c)
        =>   d_n(s) * supplier(k, s) * item(k, o) * orders(o, c) * d_n(c)
"""

from __future__ import annotations

from collections.abc import Callable

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

Found = Callable[[str, frozenset[str]], float]
"""About how many records of a store have given values in given keys; 1 or less if that is certain."""


def order(expr: Expr, bound: frozenset[str] = frozenset(), found: Found | None = None) -> Expr:
    """The same expression, runnable when `bound` variables are given."""
    match expr:
        case Product(factors):
            return product(*_ordered(list(factors), bound, found))
        case AggSum(group, body):
            return agg_sum(group, order(body, bound - (set(schema(body)) - set(group)), found))
        case Extreme(var, kind, of, body):
            return Extreme(var, kind, of, order(body, bound - set(schema(body)), found))
        case TopK(keys, limit, offset, body):
            # What is known of its rows is asked of those it picks.
            return top_k(keys, limit, offset, order(body, bound - set(schema(body)), found))
        case _:
            return with_children(expr, tuple(order(part, bound, found) for part in children(expr)))


def _ordered(factors: list[Expr], bound: frozenset[str], found: Found | None) -> list[Expr]:
    # Outer variables of the same name as a produced one would be joined with it: the product's own scope decides.
    known = set(bound)
    done: list[Expr] = []
    while factors:
        ready = [factor for factor in factors if inputs(factor) <= known]
        if not ready:
            missing = sorted(set().union(*map(inputs, factors)) - known)
            raise InternalError(f"no factor can be run: {', '.join(missing)} is never bound")
        is_started = any(map(_is_batch, done))
        chosen = min(ready, key=lambda factor: _cost(factor, known, found, is_started))
        factors.remove(chosen)
        done.append(order(chosen, frozenset(known), found))
        known |= set(schema(chosen))
    return done


def _is_batch(factor: Expr) -> bool:
    """Rows that come from batches alone."""
    return bool(schema(factor)) and not isinstance(factor, Lift) and not relations(factor)


def _cost(factor: Expr, known: set[str], found: Found | None, is_started: bool) -> tuple[int, float]:
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
            return (6, 0) if is_started and free and not produced & known and _is_batch(factor) else (2, free)
        case Relation() | DeltaRelation() | Exists() | Product() | AggSum() | Sum() if not free:
            return (3, 0)
        case Relation(name, fields, vars_) if found is not None:
            given = frozenset(field for field, var in zip(fields, vars_, strict=True) if var in known)
            records = found(name, given)
            return (3, 1) if records <= 1 else (5 if given else 6, records)
        case Lift() | Extreme():
            return (4, 0)
        case _:
            return (5 if produced & known else 6, free)
