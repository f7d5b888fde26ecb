"""Very many rows are read once: one job writes what arrives in every bucket, for every part, to the log of that part.

    rows -> by part and bucket -> shuffled -> logs of part 1, of part 2, ...        one job
    part 1: each bucket takes what its log has; part 2: ...                         one job each

What arrives is logged anyway (`task.py`), so nothing is written twice. A part is from there on a batch that was logged
and has not been taken: it can be run, run again, and made again from its log, as any other.

Parts and buckets are numbered together, bucket b of part p as b + p * buckets, so that `pmod(hash(key), buckets)`, by
which Spark shuffles, brings all parts of a bucket to one task, which has one of them in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from viewmill.durable.files import Files
from viewmill.durable.history import Entry
from viewmill.engines.spark.failure import Told
from viewmill.engines.spark.message import MESSAGES
from viewmill.engines.spark.work import to_log
from viewmill.engines.spark.worker import settle
from viewmill.errors import ViewmillError

WRITTEN_DDL = "part int, bucket int"
_WRITTEN = pa.schema([("part", pa.int32()), ("bucket", pa.int32())])


def written(messages: DataFrame, files: Files, entries: Sequence[Entry], buckets: int) -> DataFrame:
    """A row for every log that is written when this is computed. Messages are for parts, which are these entries."""
    return messages.groupBy("key").applyInArrow(_writer(files, tuple(entries), buckets), WRITTEN_DDL)


def _writer(files: Files, entries: Sequence[Entry], buckets: int) -> Callable[[pa.Table], pa.Table]:
    def write(table: pa.Table) -> pa.Table:
        table = table.select(MESSAGES.names).cast(MESSAGES)
        part, bucket = divmod(table.column("target")[0].as_py(), buckets)
        mine = pa.array([bucket] * table.num_rows, pa.int32())
        place = MESSAGES.get_field_index("target")
        try:
            files.write(entries[part].log(1, bucket), to_log(table.set_column(place, MESSAGES.field(place), mine)))
        except ViewmillError as error:
            raise Told(error) from error
        settle()
        return pa.Table.from_pylist([{"part": part, "bucket": bucket}], _WRITTEN)

    return write


def with_logs(entries: Sequence[Entry], found: pa.Table) -> list[Entry]:
    """The entries, when these logs of theirs are written."""
    logs: list[list[str]] = [[] for _ in entries]
    for row in found.to_pylist():
        logs[row["part"]].append(f"1-{row['bucket']}")
    return [replace(entry, logs=tuple(sorted(names))) for entry, names in zip(entries, logs, strict=True)]
