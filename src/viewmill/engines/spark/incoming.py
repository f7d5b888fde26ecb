"""The source stage: batches as DataFrames become rows for buckets, shuffled by Spark itself (Hot Dog, section 4).

    key   the bucket they go to (see `hash.bucket_keys`)
    part  the number of the `Send`
    w     the count
    s0 .. the columns: all sends share these slots, a column having one of its own type, and the others are NULL

    send orders(id, day) by id, send items(order, price) by order:      s0 bigint, s1 date, s2 decimal(15,2)

A relation that is sent several ways is read once, each row becoming several. The bucket of a row depends on the row
alone, not on the task that read it: a task that is run again sends every row where it went before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import assert_never

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from viewmill.arrow import arrow_schema, arrow_type
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.distribute.nodes import WEIGHT, Anywhere, Buckets, Driver, Everywhere, Here, Send
from viewmill.engines.spark.columns import Checked, checked, spark_type
from viewmill.engines.spark.conditions import condition
from viewmill.engines.spark.hash import bucket_column, bucket_keys, key_column
from viewmill.errors import InternalError
from viewmill.numbers import numbers
from viewmill.types import Type


@dataclass(frozen=True, slots=True)
class Part:
    """One `Send`: its number, what it arrives as, and the slot of each column."""

    number: int
    info: RelationInfo
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows of several sends travel together. A task needs this to read what arrives."""

    parts: tuple[Part, ...]
    slots: tuple[Type, ...]


def layout(sends: Sequence[Send]) -> Layout:
    slots: list[Type] = []
    parts: list[Part] = []
    for number, send in enumerate(sends):
        taken: list[int] = []
        for column in send.info.columns:
            free = (i for i, type_ in enumerate(slots) if type_ == column.type and i not in taken)
            slot = next(free, len(slots))
            if slot == len(slots):
                slots.append(column.type)
            taken.append(slot)
        parts.append(Part(number, send.info, tuple(taken)))
    return Layout(tuple(parts), tuple(slots))


# --- in Spark


