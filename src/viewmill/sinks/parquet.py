"""Rows to Parquet files: by the driver if it has them, else by the executors that do.

    a table      ->  one file
    a DataFrame  ->  a file for each partition that has rows, each written by its task

Files are written with Arrow, to wherever the checkpoint may be, too. A file is there as a whole or not at all, so that
a task which runs twice does no harm.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame

from viewmill.arrow import arrow_schema, with_moments
from viewmill.catalog import ColumnInfo
from viewmill.durable.files import FileError, Files
from viewmill.engines.spark.cluster import collected
from viewmill.engines.spark.failure import Told
from viewmill.errors import ViewmillError

Rows: TypeAlias = pa.Table | DataFrame
"""Rows on the driver, or where they are."""

_WRITTEN = "rows bigint"


def parquet_schema(columns: Sequence[ColumnInfo]) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in with_moments(arrow_schema(columns))])


def write_parts(rows: Rows, schema: pa.Schema, files: Files, folder: str) -> None:
    """All rows to files of a folder: at least one, so that a reader finds the columns."""
    if isinstance(rows, pa.Table):
        _write_file(rows.to_batches(), schema, files, _part(folder, 0))
    elif not _written(rows, schema, files, folder):
        _write_file((), schema, files, _part(folder, 0))


def write_file(rows: Rows, schema: pa.Schema, files: Files, name: str) -> None:
    """All rows to one file, which appears as a whole.

    Who moves a file that a task has written to its place is the driver: no task that is late can.
    """
    if isinstance(rows, pa.Table):
        _write_file(rows.to_batches(), schema, files, name)
        return
    folder = f"{STAGING}{uuid.uuid4().hex}"
    write_parts(rows.repartition(1), schema, files, folder)
    files.move(_part(folder, 0), name)
    with suppress(FileError):  # the file is there; who opens the place again removes what is left
        files.remove(folder)


STAGING = "_staging-"
"""Folders that start like this hold files on their way. Spark does not look into them."""


def _part(folder: str, number: int) -> str:
    return f"{folder}/part-{number:05d}.parquet"


def _written(frame: DataFrame, schema: pa.Schema, files: Files, folder: str) -> int:
    """The number of files that tasks have written."""
    return int(collected(frame.mapInArrow(_writer(schema, files, folder), _WRITTEN)).num_rows)


def _writer(
    schema: pa.Schema, files: Files, folder: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        some = (batch for batch in batches if batch.num_rows)
        first = next(some, None)
        if first is None:
            return
        try:
            rows = _write_file(itertools.chain((first,), some), schema, files, _part(folder, context.partitionId()))
        except ViewmillError as error:
            raise Told(error) from error
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})

    return write


def _write_file(batches: Iterable[pa.RecordBatch], schema: pa.Schema, files: Files, name: str) -> int:
    rows = 0
    with files.output(name) as out, pq.ParquetWriter(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.cast(schema))
            rows += batch.num_rows
    return rows
