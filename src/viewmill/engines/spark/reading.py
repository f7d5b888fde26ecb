"""Views that live in buckets, read bucket by bucket: each row is in exactly one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from viewmill.arrow import arrow_schema, arrow_table
from viewmill.catalog import ColumnInfo
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.columns import exactly
from viewmill.engines.spark.failure import Told
from viewmill.engines.spark.hash import hash_array
from viewmill.engines.spark.parts import apart
from viewmill.engines.spark.resolve import StoredTable
from viewmill.engines.spark.states import at_version, state_at
from viewmill.engines.spark.work import Point
from viewmill.engines.spark.worker import settle
from viewmill.errors import ViewmillError
from viewmill.numbers import as_column

_A_DAY = 86400.0
"""Seconds to wait for somebody who reads as much of a bucket as we are going to."""

Reader = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def view_reader(point: Point, view: str, columns: Sequence[ColumnInfo]) -> Reader:
    """For `mapInArrow` over an anchor: the leading columns of a view, each row as often as it occurs."""

    return _reader(point, lambda kept: rows_of_view(kept, view, columns))


def table_reader(point: Point, table: StoredTable, hash_: str | None = None) -> Reader:
    """The same for the rows of a stored table; for taking them in parts, with a hash for each under that name."""
    schema = arrow_schema(table.info.columns)
    key = tuple(table.info.names.index(name) for name in table.key)

    def rows(kept: Kept) -> Iterator[pa.RecordBatch]:
        for piece in kept.pieces(table.store):
            batch = piece.repeated(piece.counts, schema)
            if hash_ is not None:
                hashes = apart(hash_array(piece.columns(key), len(piece.counts)), piece.counts, point.buckets)
                batch = batch.append_column(pa.field(hash_, pa.int32(), nullable=False), as_column(hashes))
            yield batch

    return _reader(point, rows) if hash_ is None else _stream(point, rows)


COUNTS_DDL = "name string, rows bigint"


def row_counter(point: Point, tables: Sequence[StoredTable]) -> Reader:
    """How many rows of each of these tables a bucket has."""

    def count(kept: Kept) -> Iterator[pa.RecordBatch]:
        counts = [sum(int(piece.counts.sum()) for piece in kept.pieces(table.store)) for table in tables]
        yield pa.RecordBatch.from_pydict({"name": [table.info.name for table in tables], "rows": counts})

    return _reader(point, count)


def _reader(point: Point, rows: Callable[[Kept], Iterable[pa.RecordBatch]]) -> Reader:
    def of(bucket: int) -> Iterator[pa.RecordBatch]:
        return iter(at_version(point, bucket, lambda kept: list(rows(kept))))

    return bucket_by_bucket(of)


def _stream(point: Point, rows: Callable[[Kept], Iterable[pa.RecordBatch]]) -> Reader:
    """What comes out is not in memory at once. Nobody else has the bucket meanwhile, also not the same task, so this is
    not for frames that may be joined with others.
    """

    def of(bucket: int) -> Iterator[pa.RecordBatch]:
        at_version(point, bucket, lambda kept: None, patience=_A_DAY)  # from here on it is somewhere
        with state_at(point, bucket, patience=_A_DAY) as kept:
            yield from rows(kept)

    return bucket_by_bucket(of)


def bucket_by_bucket(rows: Callable[[int], Iterator[pa.RecordBatch]]) -> Reader:
    """What `rows` gives for each bucket that a task has."""

    def read(anchors: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for anchor in anchors:
            for bucket in anchor.column("bucket").to_pylist():
                try:
                    yield from rows(bucket)
                except ViewmillError as error:
                    raise Told(error) from error
        settle()

    return read


def remover(point: Point) -> Reader:
    """For the end of a mill: remove its buckets, wherever tasks run."""

    def remove(anchors: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for anchor in anchors:
            point.home.remove()
            yield anchor

    return remove


def rows_of_view(kept: Kept, view: str, columns: Sequence[ColumnInfo]) -> Iterator[pa.RecordBatch]:
    arrays = kept.columns(view, [column.type for column in columns])
    if arrays is not None:
        yield from pa.table(arrays, schema=arrow_schema(columns)).to_batches()
        return
    width = len(columns)
    rows = [row[:width] for row, weight in kept.contents(view).items() for _ in range(int(weight))]
    yield from arrow_table(columns, rows).to_batches()


def first_rows(frame: DataFrame, order: Sequence[tuple[int, bool, bool]], count: int) -> DataFrame:
    """The first rows of a frame by these columns, each descending or not and with NULLs first or not; then by all.

    Executors look for their first ones, so that these and no others come to the driver.
    """
    columns = [exactly(name) for name in frame.columns]
    keys = []
    for place, descending, nulls_first in order:
        column = columns[place]
        if descending:
            keys.append(column.desc_nulls_first() if nulls_first else column.desc_nulls_last())
        else:
            keys.append(column.asc_nulls_first() if nulls_first else column.asc_nulls_last())
    return frame.orderBy(*keys, *(column.asc_nulls_first() for column in columns)).limit(count)
