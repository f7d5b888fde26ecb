"""A bucket is one partition, is called whether or not rows arrive, and moves nothing but rows."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyspark.errors import PythonException

from viewmill.engines.spark.anchor import stage
from viewmill.engines.spark.hash import bucket_keys
from viewmill.engines.spark.jobs import counting

BUCKETS = 4
KEYS = bucket_keys(BUCKETS)
SCHEMA = "key int, bucket int, partition int, rows bigint"


def told(bucket: int, rows: pa.Table) -> pa.Table:
    """One row for the next bucket, that says who sends it and what it has seen."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return pa.table(
        {
            "key": pa.array([KEYS[(bucket + 1) % BUCKETS]], pa.int32()),
            "bucket": pa.array([bucket], pa.int32()),
            "partition": pa.array([context.partitionId()], pa.int32()),
            "rows": pa.array([rows.num_rows], pa.int64()),
        }
    )


def to_bucket(spark, numbers):
    return spark.createDataFrame([(KEYS[number],) for number in numbers], "key int")


def test_every_bucket_is_called_in_its_own_partition(spark, anchor):
    answer = stage(anchor, to_bucket(spark, [0, 0, 2]), told, SCHEMA).toArrow().to_pylist()
    assert sorted((row["bucket"], row["partition"], row["rows"]) for row in answer) == [
        (0, 0, 2),
        (1, 1, 0),
        (2, 2, 1),
        (3, 3, 0),
    ]


def test_only_rows_are_exchanged(spark, anchor, capsys):
    first = stage(anchor, to_bucket(spark, [1]), told, SCHEMA)
    stage(anchor, first, told, SCHEMA).explain()
    text = capsys.readouterr().out
    # What was done to make the anchor is printed inside of its cached relation, once for each stage.
    cached = len(re.findall(r"Exchange hashpartitioning\(key#\d+, 4\), REPARTITION_BY_NUM", text))
    assert (cached, len(re.findall(r"\bExchange\b", text)) - cached) == (2, 2)


def test_two_blocks_are_one_job_of_three_stages(spark, anchor):
    with counting(spark) as cost:
        first = stage(anchor, to_bucket(spark, [3, 3, 3]).coalesce(1), told, SCHEMA)
        second = stage(anchor, first, told, SCHEMA).toArrow()
    assert second.column("rows").to_pylist() == [1] * BUCKETS
    found = cost()
    assert (found.jobs, found.stages, found.tasks) == (1, 3, 1 + 2 * BUCKETS)


def test_a_key_of_no_bucket_is_an_error(spark, anchor):
    rows = spark.createDataFrame([(-1,)], "key int")
    with pytest.raises(PythonException, match="rows with key -1 have no bucket"):
        stage(anchor, rows, told, SCHEMA).toArrow()
