"""Spark as the engine of a mill uses it: a session of its own, buckets that are anchored there, and jobs over them.

incoming rows -> [block 1] -> messages -> [block 2] -> ... -> what is gathered        one Spark job
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from viewmill.durable.history import Entry
from viewmill.engines.spark.anchor import Anchor, anchored, stage
from viewmill.engines.spark.arrivals import Arrivals, from_messages
from viewmill.engines.spark.changed import CHANGE
from viewmill.engines.spark.failure import refused
from viewmill.engines.spark.message import DRIVER, MESSAGES, MESSAGES_IN_SPARK
from viewmill.engines.spark.refusals import REFUSAL, doubts, refusal
from viewmill.engines.spark.routing import RowsFunction
from viewmill.engines.spark.session import maintenance_session, mind_bytes, use_buckets
from viewmill.engines.spark.source import Origin
from viewmill.engines.spark.task import REPORT, Report, bucket_task
from viewmill.engines.spark.work import Deployed, Point, Saves, Wanted, Work

Frames: TypeAlias = Mapping[str, DataFrame]

SMALL = 2**24
"""Bytes in the log of what arrives in a bucket, from which on Spark is to hand it over in pieces."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What came back from a job: rows for the driver, and the messages they came in; what the tasks say they did,
    messages about what that did to views, and views that are in doubt.
    """

    arrivals: Arrivals
    messages: pa.Table
    reports: Sequence[Report]
    changes: pa.Table
    doubted: frozenset[str]


class Cluster:
    """Where the buckets of a mill are."""

    def __init__(self, spark: SparkSession, buckets: int) -> None:
        self.session = maintenance_session(spark, buckets)
        self._buckets = buckets
        self._anchor: Anchor | None = None
        self._is_small = False  # what came with the last batch

    @property
    def tasks(self) -> int:
        """As many as there can be at once. A task that has Python do something takes tens of milliseconds, however few
        rows it has, and batches come in as many partitions as the files that they were read from.
        """
        return max(self.session.sparkContext.defaultParallelism, self._buckets)

    @property
    def anchor(self) -> Anchor:
        if self._anchor is None:
            self._anchor = anchored(self.session, self._buckets)
        return self._anchor

    def asked(self, function: RowsFunction, schema: StructType | str) -> DataFrame:
        """What every bucket answers."""
        return self.anchor.frame.mapInArrow(function, schema)

    def run(
        self, deployed: Deployed, point: Point, entry: Entry, rows: Frames | None, saves: Saves, wanted: Wanted
    ) -> Gathered:
        """The job: all steps, one after another, in one go. Without rows, what arrives is in logs.

        A batch is taken to be about as large as the last one. If it is not, that may be more than there is memory for:
        the next attempt, which knows of no last one, does not need it.
        """
        source = Origin(point.files.root, point.fingerprint, entry.relations)
        if rows is None:
            frame = self._nothing
        elif entry.blocks:
            frame = source.to_buckets(rows, point.buckets)
        else:
            frame = self.ours(source.to_driver(rows))
        for number in range(1, entry.blocks + 1):
            work = Work(point, entry, number, saves, wanted)
            frame = stage(self.anchor, frame, bucket_task(work), MESSAGES_IN_SPARK)
        is_small, self._is_small = self._is_small or not entry.blocks, False
        mind_bytes(self.session, not is_small)
        try:
            gathered = _gathered(deployed, collected(frame))
        finally:
            mind_bytes(self.session, True)  # whoever else uses the session may have any rows
        self._is_small = bool(gathered.reports) and all(report.logged < SMALL for report in gathered.reports)
        return gathered

    def forget(self) -> None:
        """The next batch may be of any size."""
        self._is_small = False

    def ours(self, messages: DataFrame) -> DataFrame:
        """The same as a frame of our session, handed over and shuffled as that says."""
        return self._nothing.unionAll(messages)

    @cached_property
    def _nothing(self) -> DataFrame:
        """No messages."""
        return self.session.createDataFrame([], MESSAGES_IN_SPARK)

    @contextmanager
    def other_buckets(self, buckets: int) -> Iterator[Anchor]:
        """Another number of them, which stays unless something is raised inside. `anchor` is the old one until then."""
        use_buckets(self.session, buckets)
        new = anchored(self.session, buckets)
        try:
            yield new
        except BaseException:
            use_buckets(self.session, self._buckets)
            new.release()
            raise
        old, self._anchor, self._buckets = self._anchor, new, buckets
        if old is not None:
            old.release()

    def release(self) -> None:
        if self._anchor is not None:
            self._anchor.release()
            self._anchor = None


def collected(frame: DataFrame) -> pa.Table:
    """All rows of a DataFrame. If it fails because of something of ours, that is what is raised."""
    try:
        return frame.toArrow()
    except PySparkException as error:
        raise refused(error) or error from None


def _gathered(deployed: Deployed, table: pa.Table) -> Gathered:
    table = table.select(MESSAGES.names).cast(MESSAGES)
    targets = (DRIVER, REPORT, REFUSAL, CHANGE)
    kinds = {kind: table.filter(pc.equal(table.column("target"), kind)) for kind in targets}
    for data in kinds[REFUSAL].column("data").to_pylist():
        raise refusal(data)
    reports = [Report(**json.loads(data)) for data in kinds[REPORT].column("data").to_pylist()]
    return Gathered(from_messages(deployed, kinds[DRIVER]), kinds[DRIVER], reports, kinds[CHANGE], doubts(table))