class Incoming:
    """What is made of batches where they come in.

    Columns are spelled out once for every kind of batch: each of the thousands of their parts is a call of Spark's
    JVM, which took most of a small batch's time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Steps] = {}

    def to_buckets(
        self,
        sends: Sequence[Send],
        frames: Mapping[str, DataFrame],
        relations: Mapping[str, RelationInfo],
        buckets: int,
    ) -> DataFrame:
        """The rows of all sends. A frame has the columns of its relation and the column `weight_` of counts."""
        return self._together(sends, frames, relations, buckets)

    def where_they_are(
        self, sends: Sequence[Send], frames: Mapping[str, DataFrame], relations: Mapping[str, RelationInfo]
    ) -> DataFrame:
        """The rows of all sends, filtered and projected but without a key: they stay in the task that read them."""
        return self._together(sends, frames, relations, None)

    def _together(
        self,
        sends: Sequence[Send],
        frames: Mapping[str, DataFrame],
        relations: Mapping[str, RelationInfo],
        buckets: int | None,
    ) -> DataFrame:
        rows: list[DataFrame] = []
        for name in dict.fromkeys(send.source for send in sends):
            schema = frames[name].schema
            kind = (name, tuple(sends), schema.json(), relations[name], buckets)
            if kind not in self._known:
                self._known[kind] = _steps(name, sends, checked(schema, relations[name], WEIGHT), buckets)
            rows.append(self._known[kind].of(frames[name]))
        return reduce(DataFrame.unionAll, rows)


@dataclass(frozen=True, slots=True)
class _Steps:
    """What is done to a frame: rows filtered, columns computed, rows filtered again, and a column of lists unfolded."""

    kept: Column | None
    columns: tuple[Column, ...]
    kept_then: Column | None
    copied: bool

    def of(self, frame: DataFrame) -> DataFrame:
        if self.kept is not None:
            frame = frame.filter(self.kept)
        frame = frame.select(*self.columns)
        if self.kept_then is not None:
            frame = frame.filter(self.kept_then)
        return frame.withColumn("key", F.explode("key")) if self.copied else frame


def _steps(name: str, sends: Sequence[Send], source: Checked, buckets: int | None) -> _Steps:
    shape = layout(sends)
    parts = [(part, send) for part, send in zip(shape.parts, sends, strict=True) if send.source == name]
    copied = buckets is not None and any(isinstance(send.to, Everywhere) for _, send in parts)
    rows = [_row(source, part, send, shape) for part, send in parts]
    if buckets is not None:
        rows = [row.with_key(_key(source, send, buckets, copied)) for row, (_, send) in zip(rows, parts, strict=True)]
    return _one(rows[0], copied) if len(rows) == 1 else _several(rows, copied)


@dataclass(frozen=True, slots=True)
class _Row:
    """What one send makes of a row: which rows it takes, and cells by name."""

    kept: Column | None
    cells: dict[str, Column]

    def with_key(self, key: Column) -> _Row:
        return _Row(self.kept, {"key": key, **self.cells})


def _one(row: _Row, copied: bool) -> _Steps:
    return _Steps(row.kept, tuple(cell.alias(name) for name, cell in row.cells.items()), None, copied)


def _several(rows: Sequence[_Row], copied: bool) -> _Steps:
    """Each row of the frame becomes several. What a send does not take has no part number there."""
    cells = [
        F.when(row.kept, cell) if name == "part" and row.kept is not None else cell
        for row in rows
        for name, cell in row.cells.items()
    ]
    stacked = F.stack(F.lit(len(rows)), *cells).alias(*rows[0].cells)
    some = any(row.kept is not None for row in rows)
    return _Steps(None, (stacked,), F.col("part").isNotNull() if some else None, copied)


def _row(source: Checked, part: Part, send: Send, shape: Layout) -> _Row:
    tests = [kept for test in send.where if (kept := condition(test, source)) is not None]
    used = dict.fromkeys([*send.info.names, *(name for test in tests for name in test.names)])
    filled = dict(zip(part.slots, send.info.names, strict=True))
    cells = {"part": F.lit(part.number), "w": source.guarded(source.weight, used)}
    for slot, type_ in enumerate(shape.slots):
        empty = F.lit(None).cast(spark_type(type_))
        cells[f"s{slot}"] = source.columns[filled[slot]] if slot in filled else empty
    return _Row(reduce(Column.__and__, (test.column for test in tests)) if tests else None, cells)


def _key(source: Checked, send: Send, buckets: int, copied: bool) -> Column:
    """The key of the bucket, or the list of keys if some send of the relation goes to several."""
    match send.to:
        case Buckets(by):
            key = key_column(_bucket(source, send.info, by, buckets), buckets)
        case Anywhere():
            key = key_column(_bucket(source, send.info, send.info.names, buckets), buckets)
        case Everywhere():
            return F.array(*(F.lit(key) for key in bucket_keys(buckets)))
        case Driver() | Here():
            raise InternalError(f"{send.source} is not sent to a bucket as it came in")
        case _:
            assert_never(send.to)
    return F.array(key) if copied else key


def _bucket(source: Checked, info: RelationInfo, by: Sequence[str], buckets: int) -> Column:
    types = {column.name: column.type for column in info.columns}
    return bucket_column([(source.columns[name], types[name]) for name in by], buckets)


# --- in Python, in a bucket


def split(sends: Sequence[Send], table: pa.Table) -> dict[str, tuple[pa.RecordBatch, pa.Array]]:
    """Rows and their counts, by the name they arrive as; what has no rows is not there."""
    if table.num_rows == 0:
        return {}
    parts = layout(sends).parts
    sent_as = numbers(table.column("part"))
    counts = np.bincount(sent_as, minlength=len(parts))
    if np.count_nonzero(counts) == 1:
        return {part.info.name: _taken(table, part, None) for part in parts if counts[part.number]}
    # Of each part only its own slots are taken: the NULLs that fill the others are not copied.
    order = np.argsort(sent_as, kind="stable")
    ends = np.cumsum(counts)
    places = [pa.array(order[end - count : end]) for end, count in zip(ends, counts, strict=True)]
    return {part.info.name: _taken(table, part, places[part.number]) for part in parts if counts[part.number]}


def _taken(table: pa.Table, part: Part, places: pa.Array | None) -> tuple[pa.RecordBatch, pa.Array]:
    def taken(name: str) -> pa.Array:
        column = table.column(name).combine_chunks()
        return column if places is None else column.take(places)

    weights = taken("w")
    arrays = [_as(taken(f"s{slot}"), column) for slot, column in zip(part.slots, part.info.columns, strict=True)]
    if not arrays:  # rows without columns have only their number
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(weights), pa.struct([]))), weights
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(part.info.columns)), weights


def _as(array: pa.Array, column: ColumnInfo) -> pa.Array:
    """Spark's timestamps have a zone, which is UTC; ours have none."""
    wanted = arrow_type(column.type)
    return array if array.type == wanted else array.cast(wanted)
