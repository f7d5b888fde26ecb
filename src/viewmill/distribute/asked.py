"""Places that are asked for, by store, view or table, become places of stores.

A view is put together from stores that have its columns under names of their own, and a table's rows are in all stores
over that table alone:

    view v(region, total) = Q(region: r) * (region := r) * (total := Q_total(region: r))
    PARTITION BY (region)    =>    Q and Q_total in buckets by the key that `region` is there

A store that lacks one of the columns stays where it would be. `repair.py` may move it, and what was asked for, if they
are read together: then there is a reason, which `explain` shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from viewmill.algebra.nodes import Expr, Relation
from viewmill.algebra.schema import relations, walk
from viewmill.catalog import Catalog
from viewmill.distribute.located import linked, same_names
from viewmill.distribute.nodes import Buckets, Place
from viewmill.distribute.places import meanings
from viewmill.program.nodes import Program, Store


def partitioned(catalog: Catalog) -> dict[str, Place]:
    """What PARTITION BY asks for."""
    return {info.name: Buckets(info.partition_by) for info in catalog.relations.values() if info.partition_by}


def asked_for(program: Program, chosen: Mapping[str, Place]) -> dict[str, Place]:
    """The places of stores. A view counts more than a table, and what is asked for a store itself most of all."""
    found: dict[str, Place] = {}
    for name in (name for name in chosen if name not in program.views):
        found |= dict(_places_of_table(name, program, chosen[name]))
    for name in (name for name in chosen if name in program.views):
        found |= dict(places_of_output(program.views[name].output, chosen[name]))
    for name in (name for name in chosen if name not in program.views or name not in found):
        if _has(program.stores.get(name), chosen[name]):
            found[name] = chosen[name]
    return found


def places_of_output(output: Expr, place: Place) -> Iterator[tuple[str, Place]]:
    """The stores that a view reads, if they have the columns that it is to be hashed by."""
    links = [pair for node in walk(output) for pair in same_names(node)]
    for atom in walk(output):
        if not isinstance(atom, Relation):
            continue
        if not isinstance(place, Buckets):
            yield atom.name, place
            continue
        owner = linked(tuple(frozenset((column,)) for column in place.by), links)
        keys = [
            next((field for field, var in zip(atom.fields, atom.vars, strict=True) if var in names), None)
            for names in owner
        ]
        if None not in keys:
            yield atom.name, Buckets(tuple(key for key in keys if key is not None))


def _places_of_table(table: str, program: Program, place: Place) -> Iterator[tuple[str, Place]]:
    for store in program.stores.values():
        if relations(store.definition) != {table}:
            continue
        if not isinstance(place, Buckets):
            yield store.name, place
            continue
        known = meanings(store.definition)
        keys = [next((key for key in store.keys if (table, column) in known.get(key, ())), None) for column in place.by]
        if None not in keys:
            yield store.name, Buckets(tuple(key for key in keys if key is not None))


def _has(store: Store | None, place: Place) -> bool:
    return store is not None and (not isinstance(place, Buckets) or set(place.by) <= set(store.keys))
