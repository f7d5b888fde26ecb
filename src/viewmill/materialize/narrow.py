"""A set that is kept changes at the keys that its own change has, and nowhere else.

    Sum[g](Domain * (Exists(After(M(g, x))) - Exists(M(g, x))))
=>
    Sum[g](Exists(d_M(g, x)) * (Exists(After(M(g, x))) - Exists(M(g, x))))

Domain extraction (Hot Dog section 3.2.2) has to make do with the batch: of a batch of offers it knows the suppliers,
and then old and new are compared for everything that these suppliers offer (TPC-H Q16). Once the set's body is a store,
its change is computed anyway, and is exact: the domain is not needed any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from viewmill.algebra.build import agg_sum, exists, factors, product, sum_, terms
from viewmill.algebra.nodes import After, AggSum, DeltaRelation, Exists, Expr, Relation, Value
from viewmill.algebra.scalars import Const
from viewmill.algebra.schema import deltas, relations, schema

_MINUS = Value(Const(-1))


def narrow(expr: Expr, moving: Collection[str]) -> Expr:
    """Wherever the change of a set of a `moving` store is taken, it is taken for the keys that move."""
    parts = list(terms(expr))
    for part in terms(expr):
        new = _set_after(part)
        if new is None or new.store.name not in moving or part not in parts:
            continue
        old = next((other for other in parts if _is_before(other, new)), None)
        if old is not None:
            keys = exists(DeltaRelation(new.store.name, new.store.fields, new.store.vars))
            others = _without_domain(new)
            parts.remove(part)
            parts.remove(old)
            parts.append(_term(new.group, keys, *others, Exists(After(new.store))))
            parts.append(_term(new.group, _MINUS, keys, *others, Exists(new.store)))
    return sum_(parts)


@dataclass(frozen=True, slots=True)
class _After:
    """A term with a set on the state after the batch."""

    group: tuple[str, ...] | None
    store: Relation
    others: tuple[Expr, ...]


def _set_after(term: Expr) -> _After | None:
    group, parts = _taken_apart(term)
    for part in parts:
        match part:
            case Exists(After(Relation() as store)):
                return _After(group, store, tuple(other for other in parts if other is not part))
    return None


def _is_before(term: Expr, new: _After) -> bool:
    """Whether it takes away what the same set was before the batch."""
    group, parts = _taken_apart(term)
    return group == new.group and Counter(parts) == Counter((_MINUS, Exists(new.store), *new.others))


def _taken_apart(term: Expr) -> tuple[tuple[str, ...] | None, tuple[Expr, ...]]:
    match term:
        case AggSum(group, body):
            return group, factors(body)
        case _:
            return None, factors(term)


def _term(group: tuple[str, ...] | None, *parts: Expr) -> Expr:
    return product(*parts) if group is None else agg_sum(group, product(*parts))


def _without_domain(new: _After) -> list[Expr]:
    """Without the keys of the set that the batch can affect. (If there are more, some are those of something else.)"""
    domains = [factor for factor in new.others if _is_domain(factor)]
    if len(domains) != 1 or not set(schema(domains[0])) <= set(new.store.vars):
        return list(new.others)
    return [factor for factor in new.others if factor is not domains[0]]


def _is_domain(factor: Expr) -> bool:
    """Only changes are asked, and definitions have none."""
    return isinstance(factor, Exists) and bool(deltas(factor)) and not relations(factor)
