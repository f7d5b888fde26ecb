"""Views that live in buckets, read bucket by bucket: each row is in exactly one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from viewmill.arrow import arrow_schema, arrow_table
from viewmill.catalog import ColumnInfo
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.failure import Told
from viewmill.engines.spark.parts import WHOLE, Part
from viewmill.engines.spark.resolve import StoredTable
from viewmill.engines.spark.states import at_version
from viewmill.engines.spark.work import Point
from viewmill.engines.spark.worker import settle
from viewmill.errors import ViewmillError

Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def view_reader(point: Point, view: str, columns: Sequence[ColumnInfo]) -> Reader:
    """For `mapInArrow` over an anchor: the leading columns of a view, each row as often as it occurs."""

    return _reader(point, lambda kept: _rows(kept, view, columns))


def table_reader(point: Point, table: StoredTable, part: Part = WHOLE) -> Reader:
    """The same for the rows of a stored table, or a part of them."""
    schema, names = arrow_schema(table.info.columns), table.info.names
    key = tuple(names.index(name) for name in table.key)

    def rows(kept: Kept) -> pa.Table:
        pieces = (
            piece.repeated(part.share(piece.columns(key), piece.counts, point.buckets), schema)
            for piece in kept.pieces(table.store)
        )
        return pa.Table.from_batches((piece for piece in pieces if piece.num_rows), schema)

    return _reader(point, rows)


COUNTS_DDL = "rows bigint"


def row_counter(point: Point, tables: Sequence[StoredTable]) -> Reader:
    """How many rows of these tables a bucket has, in all."""

    def count(kept: Kept) -> pa.Table:
        total = sum(int(piece.counts.sum()) for table in tables for piece in kept.pieces(table.store))
        return pa.table({"rows": [total]})

    return _reader(point, count)


def _reader(point: Point, rows: Callable[[Kept], pa.Table]) -> Reader:
    def read(anchors: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for anchor in anchors:
            for bucket in anchor.column("bucket").to_pylist():
                try:
                    found = at_version(point, bucket, rows)
                except ViewmillError as error:
                    raise Told(error) from error
                yield from found.to_batches()
        settle()

    return read


def remover(point: Point) -> Reader:
    """For the end of a mill: remove its buckets, wherever tasks run."""

    def remove(anchors: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for anchor in anchors:
            point.home.remove()
            yield anchor

    return remove


def _rows(kept: Kept, view: str, columns: Sequence[ColumnInfo]) -> pa.Table:
    arrays = kept.columns(view, [column.type for column in columns])
    if arrays is not None:
        return pa.table(arrays, schema=arrow_schema(columns))
    width = len(columns)
    rows = [row[:width] for row, weight in kept.contents(view).items() for _ in range(int(weight))]
    return arrow_table(columns, rows)


def first_rows(frame: DataFrame, order: Sequence[tuple[int, bool, bool]], count: int) -> DataFrame:
    """The first rows of a frame by these columns, each descending or not and with NULLs first or not; then by all.

    Executors look for their first ones, so that these and no others come to the driver.
    """
    columns = [F.col("`" + name.replace("`", "``") + "`") for name in frame.columns]
    keys = []
    for place, descending, nulls_first in order:
        column = columns[place]
        if descending:
            keys.append(column.desc_nulls_first() if nulls_first else column.desc_nulls_last())
        else:
            keys.append(column.asc_nulls_first() if nulls_first else column.asc_nulls_last())
    return frame.orderBy(*keys, *(column.asc_nulls_first() for column in columns)).limit(count)
