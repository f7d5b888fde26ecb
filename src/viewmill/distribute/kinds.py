"""The types of what travels: of the columns of a change, and of its weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from viewmill.algebra.nodes import DeltaRelation, Expr, Relation
from viewmill.algebra.typing import variable_types, weight_type
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.distribute.nodes import WEIGHT
from viewmill.program.nodes import Store
from viewmill.types import BIGINT, VOID, Type


@dataclass(frozen=True, slots=True)
class Kind:
    columns: tuple[ColumnInfo, ...]
    weight: Type = BIGINT

    def column(self, name: str) -> ColumnInfo:
        return next(column for column in self.columns if column.name == name)

    def info(self, name: str, used: Iterable[str]) -> RelationInfo:
        """As it came in: rows with counts."""
        wanted = set(used)
        return RelationInfo(name, tuple(c for c in self.columns if c.name in wanted), kind="stream", stored=False)

    def travelling(self, name: str) -> RelationInfo:
        """With its weights as a last column."""
        return RelationInfo(name, (*self.columns, ColumnInfo(WEIGHT, self.weight)), kind="stream", stored=False)


@dataclass
class Kinds:
    known: dict[str, Kind] = field(default_factory=dict)

    def add_store(self, store: Store) -> None:
        columns = tuple(ColumnInfo(key, type_) for key, type_ in zip(store.keys, store.types, strict=True))
        self.known[store.name] = Kind(columns, store.weight)

    def add_let(self, name: str, keys: tuple[str, ...], expr: Expr) -> Kind:
        types = variable_types(expr, self._field_type, None, self._weight)
        weight = weight_type(expr, self._field_type, None, self._weight)
        # A column that is NULL in every row may be of any type, but must be of one.
        columns = tuple(ColumnInfo(key, BIGINT if types[key] == VOID else types[key]) for key in keys)
        self.known[name] = Kind(columns, BIGINT if weight == VOID else weight)
        return self.known[name]

    def _field_type(self, name: str, field_: str) -> Type:
        return self.known[name].column(field_).type

    def _weight(self, atom: Relation | DeltaRelation) -> Type:
        return self.known[atom.name].weight
