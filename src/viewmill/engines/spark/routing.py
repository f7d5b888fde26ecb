"""From where a batch comes in to its buckets: rows become messages, in the Python worker that Spark hands them to.

    rows of lineitem  ->  lineitem@l_orderkey, by order   ->  one message for each bucket, shuffled by Spark
                          lineitem@l_partkey, by part

The bucket of a row depends on the row alone, not on the task that read it: a task that is run again sends every row
where it went before, in whatever order it finds them. That is why rows that may be anywhere are not just cut in parts.
Sums that are made of the rows of a task (`source.py`) are the same again, too, of the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa
from pyspark import TaskContext

from viewmill.arrow import arrow_schema, arrow_type
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.distribute.nodes import Anywhere, Buckets, Driver, Everywhere, Here, Send
from viewmill.engines.spark.columns import null_in
from viewmill.engines.spark.counted import Rows, empty_rows, with_counts
from viewmill.engines.spark.failure import CORRECT, told
from viewmill.engines.spark.message import Format, grouped, letters, route
from viewmill.engines.spark.outgoing import Outgoing
from viewmill.engines.spark.parts import HASH, part_numbers
from viewmill.engines.spark.worker import settle
from viewmill.errors import DataError, InternalError
from viewmill.numbers import numbers

RowsFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""For `mapInArrow`."""

ROW = "row"
"""The column with all others in it, where rows are packed."""
AT_ONCE = 2**26
"""Bytes of rows that are routed together."""
_TASKS = 2**16  # more than there are, mostly: numbers of messages from different tasks are not the same
_PIECES = 2**6  # more than there are of what is routed together


def columns_of(relation: str, sends: Sequence[Send]) -> tuple[str, ...]:
    """The columns of a relation that some send has: all that Spark hands over."""
    return tuple(dict.fromkeys(name for send in sends if send.source == relation for name in send.info.names))


def sent_rows(relation: str, sends: Sequence[Send], rows: pa.RecordBatch) -> dict[str, Rows]:
    """What each send of a relation makes of rows, by the name it arrives as; what has no rows is not there."""
    columns = columns_of(relation, sends)
    found: dict[str, Rows] = {}
    for number, send in enumerate(sends):
        if send.source == relation:
            names = [*(f"c{columns.index(name)}" for name in send.info.names), "w"]
            kept = rows.select(names)
            if f"k{number}" in rows.schema.names:
                kept = kept.filter(rows.column(f"k{number}"))
            if kept.num_rows:
                found[send.info.name] = _typed(kept, send.info), numbers(kept.column(kept.num_columns - 1))
    return found


def check_nulls(info: RelationInfo, sends: Sequence[Send], rows: pa.RecordBatch) -> None:
    """Raise if there is a NULL in a column of a relation that has none."""
    for place, name in enumerate(columns_of(info.name, sends)):
        column = info.column(name)
        if column is not None and not column.nullable and rows.column(f"c{place}").null_count:
            raise DataError(null_in(column, info), hint=CORRECT)


def _typed(rows: pa.RecordBatch, info: RelationInfo) -> pa.RecordBatch:
    """The columns as they were declared, without the count."""
    if not info.columns:
        return empty_rows(rows.num_rows)
    arrays = [_as(rows.column(place), column) for place, column in enumerate(info.columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(info.columns))


def _as(array: pa.Array, column: ColumnInfo) -> pa.Array:
    """Spark's timestamps have a zone, which is UTC; ours have none."""
    wanted = arrow_type(column.type)
    return array if array.type == wanted else array.cast(wanted)


def together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a task, in pieces of bounded size."""
    waiting, size = list[pa.RecordBatch](), 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(_unpacked(batch))
            size += batch.nbytes
        if size >= AT_ONCE:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _unpacked(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(batch.column(0)) if batch.schema.names == [ROW] else batch


def _nothing(found: Mapping[str, Rows]) -> Sequence[Outgoing]:
    return ()


@dataclass(frozen=True, slots=True)
class Travelling:
    """What leaves where a batch is read: rows as they are, and what is `made` of these. `given` are the relations."""

    form: Format
    sends: Sequence[Send]
    given: Mapping[str, RelationInfo]
    made: Callable[[Mapping[str, Rows]], Sequence[Outgoing]] = _nothing


def routing_task(known: Callable[[], Travelling], relation: str, buckets: int, parts: int = 1) -> RowsFunction:
    """Rows of a relation, as `Incoming.rows` has them, to messages. `known` tells the task what travels.

    If there are several parts, what is for bucket b in the part p, from 0, is sent as if to bucket b + p * buckets.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        travelling = known()
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        for number, rows in enumerate(together(batches)):
            with told():
                check_nulls(travelling.given[relation], travelling.sends, rows)
            mail: dict[int, dict[str, pa.RecordBatch]] = {}
            for part, mine in _in_parts(rows, buckets, parts).items():
                for out in _leaving(travelling, sent_rows(relation, travelling.sends, mine)):
                    for bucket, piece in _spread(out, buckets).items():
                        mail.setdefault(bucket + part * buckets, {})[out.name] = piece
            origin = task % _TASKS + _TASKS * _PIECES * number
            yield from letters(travelling.form, origin, mail, {}, buckets * parts, apart=_TASKS).to_batches()
        settle()

    return run


def _leaving(travelling: Travelling, found: Mapping[str, Rows]) -> Iterator[Outgoing]:
    places = {send.info.name: send.to for send in travelling.sends}
    for name, rows in found.items():
        yield Outgoing(name, places[name], with_counts(*rows))
    with told():
        yield from travelling.made(found)


def _in_parts(rows: pa.RecordBatch, buckets: int, parts: int) -> dict[int, pa.RecordBatch]:
    return {0: rows} if parts == 1 else grouped(rows, part_numbers(numbers(rows.column(HASH)), buckets, parts))


def _spread(out: Outgoing, buckets: int) -> dict[int, pa.RecordBatch]:
    match out.to:
        case Buckets(by):
            return route(out.rows, by, buckets)
        case Everywhere():
            return dict.fromkeys(range(buckets), out.rows)
        case Anywhere():
            return route(out.rows, _quick_columns(out.rows), buckets)
        case Here():
            return {}
        case Driver():
            raise InternalError("nothing is sent to the driver from where it comes in")
        case _:
            assert_never(out.to)


def _quick_columns(rows: pa.RecordBatch) -> list[str]:
    """Columns, but not the count, by which rows are told apart: those of fixed width if any, hashed quickly."""
    columns = rows.schema.names[:-1]
    return [name for name in columns if not _is_text(rows.schema.field(name).type)] or columns


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
