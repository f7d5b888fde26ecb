"""Sets that must be computed before they can be read: each becomes a change of its own, in front of the statement.

    Q(p) += Sum[p](Exists(Sum[k](Exists(d_L(k, c)) * {c > 3})) * M(k, p))
=>
    let d_set_1(k, c) = d_L(k, c)
    let d_set_2(k)    = Sum[k](Exists(d_set_1(k, c)) * {c > 3})
    Q(p) += Sum[p](Exists(d_set_2(k)) * M(k, p))

`Exists` needs to see the whole weight of a row. A pool has it, since merging adds up what belongs to one key; the
nested loops of compiled code see a row's weight in parts. In the same way a pending batch, which can only be read from
first to last, becomes a change of its own where it is looked up.

Sets of sets of the batch are domains (`delta/domains.py`), and one too large does no harm. So each row of the batch
counts by itself, even if another one takes it away again, and there is one set to compute instead of three:

    let d_set_1(k) = Sum[k](Exists(d_L(k, c)) * {c > 3})        where `Exists(d_L(k, c))` is any row, with weight 1
    Q(p) += Sum[p](Exists(d_set_1(k)) * M(k, p))

It does no harm as long as all terms have the same one: what is taken from each of its keys is given back. In a program
that is distributed, one term may read the batch as it comes and another after it has waited in a store, where rows that
cancel are gone. There, sets are what they are (`Source.exact`).
"""

from __future__ import annotations

from collections.abc import Callable

from viewmill.algebra.build import agg_sum, product, sum_
from viewmill.algebra.nodes import AggSum, DeltaRelation, Exists, Expr, Lift, Product, Relation, Sum, Test, Value
from viewmill.algebra.schema import bottom_up, children, inputs, relations, schema, with_children
from viewmill.engines.local.sources import Source, Sources

NewSet = Callable[[tuple[str, ...], Expr], tuple[str, tuple[str, ...]]]
"""Compute a set with these keys first. Returns its name and its own names for the keys: the same set is one."""


def hoist(expr: Expr, sources: Sources, new_set: NewSet, *, anew: bool) -> Expr:
    """`anew`: the expression runs over whole stores anyway, so sets of them may be computed, too."""
    if isinstance(expr, Exists) and not inputs(expr) and schema(expr) and _is_domain(expr.body, sources):
        keys = schema(expr)
        return Exists(DeltaRelation(*new_set(keys, agg_sum(keys, _members(expr.body))), keys))
    expr = with_children(expr, tuple(hoist(part, sources, new_set, anew=anew) for part in children(expr)))
    match expr:
        case Exists(body) if not inputs(body) and schema(body) and not is_distinct(body, sources):
            if relations(body) and not anew:
                return expr
            keys = schema(body)
            return Exists(DeltaRelation(*new_set(keys, agg_sum(keys, body)), keys))
        case _:
            return expr


def _is_domain(body: Expr, sources: Sources) -> bool:
    """Made of sets of the batch."""
    match body:
        case Exists(inner):
            return is_any_row(body, sources) or _is_domain(inner, sources)
        case AggSum(_, inner):
            return _is_domain(inner, sources)
        case Sum(parts):
            return all(_is_domain(part, sources) for part in parts)
        case Product(factors):
            sets = [factor for factor in factors if not _binds_no_rows(factor)]
            values = any(isinstance(factor, Value) for factor in factors)
            return bool(sets) and not values and all(_is_domain(factor, sources) for factor in sets)
        case _:
            return False


def _members(body: Expr) -> Expr:
    """What a set is made of, without the sets in between: nothing in a domain is less than 0."""
    match body:
        case Exists(DeltaRelation()):
            return body
        case Exists(inner):
            return _members(inner)
        case AggSum() | Sum() | Product():
            return with_children(body, tuple(map(_members, children(body))))
        case _:
            return body


def is_any_row(factor: Expr, sources: Sources) -> bool:
    """`Exists(d_R(a, b))` of the batch itself, where that is any row of it."""
    if not isinstance(factor, Exists) or not isinstance(factor.body, DeltaRelation):
        return False
    source = sources(factor.body)
    return source.kind == "batch" and not source.exact


def hoist_batches(expr: Expr, sources: Sources, new_set: NewSet) -> Expr:
    """Batches stay only where they are scanned: as the first rows of a product."""

    def looked_up(part: Expr) -> Expr:
        def step(node: Expr) -> Expr:
            if isinstance(node, DeltaRelation) and sources(node).kind == "batch":
                fields = tuple(dict.fromkeys(node.fields))
                name, own = new_set(fields, DeltaRelation(node.name, fields, fields))
                return DeltaRelation(name, tuple(own[fields.index(field)] for field in node.fields), node.vars)
            return node

        return bottom_up(step, part)

    match expr:
        case AggSum(group, body):
            return agg_sum(group, hoist_batches(body, sources, new_set))
        case Sum(parts) if not is_overlay(parts):
            return sum_(hoist_batches(part, sources, new_set) for part in parts)
        case Product(factors):
            at = next((i for i, f in enumerate(factors) if not _binds_no_rows(f)), len(factors))
            done = [f if i < at else hoist_batches(f, sources, new_set) for i, f in enumerate(factors[: at + 1])]
            return product(*done, *map(looked_up, factors[at + 1 :]))
        case DeltaRelation():
            return expr
        case Exists() if is_any_row(expr, sources):
            return expr
        case _:
            return looked_up(expr)


def _binds_no_rows(factor: Expr) -> bool:
    return isinstance(factor, Test | Value) or (isinstance(factor, Lift) and isinstance(factor.body, Value))


def is_distinct(body: Expr, sources: Sources) -> bool:
    """The rows come once each: all keys of one source are read, or of a store with its change."""
    parts = body.terms if isinstance(body, Sum) else (body,)
    if len(parts) > 1 and not is_overlay(parts):
        return False
    return all(isinstance(p, Relation | DeltaRelation) and _is_whole(p, sources(p)) for p in parts)


def _is_whole(atom: Relation | DeltaRelation, source: Source) -> bool:
    return source.kind != "batch" and set(atom.fields) == set(source.keys)


def is_overlay(parts: tuple[Expr, ...]) -> bool:
    """`M(x) + d_M(x)`"""
    match parts:
        case (Relation(name, fields, vars_), DeltaRelation(other, other_fields, other_vars)):
            return (name, fields, vars_) == (other, other_fields, other_vars)
        case _:
            return False
