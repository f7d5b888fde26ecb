"""A copy of a relation that a wider one has as well is not kept.

    lineitem(l_orderkey, l_linenumber, l_price) += d_`lineitem@l_orderkey`(l_orderkey, l_linenumber, l_price)
    lineitem_2(l_orderkey, l_linenumber, l_partkey, l_price) += d_`lineitem@l_orderkey`(...)
    Q(o) += Sum[o](d_M(o) * lineitem(l_orderkey: o, l_price: p) * p)
=>
    lineitem_2(l_orderkey, l_linenumber, l_partkey, l_price) += d_`lineitem@l_orderkey`(...)
    Q(o) += Sum[o](d_M(o) * lineitem_2(l_orderkey: o, l_price: p) * p)

Law: stores are read by field, and fields that are not named are added away. Two stores that take the same change, in
the same trigger and at the same place, are at any time the same rows with more fields or fewer, so the narrower one is
the wider one with some added away. Where both have the key of the relation they also have as many rows, and
whoever looks up some of them finds as many: nothing is lost but the time and room for one more copy. Views over the
same relation each bring one, so a mill of many views has many. (VMS keeps what several views need once.)

A store that is looked up by all of its fields stays: that is quicker than by some of another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from viewmill.algebra.nodes import DeltaRelation, Expr, Relation
from viewmill.algebra.schema import children, relations, with_children
from viewmill.catalog import Catalog
from viewmill.distribute.nodes import Buckets, Distributed, Fire, Place
from viewmill.distribute.triggers import in_order
from viewmill.program.access import accesses
from viewmill.program.nodes import Program, Trigger


@dataclass(frozen=True, slots=True)
class _Copy:
    """A store that takes a change as it is: where it lives, and of which field of the change each key is."""

    store: str
    change: str
    place: Place
    fields: Mapping[str, str]

    def is_in(self, other: _Copy) -> bool:
        same = (self.change, self.place) == (other.change, other.place)
        return same and set(self.fields.values()) <= set(other.fields.values())


def share_copies(distributed: Distributed, catalog: Catalog) -> Distributed:
    wider = _wider(distributed, catalog)
    if not wider:
        return distributed
    program = distributed.buckets
    triggers = {name: _rewritten(trigger, wider) for name, trigger in program.triggers.items()}
    stores = {name: store for name, store in program.stores.items() if name not in wider}
    return replace(
        distributed,
        places={name: place for name, place in distributed.places.items() if name not in wider},
        reasons={name: reason for name, reason in distributed.reasons.items() if name not in wider},
        buckets=replace(program, stores=stores, triggers=triggers),
        fires=tuple(_using(fire, wider) for fire in distributed.fires),
    )


_Wider = Mapping[str, tuple[str, Mapping[str, str]]]
"""For each store that is not kept, the one that is read instead, and the keys of that by its own."""


def _wider(distributed: Distributed, catalog: Catalog) -> _Wider:
    program = distributed.buckets
    copies = sorted(_copies(distributed, catalog), key=lambda copy: -len(copy.fields))
    found: dict[str, tuple[str, Mapping[str, str]]] = {}
    kept: list[_Copy] = []
    spared = _spared(program)
    for copy in copies:
        other = next((other for other in kept if copy.is_in(other)), None)
        if other is None or copy.store in spared:
            kept.append(copy)
            continue
        key_of = {field: key for key, field in other.fields.items()}
        found[copy.store] = other.store, {key: key_of[field] for key, field in copy.fields.items()}
    return found


def _spared(program: Program) -> frozenset[str]:
    """Stores that views read, of which they want to know the changes; and those that are not read by some fields."""
    read = frozenset().union(*(relations(view.output) for view in program.views.values()))
    kinds = accesses(program)
    return read.union(name for name, ways in kinds.items() if any(way.kind not in ("slice", "scan") for way in ways))


def _copies(distributed: Distributed, catalog: Catalog) -> list[_Copy]:
    program, found = distributed.buckets, []
    changing: dict[str, list[tuple[str, Expr, tuple[str, ...]]]] = {}
    for name, trigger in program.triggers.items():
        for s in trigger.statements:
            changing.setdefault(s.target, []).append((name, s.expr, s.vars))
    for store, statements in changing.items():
        match statements:
            case [(name, DeltaRelation(change, fields, vars_), keys)] if name == change and _are_same(keys, vars_):
                field_of = dict(zip(vars_, fields, strict=True))
            case _:
                continue
        definition = program.stores[store].definition if store in program.stores else None
        if isinstance(definition, Relation) and _has_key(definition, catalog):
            mine = dict(zip(program.stores[store].keys, (field_of[key] for key in keys), strict=True))
            found.append(_Copy(store, change, _by_fields(distributed.places[store], mine), mine))
    return found


def _are_same(keys: tuple[str, ...], vars_: tuple[str, ...]) -> bool:
    """Whether all of a change is taken. `d_r(a: x, b: x)` is only what has the same in both."""
    return len(keys) == len(vars_) and set(keys) == set(vars_)


def _has_key(definition: Relation, catalog: Catalog) -> bool:
    info = catalog.relations.get(definition.name)
    return info is not None and bool(info.primary_key) and set(info.primary_key) <= set(definition.fields)


def _by_fields(place: Place, fields: Mapping[str, str]) -> Place:
    return Buckets(tuple(fields[key] for key in place.by)) if isinstance(place, Buckets) else place


def _rewritten(trigger: Trigger, wider: _Wider) -> Trigger:
    """In a new order: who read the narrower store, before it changed, has to come before the wider one changes."""
    kept = (s for s in trigger.statements if s.target not in wider)
    return replace(trigger, statements=tuple(in_order([replace(s, expr=_reading(s.expr, wider)) for s in kept])))


def _reading(expr: Expr, wider: _Wider) -> Expr:
    match expr:
        case Relation(name, fields, vars_) if name in wider:
            other, keys = wider[name]
            return Relation(other, tuple(keys[field] for field in fields), vars_)
        case _:
            return with_children(expr, tuple(_reading(part, wider) for part in children(expr)))


def _using(fire: Fire, wider: _Wider) -> Fire:
    uses = (replace(use, store=wider[use.store][0]) if use.store in wider else use for use in fire.uses)
    return replace(fire, uses=tuple(dict.fromkeys(uses)))
