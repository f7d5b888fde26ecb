"""What travels between blocks: everything from one bucket to one other, in one piece of binary.

    {"d_1@custkey": rows, "d_2@custkey": rows}  ->  b"..."  ->  the same

One hop carries changes with different columns, so Spark sees binary. Both ends know the columns of everything that can
arrive, so that a message has no names and no schemas: it is a list of (number, rows, columns with a form, length), and
then, for each, these forms (`compact.py`) and Arrow's own format for batches of rows. Everything starts at a multiple
of eight, so that columns are read where they lie.

Law: `unpack(pack(batches)) == batches`, but for batches without rows, which are not there afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from viewmill.engines.spark.compact import Compact, compacted, restored, sent_schema
from viewmill.engines.spark.hash import bucket_array, bucket_keys
from viewmill.errors import InternalError
from viewmill.numbers import as_column, numbers

DRIVER = -1

# `key` says where Spark takes a message, `target` for whom it is. What is for the driver waits where it comes from.
MESSAGES = pa.schema(
    [
        pa.field("key", pa.int32(), nullable=False),
        pa.field("target", pa.int32(), nullable=False),
        pa.field("origin", pa.int32(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
LARGEST = 2**24
"""Bytes of a message, about."""

MESSAGES_IN_SPARK = StructType(
    [
        *(StructField(name, IntegerType(), nullable=False) for name in ("key", "target", "origin")),
        StructField("data", BinaryType(), nullable=False),
    ]
)
"""The same for Spark, not as words: these it would read anew each time."""


@dataclass(frozen=True, slots=True)
class Format:
    """The columns of everything that may travel, by name. Both ends have to have the same."""

    schemas: Mapping[str, pa.Schema]

    def pack(self, batches: Mapping[str, pa.RecordBatch]) -> bytes:
        heads, bodies = [], list[bytes | memoryview]()
        for number, name in self._present(batches):
            compact = self._compacted(name, batches[name])
            data = compact.batch.serialize()
            heads.append((number, batches[name].num_rows, len(compact.forms), data.size))
            bodies += compact.forms.tobytes(), memoryview(data)
        head = np.array([len(heads), *(word for head in heads for word in head)], "<i8")
        return b"".join((head.tobytes(), *bodies))

    def unpack(self, data: bytes | pa.Buffer) -> dict[str, pa.RecordBatch]:
        buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        count = int(np.frombuffer(buffer, "<i8", 1)[0])
        heads = np.frombuffer(buffer, "<i8", 4 * count, 8).reshape(count, 4)
        names, start, batches = list(self.schemas), 8 * (1 + 4 * count), {}
        for number, rows, columns, size in heads.tolist():
            name, schema = names[number], self.schemas[names[number]]
            forms = np.frombuffer(buffer, "<i8", 2 * columns, start).reshape(columns, 2)
            start += 16 * columns
            sent = pa.ipc.read_record_batch(buffer.slice(start, size), sent_schema(forms, schema))
            batches[name] = restored(Compact(forms, sent), rows, schema)
            start += size
        return batches

    def _present(self, batches: Mapping[str, pa.RecordBatch]) -> Iterable[tuple[int, str]]:
        unknown = batches.keys() - self.schemas.keys()
        if unknown:
            raise InternalError(f"nobody expects {', '.join(sorted(unknown))}")
        numbered = enumerate(self.schemas)
        return ((number, name) for number, name in numbered if name in batches and batches[name].num_rows)

    def _compacted(self, name: str, batch: pa.RecordBatch) -> Compact:
        expected = self.schemas[name]
        if batch.schema.names != expected.names or batch.schema.types != expected.types:
            raise InternalError(f"{name} travels as ({_columns(batch.schema)}), not as ({_columns(expected)})")
        return compacted(batch)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def route(batch: pa.RecordBatch, by: Sequence[str], buckets: int) -> dict[int, pa.RecordBatch]:
    """The rows of each bucket: the batch sorted by bucket once, and slices of that."""
    if batch.num_rows == 0:
        return {}
    return grouped(batch, bucket_array([batch.column(name) for name in by], buckets, batch.num_rows))


def grouped(batch: pa.RecordBatch, groups: NDArray[np.integer[Any]]) -> dict[int, pa.RecordBatch]:
    """The rows of each group, if that is the group of every row."""
    counts = np.bincount(groups)
    filled = np.flatnonzero(counts).tolist()
    if len(filled) == 1:
        return {filled[0]: batch}
    narrow = groups.astype(np.min_scalar_type(len(counts)))  # numbers of up to 16 bits are sorted by their digits
    ordered = batch.take(as_column(np.argsort(narrow, kind="stable")))
    starts = np.concatenate(([0], np.cumsum(counts)))
    return {group: ordered.slice(int(starts[group]), int(counts[group])) for group in filled}


def letters(
    form: Format,
    origin: int,
    to_buckets: Mapping[int, Mapping[str, pa.RecordBatch]],
    to_driver: Mapping[str, pa.RecordBatch],
    buckets: int,
    *,
    apart: int = 0,
) -> pa.Table:
    """What a bucket sends, as rows of `MESSAGES`; nothing is sent where there is nothing to say.

    `apart` is a number larger than that of any origin, if there are others than buckets.
    """
    keys = bucket_keys(buckets)
    mail = [(keys[target], target, batches) for target, batches in sorted(to_buckets.items())]
    mail.append((keys[origin % buckets], DRIVER, to_driver))
    rows = [
        # The pieces of a message are told apart as if they came from others: read in the same order by everybody.
        (key, target, origin + (apart or buckets) * number, form.pack(piece))
        for key, target, batches in mail
        for number, piece in enumerate(_pieces(batches))
    ]
    rows = [row for row in rows if len(row[3]) > 8]
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(MESSAGES)]
    return pa.Table.from_arrays(arrays, schema=MESSAGES)


def _pieces(batches: Mapping[str, pa.RecordBatch]) -> Iterator[dict[str, pa.RecordBatch]]:
    """A message in parts of some megabytes, since Spark has it in buffers that double, and of two gigabytes at most."""
    count = max(1, -(-sum(batch.nbytes for batch in batches.values()) // LARGEST))
    for number in range(count):
        yield {name: _piece(batch, number, count) for name, batch in batches.items()}


def _piece(batch: pa.RecordBatch, number: int, count: int) -> pa.RecordBatch:
    start, end = (batch.num_rows * n // count for n in (number, number + 1))
    return batch.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class Mail:
    """What arrived in a bucket: batches by name for itself, and what waits to be passed on to the driver."""

    batches: dict[str, pa.RecordBatch]
    passed_on: pa.Table


def opened(form: Format, table: pa.Table) -> Mail:
    """Messages in the order of who sent them, whatever order Spark brought them in: a second run gives the same."""
    table = table.select(MESSAGES.names)
    here = as_column(numbers(table.column("target")) >= 0)
    return Mail(read(form, table.filter(here)), table.filter(pc.invert(here)))


def read(form: Format, table: pa.Table) -> dict[str, pa.RecordBatch]:
    """All that these messages hold, by name."""
    gathered: dict[str, list[pa.RecordBatch]] = {}
    origins = numbers(table.column("origin"))
    data = table.column("data")
    for place in np.argsort(origins, kind="stable").tolist():
        for name, batch in form.unpack(data[place].as_buffer()).items():
            gathered.setdefault(name, []).append(batch)
    return {name: pa.concat_batches(gathered[name]) for name in form.schemas if name in gathered}
