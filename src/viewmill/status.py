"""What a mill holds and how each view is maintained, as data that prints as tables."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Group
from rich.table import Table

from viewmill.program.nodes import Maintenance
from viewmill.terminal import as_text


@dataclass(frozen=True, slots=True)
class RelationStatus:
    """`rows` is None where rows are not kept."""

    name: str
    kind: str
    rows: int | None


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """`asked` is the `maintain` option of CREATE; `maintenance` is what came of it, relation by relation."""

    name: str
    rows: int
    asked: str
    maintenance: tuple[Maintenance, ...]


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """`bytes` are all that the store has reserved; None while the mill is small and interpreted."""

    name: str
    rows: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """A mill at one version."""

    version: int
    relations: tuple[RelationStatus, ...]
    views: tuple[ViewStatus, ...]
    stores: tuple[StoreStatus, ...]

    def view(self, name: str) -> ViewStatus:
        return next(view for view in self.views if view.name == name.lower())

    def __rich__(self) -> Group:
        return Group(f"version {self.version}", *(table for table in self._tables() if table.row_count))

    def __str__(self) -> str:
        return as_text(self.__rich__())

    def _tables(self) -> tuple[Table, ...]:
        relations = _table("relation", "kind", "#rows")
        for relation in self.relations:
            relations.add_row(relation.name, relation.kind, "not kept" if relation.rows is None else str(relation.rows))
        views = _table("view", "#rows", "changes of", "are maintained", "because")
        for view in self.views:
            head = (view.name, str(view.rows))
            for line in view.maintenance:
                views.add_row(*head, line.relation, line.how, line.reason)
                head = ("", "")
            if not view.maintenance:
                views.add_row(*head, "", "constant", "it reads no relation")
        stores = _table("store", "#rows", "#bytes")
        for store in self.stores:
            stores.add_row(store.name, str(store.rows), "" if store.bytes is None else f"{store.bytes:,}")
        return relations, views, stores


def _table(*columns: str) -> Table:
    """Columns marked `#` hold numbers."""
    table = Table(header_style="bold")
    for column in columns:
        number = column.startswith("#")
        table.add_column(column.removeprefix("#"), justify="right" if number else "left", overflow="fold")
    return table
