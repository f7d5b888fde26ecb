"""One atomic batch of a mill on Spark: DataFrames, and what is to happen to their rows."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from viewmill.batch import check_deletable, check_overwritable, check_updatable
from viewmill.engines.spark.frames import Request, frame_of, has_key_alone, is_frame, replaced
from viewmill.engines.spark.resolve import Op
from viewmill.errors import DataError
from viewmill.tables import BaseTable
from viewmill.wording import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkBatch:
    """Pending changes. Made by `mill.batch()`; operations take effect in order, when the block ends, or not at all."""

    def __init__(
        self,
        spark: SparkSession,
        find: Callable[[str, str], BaseTable],
        rows: Callable[[str], DataFrame | None],
        commit: Callable[[list[Request]], None],
    ) -> None:
        self._spark = spark
        self._find = find
        self._rows = rows
        self._commit = commit
        self._requests: list[Request] = []
        self._open = True

    def insert(self, table: str, data: object) -> None:
        """Add rows."""
        base = self._table(table, "insert into")
        self._ask(base, Op.INSERT, data)

    def delete(self, table: str, data: object) -> None:
        """Remove rows, given whole, or with only the primary key."""
        base = self._table(table, "delete from")
        check_deletable(base.info)
        frame = frame_of(self._spark, data, base)
        if frame is not None:
            self._ask(base, Op.DELETE_KEY if has_key_alone(frame, base.info) else Op.DELETE, frame)

    def update(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key."""
        base = self._table(table, "update")
        check_updatable(base.info)
        self._ask(base, Op.UPDATE, data)

    def upsert(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key; add those whose key is new."""
        base = self._table(table, "upsert into")
        check_updatable(base.info)
        self._ask(base, Op.UPSERT, data)

    def overwrite(self, table: str, data: object) -> None:
        """Replace all rows by these. Views take only what differs, which Spark finds out."""
        base = self._table(table, "overwrite")
        check_overwritable(base.info)
        if any(request.relation == base.info.name for request in self._requests):
            raise DataError(
                f"table {quoted(base.info.name)} is overwritten after other changes of it in the same batch",
                hint="overwrite it first: the changes before it would be lost",
            )
        new, there = frame_of(self._spark, data, base), self._rows(base.info.name)
        for op, frame in replaced(there, new, base.info):
            self._ask(base, op, frame)

    def __enter__(self) -> SparkBatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if kind is None:
            self._commit(self._requests)

    def _table(self, table: str, verb: str) -> BaseTable:
        if not self._open:
            raise DataError("this batch has ended", hint="start another one with mill.batch()")
        return self._find(table, verb)

    def _ask(self, base: BaseTable, op: Op, data: object) -> None:
        frame = frame_of(self._spark, data, base, replaces=op in (Op.UPDATE, Op.UPSERT))
        if frame is not None:
            self._requests.append(Request(base.info.name, op, frame, not is_frame(data)))
