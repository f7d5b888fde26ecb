"""A set that is kept changes at the keys that its own change has, and nowhere else.

    Sum[g](Domain * (Exists(After(M(g, x))) - Exists(M(g, x))))
=>
    Sum[g](Exists(d_M(g, x)) * (Exists(After(M(g, x))) - Exists(M(g, x))))

Domain extraction (Hot Dog section 3.2.2) has to make do with the batch: of a batch of offers it knows the suppliers,
and then old and new are compared for everything that these suppliers offer (TPC-H Q16). Once the set's body is a store,
its change is computed anyway, and is exact: the domain is not needed any more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from viewmill.algebra.build import agg_sum, exists, factors, product, sum_, terms
from viewmill.algebra.nodes import After, AggSum, DeltaRelation, Exists, Expr, Relation, Value
from viewmill.algebra.scalars import Const
from viewmill.algebra.schema import deltas, relations

_MINUS = Value(Const(-1))


def narrow(expr: Expr, moving: Collection[str]) -> Expr:
    """Wherever the change of a set of a `moving` store is taken, it is taken for the keys that move."""
    parts = list(terms(expr))
    for new in [found for part in parts if (found := _set_after(part)) and found.store.name in moving]:
        old = next((part for part in parts if _is_before(part, new)), None)
        if old is not None:
            keys = exists(DeltaRelation(new.store.name, new.store.fields, new.store.vars))
            others = [factor for factor in new.others if not _is_domain(factor)]
            parts.remove(new.term)
            parts.remove(old)
            parts.append(_term(new.group, keys, *others, Exists(After(new.store))))
            parts.append(_term(new.group, _MINUS, keys, *others, Exists(new.store)))
    return sum_(parts)


@dataclass(frozen=True, slots=True)
class _After:
    """A term with one set on the state after the batch."""

    term: Expr
    group: tuple[str, ...] | None
    store: Relation
    others: tuple[Expr, ...]


def _set_after(term: Expr) -> _After | None:
    group, parts = _taken_apart(term)
    for part in parts:
        match part:
            case Exists(After(Relation() as store)):
                return _After(term, group, store, tuple(other for other in parts if other is not part))
    return None


def _is_before(term: Expr, new: _After) -> bool:
    """Whether it takes away what the same set was before the batch."""
    group, parts = _taken_apart(term)
    expected = {_MINUS, Exists(new.store), *new.others}
    return group == new.group and len(parts) == len(expected) and set(parts) == expected


def _taken_apart(term: Expr) -> tuple[tuple[str, ...] | None, tuple[Expr, ...]]:
    match term:
        case AggSum(group, body):
            return group, factors(body)
        case _:
            return None, factors(term)


def _term(group: tuple[str, ...] | None, *parts: Expr) -> Expr:
    return product(*parts) if group is None else agg_sum(group, product(*parts))


def _is_domain(factor: Expr) -> bool:
    """Keys that a batch can affect: only changes are asked, and definitions have none."""
    return isinstance(factor, Exists) and bool(deltas(factor)) and not relations(factor)
