"""Where stores live, at first: the heuristic of Hot Dog, section 6.2.

A store is in buckets by the primary key of a base table that is among its keys, the one with the most values if there
are several; the same value under another name counts (`l_orderkey` is `o_orderkey`). A store without such a key is
taken for a small aggregate, and is on the driver. Stores over small relations only are everywhere, if anything in
buckets or over a large batch reads them. A relation without a primary key has its join columns for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from viewmill.algebra.nodes import Exists, Expr, Extreme, Lift, Relation, TopK, Value
from viewmill.algebra.scalars import Var
from viewmill.algebra.schema import relations, walk
from viewmill.catalog import Catalog
from viewmill.distribute.nodes import Buckets, Driver, Everywhere, Place
from viewmill.program.nodes import Program, Store

SMALL = 0.05
"""A relation is small if it has less than this part of the rows of the largest."""

COPIED = 0.15
"""A store may be copied to every bucket, if it has to be, up to this part of the rows of the largest relation."""

SMALLEST = 100.0
"""Rows of a relation that refers to no other, if nothing is known of it."""

ENOUGH = 10_000
"""Rows of the largest relation, from which on it counts how many rows there are, and not only how tables refer."""

Column = tuple[str, str]


@dataclass
class Placing:
    """What is known of the stores' keys."""

    program: Program
    catalog: Catalog
    known: Mapping[str, int] = field(default_factory=dict)
    small_share: float = SMALL

    @cached_property
    def _relations(self) -> frozenset[str]:
        names = frozenset().union(*(relations(store.definition) for store in self.program.stores.values()))
        return names & frozenset(self.catalog.relations)

    @cached_property
    def largest(self) -> float:
        return max(map(self.rows, self._relations), default=0.0)

    @cached_property
    def small(self) -> frozenset[str]:
        """Relations that every bucket can have a copy of."""
        return frozenset(name for name in self._relations if self.rows(name) < self.small_share * self.largest)

    # --- sizes

    def rows(self, relation: str) -> float:
        """Of a relation. If nothing is known: ten times as many as what it refers to, a tenth of what refers to it."""
        return self._counted[relation] if self._counted else self._guessed[relation]

    @cached_property
    def _counted(self) -> Mapping[str, float]:
        """How many rows there are, if that is known of all relations: guesses are only good to compare with guesses.

        Tables that have just been begun do not tell how large they will be.
        """
        counted = {name: float(self.known.get(name, 0)) for name in self._relations}
        return counted if all(counted.values()) and max(counted.values(), default=0) >= ENOUGH else {}

    @cached_property
    def _guessed(self) -> dict[str, float]:
        below: dict[str, set[str]] = {name: set() for name in self._relations}
        for columns in self._classes:
            for relation, column in columns:
                if self._is_key(relation, column):
                    for other, field_ in columns:
                        if other != relation and not self._is_key(other, field_):
                            below[other].add(relation)
        above = {name: {other for other in below if name in below[other]} for name in below}

        def up(name: str, seen: frozenset[str]) -> float:
            return max((10 * up(other, seen | {name}) for other in below[name] - seen - {name}), default=SMALLEST)

        def down(name: str, seen: frozenset[str]) -> float:
            sizes = [max(up(other, frozenset()), down(other, seen | {name})) for other in above[name] - seen - {name}]
            return min(sizes, default=0.0) / 10

        return {name: max(up(name, frozenset()), down(name, frozenset())) for name in below}

    def _is_key(self, relation: str, column: str) -> bool:
        info = self.catalog.relations.get(relation)
        return info is not None and info.primary_key == (column,)

    def store_rows(self, store: Store) -> float:
        """Of a store; one without a key to hash by is taken for small."""
        if not (keys := self.candidates(store)):
            return SMALLEST
        most = max((self.rows(name) for name in relations(store.definition) & self._relations), default=SMALLEST)
        return min(most, prod(self._values(self.class_of(store, key)) for key in keys))

    # --- columns with equal values

    @cached_property
    def _meanings(self) -> dict[str, dict[str, set[Column]]]:
        return {name: meanings(store.definition) for name, store in self.program.stores.items()}

    @cached_property
    def _classes(self) -> list[frozenset[Column]]:
        groups: list[set[Column]] = []
        for meanings in self._meanings.values():
            for columns in meanings.values():
                columns = {column for column in columns if column[0] in self._relations}
                touched = [group for group in groups if group & columns]
                groups = [group for group in groups if not group & columns] + [columns.union(*touched)]
        return [frozenset(group) for group in groups if group]

    @cached_property
    def _class_of(self) -> dict[Column, frozenset[Column]]:
        return {column: group for group in self._classes for column in group}

    def class_of(self, store: Store, key: str) -> frozenset[Column]:
        columns = self._meanings[store.name].get(key, set())
        return next((self._class_of[column] for column in columns if column in self._class_of), frozenset())

    def candidates(self, store: Store) -> list[str]:
        """Keys to hash by, the best first: with the most values, and by which most nested queries are correlated."""
        if store.name not in self._candidates:
            scored = []
            for position, key in enumerate(store.keys):
                columns = self.class_of(store, key)
                if values := self._values(columns):
                    scored.append((-round(values, 3), -self._votes.get(columns, 0), position, key))
            self._candidates[store.name] = [key for _, _, _, key in sorted(scored)]
        return self._candidates[store.name]

    @cached_property
    def _candidates(self) -> dict[str, list[str]]:
        return {}

    def _values(self, columns: frozenset[Column]) -> float:
        """How many values a column has that is a primary key, or part of one; 0 for others."""
        found = 0.0
        for relation, column in columns:
            info = self.catalog.relations[relation]
            if info.kind == "view":
                continue
            if info.primary_key == (column,):
                found = max(found, self.rows(relation))
            elif column in info.primary_key or (not info.primary_key and len(columns) > 1):
                found = max(found, self.rows(relation) ** 0.5)
        return found

    @cached_property
    def _votes(self) -> dict[frozenset[Column], int]:
        """How often stores are read inside nested queries, by their keys."""
        found: dict[frozenset[Column], int] = {}
        for trigger in self.program.triggers.values():
            for s in trigger.statements:
                for atom in _nested(s.expr):
                    store = self.program.stores[atom.name]
                    for columns in {self.class_of(store, key) for key in atom.fields}:
                        found[columns] = found.get(columns, 0) + 1
        return found

    def is_small(self, store: Store) -> bool:
        return relations(store.definition) <= self.small

    def may_be_copied(self, store: Store) -> bool:
        """Rather than have what it meets on the driver."""
        return self.store_rows(store) <= COPIED * self.largest or not self.candidates(store)

    # --- the choice

    def choose(self, chosen: Mapping[str, Place]) -> dict[str, Place]:
        places: dict[str, Place] = {}
        for name, store in self.program.stores.items():
            keys = self.candidates(store)
            hashed = keys and not self.is_small(store)
            places[name] = chosen.get(name) or (Buckets((keys[0],)) if hashed else Driver())
        while True:
            more = {
                name
                for name, store in self.program.stores.items()
                if name not in chosen and places[name] == Driver() and self.is_small(store)
                if any(self._is_spread(stores, target, where, places) for stores, target, where in self._readers(name))
            }
            if not more:
                return places
            places.update(dict.fromkeys(more, Everywhere()))

    def _readers(self, name: str) -> Iterator[tuple[frozenset[str], str, str]]:
        for relation, trigger in self.program.triggers.items():
            for s in trigger.statements:
                if name in relations(s.expr):
                    yield relations(s.expr), s.target if s.op != "let" else "", relation
        for view in self.program.views.values():
            if name in relations(view.output):
                yield relations(view.output), "", ""

    def _is_spread(self, stores: Iterable[str], target: str, relation: str, places: Mapping[str, Place]) -> bool:
        """Whether something reads them that is in buckets, or comes in masses."""
        in_buckets = any(places.get(name, Driver()) != Driver() for name in (*stores, target))
        return in_buckets or (relation in self.catalog.relations and relation not in self.small)


def _nested(expr: Expr) -> Iterator[Relation]:
    for node in walk(expr):
        if isinstance(node, Lift | Exists | Extreme | TopK):
            yield from (atom for atom in walk(node) if isinstance(atom, Relation))


def meanings(definition: Expr) -> dict[str, set[Column]]:
    """The columns of relations that each variable stands for, those it is set equal to included."""
    found: dict[str, set[Column]] = {}
    links: list[tuple[str, str]] = []
    for node in walk(definition):
        match node:
            case Relation(name, fields, vars_):
                for column, var in zip(fields, vars_, strict=True):
                    found.setdefault(var, set()).add((name, column))
            case Lift(x, Value(Var(y))):
                links.append((x, y))
    for x, y in links * 2:
        both = found.get(x, set()) | found.get(y, set())
        found[x], found[y] = set(both), set(both)
    return found
