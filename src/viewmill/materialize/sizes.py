"""How large relations may be, and how many values a column has, for comparing plans before any row is there.

A relation that holds the primary key of another refers to it, and has more rows: `lineitem` has more than `orders`,
which has more than `customer`. Where nothing is known, each step of reference is taken for a factor of ten. A column
that refers to a relation has as many values as that has rows; another one, the square root of its own relation's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from viewmill.algebra.nodes import Expr, Lift, Product, Relation, Value
from viewmill.algebra.scalars import Var
from viewmill.algebra.schema import walk
from viewmill.catalog import Catalog
from viewmill.program.keys import key_vars

SMALLEST = 100.0
"""Rows of a relation that refers to no other, if nothing is known of it."""

LARGEST = 1e8


class Sizes:
    """Estimates for the relations of some definitions, from the rows that are known."""

    def __init__(self, definitions: Iterable[Expr], known: Mapping[str, int], catalog: Catalog) -> None:
        self._known = known
        self._catalog = catalog
        self._refers: dict[str, dict[str, str]] = {}
        for definition in definitions:
            for parts in _joins(definition):
                self._note(parts)

    def rows(self, name: str) -> float:
        return self._size(name, frozenset())

    def values(self, relation: str, field: str) -> float:
        """How many values a column has."""
        rows, info = self.rows(relation), self._catalog.relations.get(relation)
        if info is not None and info.primary_key == (field,):
            return rows
        other = self._refers.get(relation, {}).get(field)
        return min(rows, self.rows(other)) if other is not None else max(1.0, float(rows**0.5))

    def _size(self, name: str, below: frozenset[str]) -> float:
        if self._known.get(name):
            return float(self._known[name])
        others = set(self._refers.get(name, {}).values()) - below - {name}
        sizes = [self._size(other, below | {name}) for other in others]
        return min(10.0 * max(sizes), LARGEST) if sizes else SMALLEST

    def _note(self, parts: Sequence[Expr]) -> None:
        """Which columns refer to which relations, in one join."""
        same = {
            part.var: part.body.scalar.name
            for part in parts
            if isinstance(part, Lift) and isinstance(part.body, Value) and isinstance(part.body.scalar, Var)
        }
        atoms = [part for part in parts if isinstance(part, Relation)]
        for other in atoms:
            key = key_vars(other, self._catalog)
            if key is None or len(key) != 1:
                continue
            (wanted,) = {same.get(var, var) for var in key}
            for atom in atoms:
                if atom.name != other.name:
                    for field, var in zip(atom.fields, atom.vars, strict=True):
                        if same.get(var, var) == wanted and not self._is_key(atom.name, field):
                            self._refers.setdefault(atom.name, {})[field] = other.name

    def _is_key(self, relation: str, field: str) -> bool:
        info = self._catalog.relations.get(relation)
        return info is not None and info.primary_key == (field,)


def _joins(definition: Expr) -> Iterator[tuple[Expr, ...]]:
    for node in walk(definition):
        if isinstance(node, Product):
            yield node.factors
