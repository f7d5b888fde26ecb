"""A handle on one view: read it, look rows up, follow its changes.

    view = mill.view("revenue")
    view.to_arrow()                 # everything, at the last committed version
    view["1995-Q1"]                 # the one row whose first column is this
    view.subscribe(print)           # called after every batch that changes the view
    view.write("s3://bucket/v")     # on Spark: written there, now and after every batch

A handle holds no rows: each read sees the version of that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

import pyarrow as pa

from viewmill.catalog import ColumnInfo
from viewmill.errors import DataError
from viewmill.intake import Row
from viewmill.result import Result
from viewmill.subscriptions import Subscriber
from viewmill.wording import quoted, shown


class Reader(Protocol):
    """What a view needs from its mill."""

    @property
    def version(self) -> int: ...

    def read(self, name: str) -> Result: ...

    def read_arrow(self, name: str) -> pa.Table: ...

    def read_frame(self, name: str) -> Any: ...

    def follow(self, name: str, subscriber: Subscriber) -> Callable[[], None]: ...

    def write(
        self, name: str, target: str | os.PathLike[str], mode: Literal["versioned", "changes"], keep: int
    ) -> Callable[[], None]: ...


class View:
    """Made by `Mill.view(name)`."""

    def __init__(self, name: str, reader: Reader) -> None:
        self.name = name
        self._reader = reader

    def to_arrow(self) -> pa.Table:
        return self._reader.read_arrow(self.name)

    def to_pandas(self) -> Any:
        return self.read().to_pandas()

    def to_df(self) -> Any:
        """A Spark DataFrame of the view as it is now; of a mill on Spark only."""
        return self._reader.read_frame(self.name)

    def to_dicts(self) -> list[dict[str, object]]:
        return self.read().to_dicts()

    def read(self) -> Result:
        """All rows at one version, ordered and cut as the view's ORDER BY and LIMIT say."""
        return self._reader.read(self.name)

    @property
    def columns(self) -> tuple[ColumnInfo, ...]:
        return self.read().columns

    @property
    def version(self) -> int:
        """The batch that the view shows."""
        return self._reader.version

    def __len__(self) -> int:
        return len(self.read())

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read())

    def __getitem__(self, key: object) -> dict[str, object]:
        """The one row whose leading columns equal `key`: a value, or a tuple of values.

        For a grouped view that selects its keys first, this is the row of a group.
        """
        wanted = key if isinstance(key, tuple) else (key,)
        rows = self.read()
        found = [row for row in rows if row[: len(wanted)] == wanted]
        if not found:
            raise KeyError(key)
        if len(found) > 1:
            raise DataError(
                f"{len(found)} rows of view {quoted(self.name)} start with {shown(wanted)}",
                hint="give more leading columns, or read the view with to_arrow()",
            )
        return dict(zip((column.name for column in rows.columns), found[0], strict=True))

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback(changes)` after every batch that changes this view. Returns what ends the subscription."""
        return self._reader.follow(self.name, callback)

    def write(
        self,
        target: str | os.PathLike[str],
        *,
        mode: Literal["versioned", "changes"] = "versioned",
        keep: int = 2,
    ) -> Callable[[], None]:
        """Write the view as it is now, and after every batch from now on; of a mill on Spark only.

        `target` is a path or URI, or a name for Spark's catalog. With mode "versioned" it has the whole view, which
        `viewmill.read_versioned` reads, and keeps this many versions; with "changes", the rows that each batch added
        and removed. Either is written before the batch returns. Returns what ends it; to write to the same place
        again, in this process or another, goes on from what is there.
        """
        return self._reader.write(self.name, target, mode, keep)

    def __repr__(self) -> str:
        return f"View({self.name!r})"

    def __str__(self) -> str:
        return str(self.read())
