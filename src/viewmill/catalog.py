"""What is known about relations: their columns, types, keys, and how their rows are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from viewmill.types import Type


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """A base relation, or a view that other views read.

    `kind`: a `table` takes inserts, updates and deletes; a `stream` is append-only and never stored whole;
    a `view` is filled by the mill.
    `stored` False is a trusted change feed: rows are neither kept nor checked unless a view needs them.
    `partition_by`: the columns by which it is to be spread over buckets, where there are any; empty leaves it to us.
    """

    name: str
    columns: tuple[ColumnInfo, ...]
    primary_key: tuple[str, ...] = ()
    kind: Literal["table", "stream", "view"] = "table"
    stored: bool = True
    partition_by: tuple[str, ...] = ()

    def column(self, name: str) -> ColumnInfo | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Relations by name. Names are lower case: Spark SQL does not tell cases apart. Immutable."""

    relations: dict[str, RelationInfo] = field(default_factory=dict)

    def get(self, name: str) -> RelationInfo | None:
        return self.relations.get(name)

    def with_relation(self, info: RelationInfo) -> Catalog:
        return Catalog({**self.relations, info.name: info})

    def without(self, name: str) -> Catalog:
        return Catalog({key: info for key, info in self.relations.items() if key != name})
