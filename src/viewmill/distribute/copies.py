"""A copy of a relation that a wider one has as well is not kept.

    lineitem(l_orderkey, l_linenumber, l_price) += d_`lineitem@l_orderkey`(l_orderkey, l_linenumber, l_price)
    lineitem_2(l_orderkey, l_linenumber, l_partkey, l_price) += d_`lineitem@l_orderkey`(...)
    Q(o) += Sum[o](d_M(o) * lineitem(l_orderkey: o, l_price: p) * p)
=>
    lineitem_2(l_orderkey, l_linenumber, l_partkey, l_price) += d_`lineitem@l_orderkey`(...)
    Q(o) += Sum[o](d_M(o) * lineitem_2(l_orderkey: o, l_price: p) * p)

Law: stores are read by field, and fields that are not named are added away. Two stores that take the same change, at
the same place, are between batches the same rows with more fields or fewer, so the narrower one is the wider one with
some added away. Within a batch they are, once who reads either before the change comes before it, and who reads either
with the change comes after it. That orders more work than before, so it is decided here, before work is given its time
(`timing.py`): a copy that anybody would have to wait for stays (`waits.py`).

Where both have the key of the relation they also have as many rows, and whoever looks up some of them finds as many:
nothing is lost but the time and room for one more copy. Views over the same relation each bring one, so a mill of many
views has many. (VMS keeps what several views need once.)

A store that is looked up by all of its fields stays: that is quicker than by some of another's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viewmill.algebra.nodes import DeltaRelation, Expr, Relation
from viewmill.algebra.schema import children, relations, with_children
from viewmill.catalog import Catalog
from viewmill.distribute.nodes import Buckets, Place
from viewmill.distribute.units import Unit
from viewmill.distribute.waits import Waits
from viewmill.program.access import ways
from viewmill.program.nodes import Program
from viewmill.program.order import Found, order

_Wider = Mapping[str, tuple[str, Mapping[str, str]]]
"""For each store that is not kept, the one that is read instead, and the keys of that by its own."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Stores that take a change of a relation as it is, among others."""

    program: Program
    places: Mapping[str, Place]
    catalog: Catalog
    found: Found
    order: Sequence[str]  # of relations

    def shared(self, units: Sequence[Unit]) -> tuple[list[Unit], frozenset[str]]:
        """The same work with fewer copies, none of it later; and the copies that it does without."""
        wider = self._wider(units)
        kept = (unit for unit in units if unit.statement.target not in wider)
        return [_using(unit, wider) for unit in kept], frozenset(wider)

    def _wider(self, units: Sequence[Unit]) -> _Wider:
        copies = sorted(self._copies(units), key=lambda copy: -len(copy.fields))
        found: dict[str, tuple[str, Mapping[str, str]]] = {}
        kept: list[tuple[_Copy, set[str]]] = []  # with the names of all that are read from it
        spared, waits = self._spared(units), Waits(units, self.order)
        for copy in copies:
            for other, names in kept if copy.store not in spared else ():
                if copy.is_in(other) and waits.can_be_one(names, copy.store, copy.relation):
                    key_of = {field: key for key, field in other.fields.items()}
                    found[copy.store] = other.store, {key: key_of[field] for key, field in copy.fields.items()}
                    names.add(copy.store)
                    break
            else:
                kept.append((copy, {copy.store}))
        return found

    def _spared(self, units: Sequence[Unit]) -> frozenset[str]:
        """Stores that views read, who want to know their changes; and those that are not read by some fields."""
        read = frozenset().union(*(relations(view.output) for view in self.program.views.values()))
        exprs = [order(expr, found=self.found) for unit in units for expr in unit.exprs]
        kinds = ways(exprs, self.program.stores)
        return read.union(name for name, found in kinds.items() if any(w.kind not in ("slice", "scan") for w in found))

    def _copies(self, units: Sequence[Unit]) -> Iterator[_Copy]:
        changing: dict[str, list[Unit]] = {}
        for unit in units:
            changing.setdefault(unit.statement.target, []).append(unit)
        for name, (unit, *others) in changing.items():
            store = self.program.stores.get(name)
            if others or unit.mode != "buckets" or store is None or not self._has_key(store.definition):
                continue
            if fields := _taken_whole(unit):
                mine = dict(zip(store.keys, fields, strict=True))
                place = _by_fields(self.places[name], mine)
                yield _Copy(name, unit.relation, unit.takes[0].name, place, mine)

    def _has_key(self, definition: Expr) -> bool:
        if not isinstance(definition, Relation):
            return False
        info = self.catalog.relations.get(definition.name)
        return info is not None and bool(info.primary_key) and set(info.primary_key) <= set(definition.fields)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A store that takes a change as it is: where it lives, and of which field of the change each key is."""

    store: str
    relation: str
    change: str
    place: Place
    fields: Mapping[str, str]

    def is_in(self, other: _Copy) -> bool:
        same = (self.change, self.place) == (other.change, other.place)
        return same and set(self.fields.values()) <= set(other.fields.values())


def _taken_whole(unit: Unit) -> tuple[str, ...]:
    """By key of the target, the fields of the change, if all of it is taken as it arrives.

    `d_r(a: x, b: x)` is only what has the same in both.
    """
    match unit.takes, unit.statement.expr:
        case (arrival,), DeltaRelation(name, fields, vars_) if name == arrival.name and not unit.is_tick:
            keys = unit.statement.vars
            if unit.statement.op == "+=" and len(keys) == len(vars_) and set(keys) == set(vars_):
                return tuple(fields[vars_.index(key)] for key in keys)
    return ()


def _by_fields(place: Place, fields: Mapping[str, str]) -> Place:
    return Buckets(tuple(fields[key] for key in place.by)) if isinstance(place, Buckets) else place


def _using(unit: Unit, wider: _Wider) -> Unit:
    lets = tuple((name, keys, _reading(expr, wider)) for name, keys, expr in unit.lets)
    return replace(unit, statement=replace(unit.statement, expr=_reading(unit.statement.expr, wider)), lets=lets)


def _reading(expr: Expr, wider: _Wider) -> Expr:
    match expr:
        case Relation(name, fields, vars_) if name in wider:
            other, keys = wider[name]
            return Relation(other, tuple(keys[field] for field in fields), vars_)
        case _:
            return with_children(expr, tuple(_reading(part, wider) for part in children(expr)))
