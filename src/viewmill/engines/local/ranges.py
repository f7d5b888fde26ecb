"""Sums over ranges: where an ordered index gives in a few steps what a loop would add up.

    (x := Sum[](M(g, q) * {q > p} * {q <= 9}))        the weights of M with this g and q in (p, 9]

The store's rows may differ in keys that nobody looks at; these are added away as well. With the pending change of the
store, `M(g, q) + d_M(g, q)`, the sum is that over the store and that over the change, which is small, by a loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from viewmill.algebra.nodes import DeltaRelation, Expr, Relation, Sum, Test, Value
from viewmill.algebra.scalars import Call, Cast, Scalar, Var
from viewmill.algebra.scalars import variables as scalar_variables
from viewmill.algebra.typing import scalar_type
from viewmill.engines.local.hoist import is_overlay
from viewmill.engines.local.ordered import MOST_LANES, Order
from viewmill.engines.local.sources import Atom, Source, Sources
from viewmill.types import DATE, INTEGER_BITS, TIMESTAMP, Type, as_decimal

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_DIGITS = 18  # by which codes of decimals are moved: more do not fit


@dataclass(frozen=True, slots=True)
class Bound:
    """`key op limit`, where the limit is known."""

    op: str
    limit: Scalar


@dataclass(frozen=True, slots=True)
class Place:
    """One key of a store, to be ordered by, within others that are given: fields with the variables they equal."""

    atom: Relation
    source: Source
    key: str
    given: tuple[tuple[str, str], ...]

    @property
    def var(self) -> str:
        return self.atom.vars[self.atom.fields.index(self.key)]

    @property
    def type(self) -> Type:
        return self.source.types[self.source.keys.index(self.key)]

    @property
    def order(self) -> Order:
        keys = self.source.keys
        within = tuple(sorted({keys.index(field) for field, _ in self.given}))
        return Order(within, keys.index(self.key), self.type.is_floating)


@dataclass(frozen=True, slots=True)
class Range:
    """A sum over a range. `tests` are the bounds as factors, `others` the factors that concern known variables only."""

    place: Place
    change: DeltaRelation | None
    bounds: tuple[Bound, ...]
    tests: tuple[Expr, ...]
    others: tuple[Expr, ...]


def find_range(
    first: Expr, rest: tuple[Expr, ...], known: Collection[str], sources: Sources, types: Mapping[str, Type]
) -> Range | None:
    """The sum over `first * rest` as one over a range, if it is one."""
    atoms = store_atoms(first)
    if atoms is None:
        return None
    free = free_variables(atoms[0], known)
    bounds: list[tuple[str, Bound, Expr]] = []
    others: list[Expr] = []
    for factor in rest:
        if not isinstance(factor, Test | Value):
            return None
        if not scalar_variables(factor.scalar) & set(free):
            others.append(factor)
            continue
        found = _bound(factor, free, types)
        if found is None:
            return None
        bounds.append((*found, factor))
    if len({var for var, _, _ in bounds}) != 1:
        return None
    place = place_of(atoms[0], bounds[0][0], known, sources)
    if place is None or not all(_comparable(place.type, scalar_type(b.limit, types)) for _, b, _ in bounds):
        return None
    change = atoms[1] if len(atoms) > 1 else None
    assert change is None or isinstance(change, DeltaRelation)
    return Range(place, change, tuple(b for _, b, _ in bounds), tuple(f for _, _, f in bounds), tuple(others))


def store_atoms(expr: Expr) -> tuple[Atom, ...] | None:
    """A store, or a store with its pending change."""
    match expr:
        case Relation():
            return (expr,)
        case Sum((Relation() as store, DeltaRelation() as change) as parts) if is_overlay(parts):
            return store, change
        case _:
            return None


def free_variables(atom: Atom, known: Collection[str]) -> tuple[str, ...]:
    return tuple(var for var in atom.vars if var not in known)


def place_of(atom: Atom, var: str, known: Collection[str], sources: Sources) -> Place | None:
    """Where a free variable stands in a store, if that can be kept in order by it."""
    source = sources(atom)
    free = free_variables(atom, known)
    if not isinstance(atom, Relation) or source.kind != "store" or source.lanes > MOST_LANES:
        return None
    if len(set(free)) != len(free) or len(set(atom.fields)) != len(atom.fields) or var not in free:
        return None
    given = tuple((field, name) for field, name in zip(atom.fields, atom.vars, strict=True) if name in known)
    place = Place(atom, source, atom.fields[atom.vars.index(var)], given)
    return place if _is_ordered(place.type) else None


def _is_ordered(type_: Type) -> bool:
    """Codes compare as the values do, or after `ordering`."""
    return type_.is_numeric or type_ in (DATE, TIMESTAMP)


def _bound(factor: Expr, free: tuple[str, ...], types: Mapping[str, Type]) -> tuple[str, Bound] | None:
    """The variable that a test bounds by something known."""
    match factor:
        case Test(Call(op, (left, right))) if op in _TURNED:
            for side, other, sign in ((left, right, op), (right, left, _TURNED[op])):
                var = plain_variable(side, types)
                if var in free and not scalar_variables(other) & set(free):
                    assert var is not None
                    return var, Bound(sign, other)
    return None


def plain_variable(side: Scalar, types: Mapping[str, Type]) -> str | None:
    """The variable that a scalar is, perhaps as another type in which no value is another."""
    match side:
        case Var(name):
            return name
        case Cast(Var(name), target) if _is_widening(types[name], target):
            return name
        case _:
            return None


def _is_widening(old: Type, new: Type) -> bool:
    if old.is_integer and new.is_integer:
        return INTEGER_BITS[new.name] >= INTEGER_BITS[old.name]
    if not (old.is_exact and new.is_decimal):
        return False
    own = as_decimal(old) if old.is_integer else old
    return new.scale >= own.scale and new.precision - new.scale >= own.precision - own.scale


def _comparable(key: Type, limit: Type) -> bool:
    """The limit can be turned into a code of the key's type, perhaps rounded."""
    if key.is_floating:
        return limit.is_numeric
    if key.is_exact:
        return limit.is_exact and abs(key.scale - limit.scale) <= _MOST_DIGITS
    return key == limit
