"""Views that live in buckets, read bucket by bucket: each row is in exactly one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from viewmill.arrow import arrow_schema, arrow_table
from viewmill.catalog import ColumnInfo
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.resolve import StoredTable
from viewmill.engines.spark.states import state_at
from viewmill.engines.spark.work import Point
from viewmill.engines.spark.worker import settle

Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def view_reader(point: Point, view: str, columns: Sequence[ColumnInfo]) -> Reader:
    """For `mapInArrow` over an anchor: the leading columns of a view, each row as often as it occurs."""

    def read(anchors: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for anchor in anchors:
            for bucket in anchor.column("bucket").to_pylist():
                with state_at(point, bucket) as kept:
                    yield from _rows(kept, view, columns).to_batches()
        settle()

    return read


def table_reader(point: Point, table: StoredTable) -> Reader:
    """The same for the rows of a stored table."""

    def read(anchors: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for anchor in anchors:
            for bucket in anchor.column("bucket").to_pylist():
                with state_at(point, bucket) as kept:
                    rows = [row for row, count in kept.store(table.store).items() for _ in range(int(count))]
                    yield from arrow_table(table.info.columns, rows).to_batches()
        settle()

    return read


def _rows(kept: Kept, view: str, columns: Sequence[ColumnInfo]) -> pa.Table:
    arrays = kept.columns(view, [column.type for column in columns])
    if arrays is not None:
        return pa.table(arrays, schema=arrow_schema(columns))
    width = len(columns)
    rows = [row[:width] for row, weight in kept.contents(view).items() for _ in range(int(weight))]
    return arrow_table(columns, rows)
