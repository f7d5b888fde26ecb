"""One atomic batch over several tables.

    with mill.batch() as batch:
        batch.insert("orders", [...])
        batch.delete("lineitem", [...])

Operations take effect in order on a draft. The mill sees them when the block ends: all at once or, after an
exception, not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias

from viewmill.catalog import RelationInfo
from viewmill.engines.local.pending import PendingData
from viewmill.errors import BindError, DataError
from viewmill.intake import Given, Row, given_columns, given_rows, held, is_columnar, key_alone, whole_row
from viewmill.tables import BaseTable, Draft
from viewmill.wording import quoted

NetChange: TypeAlias = dict[str, dict[Row, int]]
"""Net changes by relation: rows with weights other than 0."""


class Batch:
    """Pending changes. Made by `Mill.batch()`."""

    def __init__(self, find: Callable[[str, str], BaseTable], commit: Callable[[Batch], None]) -> None:
        self._find = find
        self._commit = commit
        self._drafts: dict[str, Draft] = {}
        self._columns: list[PendingData] = []
        self._open = True

    def insert(self, table: str, data: object) -> None:
        """Add rows."""
        base = self._table(table, "insert into")
        if self._takes_columns(base, data):
            self._columns.append(PendingData(base.info, held(data), 1))
            return
        draft = self._draft(base)
        with draft.atomic():
            for given in given_rows(data, base.info):
                draft.insert(whole_row(given, base.info))

    def delete(self, table: str, data: object) -> None:
        """Remove rows, given whole, or by name with only the primary key."""
        base = self._table(table, "delete from")
        check_deletable(base.info)
        if self._takes_columns(base, data) and not _has_key_alone(data, base.info):
            self._columns.append(PendingData(base.info, held(data), -1))
            return
        draft = self._draft(base)
        with draft.atomic():
            for given in given_rows(data, base.info):
                _delete(given, base, draft)

    def update(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key."""
        base = self._table(table, "update")
        check_updatable(base.info)
        draft = self._draft(base)
        with draft.atomic():
            for given in given_rows(data, base.info):
                draft.update(whole_row(given, base.info))

    def overwrite(self, table: str, data: object) -> None:
        """Replace all rows by these. Views take only what differs."""
        base = self._table(table, "overwrite")
        check_overwritable(base.info)
        draft = self._draft(base)
        with draft.atomic():
            draft.clear()
            for given in given_rows(data, base.info):
                draft.insert(whole_row(given, base.info))

    def changes(self) -> NetChange:
        """The checked net change of every table that changes."""
        for draft in self._drafts.values():
            draft.check()
        net = {name: draft.changes for name, draft in self._drafts.items()}
        return {name: changes for name, changes in net.items() if changes}

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if kind is None:
            self._commit(self)

    def columns(self) -> list[PendingData]:
        """What came as whole columns, for relations that keep no rows, in order."""
        return self._columns

    def _table(self, table: str, verb: str) -> BaseTable:
        if not self._open:
            raise DataError("this batch has ended", hint="start another one with mill.batch()")
        return self._find(table, verb)

    def _draft(self, base: BaseTable) -> Draft:
        return self._drafts.setdefault(base.info.name, Draft(base))

    def _takes_columns(self, base: BaseTable, data: object) -> bool:
        return not base.keeps_rows and is_columnar(data)


def _has_key_alone(data: object, info: RelationInfo) -> bool:
    columns = given_columns(data, info)
    return columns is not None and len(columns) < len(info.columns)


def _delete(given: Given, base: BaseTable, draft: Draft) -> None:
    key = key_alone(given, base.info)
    if key is None:
        draft.delete(whole_row(given, base.info))
    elif base.keeps_rows:
        draft.delete_key(key)
    else:
        raise DataError(
            f"cannot delete from table {quoted(base.info.name)} by key: its rows are not kept (stored = false)",
            hint="pass whole rows",
        )


def check_deletable(info: RelationInfo) -> None:
    if info.kind == "stream":
        raise BindError(
            f"cannot delete from stream {quoted(info.name)}: a stream only grows",
            hint="use CREATE TABLE for data that changes",
        )


def check_overwritable(info: RelationInfo) -> None:
    if info.kind == "stream" or not info.stored:
        raise BindError(
            f"cannot overwrite {info.kind} {quoted(info.name)}: its rows are not kept, so nobody knows what to remove",
            hint="delete and insert whole rows, or create the table without stored = false",
        )


def check_updatable(info: RelationInfo) -> None:
    if info.kind == "stream":
        raise BindError(
            f"cannot update stream {quoted(info.name)}: a stream only grows",
            hint="use CREATE TABLE for data that changes",
        )
    if not info.primary_key:
        raise BindError(
            f"cannot update table {quoted(info.name)}: it has no primary key",
            hint="delete the old rows and insert the new ones in one batch, or declare a PRIMARY KEY",
        )
    if not info.stored:
        raise BindError(
            f"cannot update table {quoted(info.name)}: its rows are not kept (stored = false)",
            hint="delete the old rows and insert the new ones in one batch",
        )
