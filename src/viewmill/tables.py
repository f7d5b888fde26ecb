"""Base tables as the session keeps them, and the pending changes of one batch to one table.

A `BaseTable` is a multiset of rows with an index on the primary key. A `Draft` lays changes over it, in the
order they are given, and leaves it alone: a draft is thrown away or, once checked, committed whole.

    draft.insert(r); draft.delete(r)     changes nothing
    two rows with one key                allowed on the way, refused by `check`

Streams and tables with `stored = false` keep no rows, so their drafts can only count: nothing is known to check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter

from viewmill.catalog import RelationInfo
from viewmill.errors import DataError
from viewmill.intake import Row
from viewmill.wording import quoted, shown


class BaseTable:
    """`rows`: how often each row occurs. `by_key`: the row of each primary key."""

    def __init__(self, info: RelationInfo) -> None:
        self.info = info
        self.rows: dict[Row, int] = {}
        self.by_key: dict[Row, Row] = {}
        self.touched = False  # has any change been committed, kept or not
        self.key: Callable[[Row], Row] = _picker([info.names.index(name) for name in info.primary_key])
        """The primary key of a row."""

    @property
    def keeps_rows(self) -> bool:
        return self.info.stored and self.info.kind == "table"

    def single(self, given: object, weight: int) -> dict[Row, int] | None:
        """What inserting a row (1), removing one (-1) or updating one (0) changes, if what is given is a row at all.

        None if it is to be looked at more closely, by a draft.
        """
        try:
            if type(given) is dict:
                return self._without_key(given) if weight < 0 else None
            if type(given) is not tuple:
                return None
            if weight < 0:
                return {given: -1} if self.rows.get(given, 0) > 0 else None
            old = self.by_key.get(self.key(given)) if self.info.primary_key else None
            if weight:
                return {given: 1} if old is None else None
            return {old: -1, given: 1} if old is not None and old != given else None
        except Exception:  # values of other classes raise what they like when they are compared; a draft tells why
            return None

    def _without_key(self, given: dict[str, object]) -> dict[Row, int] | None:
        key = tuple(given[name] for name in self.info.primary_key)
        old = self.by_key.get(key) if len(given) == len(key) else None
        # What is equal may be of another type, such as True for 1.
        same = old is not None and all(type(a) is type(b) for a, b in zip(key, self.key(old), strict=True))
        return {old: -1} if old is not None and same else None

    def commit(self, changes: dict[Row, int]) -> None:
        """Take checked changes. Cannot fail."""
        self.touched = self.touched or bool(changes)
        if not self.keeps_rows:
            return
        for row, weight in changes.items():
            if weight < 0 and self.info.primary_key:
                self.by_key.pop(self.key(row), None)
            count = self.rows.get(row, 0) + weight
            if count:
                self.rows[row] = count
            else:
                del self.rows[row]
        # After all removals: an update removes and adds the same key.
        if self.info.primary_key:
            self.by_key.update((self.key(row), row) for row, weight in changes.items() if weight > 0)


def _picker(places: list[int]) -> Callable[[Row], Row]:
    match places:
        case []:
            return lambda row: ()
        case [place]:
            return lambda row: (row[place],)
        case _:
            return itemgetter(*places)


class Draft:
    """Pending changes to one table: each operation sees those before it."""

    def __init__(self, table: BaseTable) -> None:
        self._table = table
        self._changes: dict[Row, int] = {}
        self._log: list[tuple[Row, int]] = []  # what `_changes` adds up
        self._touched: dict[Row, dict[Row, None]] = {}  # rows by key; a dict keeps the order of arrival

    @property
    def info(self) -> RelationInfo:
        return self._table.info

    @property
    def changes(self) -> dict[Row, int]:
        """The net change: rows with weights other than 0."""
        return {row: weight for row, weight in self._changes.items() if weight}

    def insert(self, row: Row) -> None:
        self._add(row, 1)

    def insert_all(self, rows: list[Row]) -> None:
        """The same for many rows. Cannot fail, so there is nothing to undo."""
        changes, touched, key = self._changes, self._touched, self._table.key
        for row in rows:
            changes[row] = changes.get(row, 0) + 1
        for row in rows if self._table.info.primary_key else ():
            touched.setdefault(key(row), {})[row] = None

    def delete(self, row: Row) -> None:
        if self._table.keeps_rows and self._count(row) < 1:
            raise self._not_there(row)
        self._add(row, -1)

    def delete_key(self, key: Row) -> None:
        self._add(self._row_of_key(key, "delete from"), -1)

    def discard(self, key: Row) -> None:
        """Remove the row with this key, if there is one."""
        if self._rows_of_key(key):
            self.delete_key(key)

    def update(self, row: Row) -> None:
        """Replace the row that has the same primary key."""
        self._add(self._row_of_key(self._table.key(row), "update"), -1)
        self._add(row, 1)

    def upsert(self, row: Row) -> None:
        """Replace the row that has the same primary key, or add one."""
        if self._rows_of_key(self.key(row)):
            self.update(row)
        else:
            self.insert(row)

    def clear(self) -> None:
        """Remove all rows."""
        for row in {**self._table.rows, **self._changes}:
            if count := self._count(row):
                self._add(row, -count)

    def add(self, row: Row, weight: int) -> None:
        """Count a row, whatever is there now: `check` looks at what is left in the end."""
        self._add(row, weight)

    def key(self, row: Row) -> Row:
        return self._table.key(row)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """If one operation inside is refused, none of them happened."""
        done = len(self._log)
        try:
            yield
        except BaseException:
            for row, weight in self._log[done:]:
                self._changes[row] -= weight
            del self._log[done:]
            raise

    def check(self) -> None:
        """Refuse rows that are removed and were not there, and two rows with one primary key."""
        for row, weight in self._changes.items() if self._table.keeps_rows else ():
            if weight < 0 and self._count(row) < 0:
                raise self._not_there(row)
        if not (self._table.info.primary_key and self._table.keeps_rows):
            return
        for key, touched in self._touched.items():
            if len(touched) == 1 and key not in self._table.by_key and self._changes[next(iter(touched))] <= 1:
                continue  # a new row
            rows = self._rows_of_key(key)
            if sum(map(self._count, rows)) > 1:
                raise DataError(
                    f"table {quoted(self._name)} would have two rows with primary key {self.shown_key(key)}: "
                    + " and ".join(shown(row) for row in (rows if len(rows) > 1 else rows * 2)[:2]),
                    hint="use update to replace a row, or delete the old one in the same batch",
                )

    @property
    def _name(self) -> str:
        return self._table.info.name

    def _add(self, row: Row, weight: int) -> None:
        self._changes[row] = self._changes.get(row, 0) + weight
        self._log.append((row, weight))
        if self._table.info.primary_key:
            self._touched.setdefault(self._table.key(row), {})[row] = None

    def _count(self, row: Row) -> int:
        return self._table.rows.get(row, 0) + self._changes.get(row, 0)

    def _rows_of_key(self, key: Row) -> list[Row]:
        """The rows that have the key now."""
        rows = dict.fromkeys([self._table.by_key[key]] if key in self._table.by_key else [])
        rows.update(self._touched.get(key, {}))
        return [row for row in rows if self._count(row) > 0]

    def _row_of_key(self, key: Row, verb: str) -> Row:
        rows = self._rows_of_key(key)
        if not rows:
            raise DataError(
                f"cannot {verb} table {quoted(self._name)}: no row has primary key {self.shown_key(key)}",
                hint="insert it instead" if verb == "update" else None,
            )
        if len(rows) > 1 or self._count(rows[0]) > 1:
            raise DataError(
                f"cannot {verb} table {quoted(self._name)}: two rows now have primary key {self.shown_key(key)}",
                hint="delete or update the old row before inserting the new one",
            )
        return rows[0]

    def shown_key(self, key: Row) -> str:
        """`id = 1, part = 2`"""
        return ", ".join(
            f"{name} = {shown(value)}" for name, value in zip(self._table.info.primary_key, key, strict=True)
        )

    def _not_there(self, row: Row) -> DataError:
        return DataError(
            f"cannot delete from table {quoted(self._name)} a row that is not there: {shown(row)}",
            hint=self._other_row_hint(row),
        )

    def _other_row_hint(self, row: Row) -> str | None:
        if not self._table.info.primary_key:
            return None
        rows = self._rows_of_key(self._table.key(row))
        if not rows:
            return None
        return f"the row with this key is {shown(rows[0])}; to delete by key, pass dicts with only the key columns"
