"""Sets that must be computed before they can be read: each becomes a change of its own, in front of the statement.

    Q(p) += Sum[p](Exists(Sum[k](Exists(d_L(k, c)) * {c > 3})) * M(k, p))
=>
    let d_set_1(k, c) = d_L(k, c)
    let d_set_2(k)    = Sum[k](Exists(d_set_1(k, c)) * {c > 3})
    Q(p) += Sum[p](Exists(d_set_2(k)) * M(k, p))

`Exists` needs to see the whole weight of a row. A pool has it, since merging adds up what belongs to one key; the
nested loops of a kernel see a row's weight in parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from viewmill.algebra.build import agg_sum
from viewmill.algebra.nodes import DeltaRelation, Exists, Expr, Relation, Sum
from viewmill.algebra.schema import children, inputs, relations, schema, with_children

KeysOf = Callable[[Relation | DeltaRelation], tuple[str, ...]]
"""All keys of the source that an atom reads."""


@dataclass(slots=True)
class Hoisted:
    """A statement's expression with its sets in front of it, in the order they must be computed."""

    expr: Expr
    sets: list[tuple[str, tuple[str, ...], Expr]] = field(default_factory=list)


def hoist(expr: Expr, keys_of: KeysOf, *, anew: bool) -> Hoisted:
    """`anew`: the expression runs over whole relations anyway, so sets of them may be computed, too."""
    done = Hoisted(expr)
    done.expr = _hoist(expr, keys_of, anew, done)
    return done


def _hoist(expr: Expr, keys_of: KeysOf, anew: bool, done: Hoisted) -> Expr:
    expr = with_children(expr, tuple(_hoist(part, keys_of, anew, done) for part in children(expr)))
    match expr:
        case Exists(body) if not inputs(body) and schema(body) and not is_distinct(body, keys_of):
            if relations(body) and not anew:
                return expr
            keys = schema(body)
            name = f"set_{len(done.sets) + 1}"
            done.sets.append((name, keys, agg_sum(keys, body)))
            return Exists(DeltaRelation(name, keys, keys))
        case _:
            return expr


def is_distinct(body: Expr, keys_of: KeysOf) -> bool:
    """The rows come once each: all keys of one source are read, or of a store with its change."""
    parts = body.terms if isinstance(body, Sum) else (body,)
    if len(parts) > 1 and not is_overlay(parts):
        return False
    return all(isinstance(p, Relation | DeltaRelation) and set(p.fields) == set(keys_of(p)) for p in parts)


def is_overlay(parts: tuple[Expr, ...]) -> bool:
    """`M(x) + d_M(x)`"""
    match parts:
        case (Relation(name, fields, vars_), DeltaRelation(other, other_fields, other_vars)):
            return (name, fields, vars_) == (other, other_fields, other_vars)
        case _:
            return False
