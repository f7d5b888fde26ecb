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
from viewmill.engines.local.pending import Pending, PendingData, PendingInsert, PendingRows
from viewmill.errors import BindError, DataError
from viewmill.intake import (
    Given,
    Row,
    given_columns,
    given_rows,
    held,
    is_columnar,
    is_pandas,
    key_alone,
    whole_row,
    whole_rows,
)
from viewmill.tables import BaseTable, Draft
from viewmill.wording import quoted

NetChange: TypeAlias = dict[str, dict[Row, int]]
"""Net changes by relation: rows with weights other than 0."""


class Batch:
    """Pending changes. Made by `Mill.batch()`.

    What is given may change before the block ends, and is what it was when it was given. Only if nothing comes between,
    since the batch is of one change and committed `at_once`, need nothing be copied.
    """

    def __init__(
        self, find: Callable[[str, str], BaseTable], commit: Callable[[Batch], None], *, at_once: bool = False
    ) -> None:
        self._find = find
        self._commit = commit
        self._at_once = at_once
        self._drafts: dict[str, Draft] = {}
        self._columns: list[PendingData] = []
        self._inserted: dict[str, object] = {}  # whole columns which are all that changes in a table
        self._open = True

    def insert(self, table: str, data: object) -> None:
        """Add rows."""
        base, data = self._table(table, "insert into"), self._held(data)
        if self._takes_columns(base, data):
            self._columns.append(PendingData(base.info, data, 1))
            return
        rows, is_first = whole_rows(data, base.info), base.info.name not in self._drafts
        self._draft(base).insert_all(rows)
        if self._at_once and is_first and is_columnar(data):
            self._inserted[base.info.name] = data

    def delete(self, table: str, data: object) -> None:
        """Remove rows, given whole, or by name with only the primary key."""
        base, data = self._table(table, "delete from"), self._held(data)
        check_deletable(base.info)
        are_whole = is_columnar(data) and not _has_key_alone(data, base.info)
        if are_whole and not base.keeps_rows:
            self._columns.append(PendingData(base.info, data, -1))
            return
        whole = whole_rows(data, base.info) if are_whole else []
        given = [] if are_whole else given_rows(data, base.info)
        draft = self._draft(base)
        with draft.atomic():
            for row in whole:
                draft.delete(row)
            for other in given:
                _delete(other, base, draft)

    def update(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key."""
        self._replace(table, "update", data, Draft.update)

    def upsert(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key; add those whose key is new."""
        self._replace(table, "upsert into", data, Draft.upsert)

    def _replace(self, table: str, verb: str, data: object, replace: Callable[[Draft, Row], None]) -> None:
        base = self._table(table, verb)
        check_updatable(base.info)
        rows, draft = whole_rows(held(data), base.info), self._draft(base)
        with draft.atomic():
            for row in rows:
                replace(draft, row)

    def overwrite(self, table: str, data: object) -> None:
        """Replace all rows by these. Views take only what differs."""
        base = self._table(table, "overwrite")
        check_overwritable(base.info)
        rows, draft = whole_rows(held(data), base.info), self._draft(base)
        draft.clear()
        draft.insert_all(rows)

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

    def pending(self, changes: NetChange) -> list[Pending]:
        """These changes for the engine, as columns where they came as such, and what is not kept here, in order."""
        return [*(self._kept(name, rows) for name, rows in changes.items()), *self._columns]

    def _kept(self, name: str, rows: dict[Row, int]) -> Pending:
        info = self._drafts[name].info
        return PendingInsert(info, rows, self._inserted[name]) if name in self._inserted else PendingRows(info, rows)

    def _table(self, table: str, verb: str) -> BaseTable:
        if not self._open:
            raise DataError("this batch has ended", hint="start another one with mill.batch()")
        return self._find(table, verb)

    def _draft(self, base: BaseTable) -> Draft:
        self._inserted.pop(base.info.name, None)
        return self._drafts.setdefault(base.info.name, Draft(base))

    def _held(self, data: object) -> object:
        """Arrow's columns do not change."""
        return data.copy() if is_pandas(data) and not self._at_once else held(data)  # type: ignore[attr-defined]

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
