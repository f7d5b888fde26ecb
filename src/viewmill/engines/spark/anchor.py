"""Buckets that stay where they are: one cached row for each, co-grouped with what arrives.

    anchor   (key, bucket)           cached, one row in each partition
    rows     (key, ...)              shuffled by key
    stage    one call of a function for every bucket, with all rows that have its key, or none

The anchor is hash-partitioned by `key` already, so Spark plans no exchange for it: only the rows move. Its cached
block gives the task of a bucket its preferred location, the executor where the block is; if that executor is lost, the
row is computed again somewhere else, and the bucket lives there from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from viewmill.engines.spark.hash import bucket_keys
from viewmill.engines.spark.worker import settle
from viewmill.errors import InternalError

BucketFunction = Callable[[int, pa.Table], pa.Table]
"""What runs in a bucket: its number and the rows that arrived (with their `key`) to the rows that it sends."""


@dataclass(frozen=True, slots=True)
class Anchor:
    frame: DataFrame
    buckets: int

    def release(self) -> None:
        self.frame.unpersist()


def anchored(session: SparkSession, buckets: int) -> Anchor:
    """A new anchor, cached now: which executor has which bucket is decided here."""
    numbered = [(key, bucket) for bucket, key in enumerate(bucket_keys(buckets))]
    frame = session.createDataFrame(numbered, "key int, bucket int").repartition(buckets, "key").cache()
    frame.count()
    return Anchor(frame, buckets)


def stage(anchor: Anchor, rows: DataFrame, function: BucketFunction, schema: StructType | str) -> DataFrame:
    """Run `function` in every bucket, on the rows that have its key."""

    def run(left: pa.Table, right: pa.Table) -> pa.Table:
        if left.num_rows != 1:
            raise InternalError(f"rows with key {right.column('key')[0]} have no bucket")
        try:
            return function(left.column("bucket")[0].as_py(), right)
        finally:
            settle()

    here, arriving = anchor.frame.groupBy("key"), rows.groupBy("key")
    return here.cogroup(arriving).applyInArrow(run, schema)
