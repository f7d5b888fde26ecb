"""Snapshots of buckets: inside a batch where one is due (`task.py`), or of all of them as they are at a version."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.reading import Reader, bucket_by_bucket
from viewmill.engines.spark.states import at_version
from viewmill.engines.spark.work import Point

SAVED_DDL = "bucket int, bytes bigint"


def save(kept: Kept, point: Point, bucket: int, version: int) -> int:
    """Write a snapshot; its bytes."""
    with point.files.output(point.snapshot(bucket, version), in_place=True) as out:
        kept.save(out)
        return out.tell()


def saver(point: Point, version: int) -> Reader:
    """For `mapInArrow` over an anchor: snapshots as of the point, which is that version, and the bytes of each."""

    def saved(bucket: int) -> Iterator[pa.RecordBatch]:
        size = at_version(point, bucket, lambda kept: save(kept, point, bucket, version))
        yield pa.RecordBatch.from_pydict({"bucket": pa.array([bucket], pa.int32()), "bytes": [size]})

    return bucket_by_bucket(saved)
