"""Run against a cluster: where each bucket's block is cached, and where its task ran, batch after batch, as JSON."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path

import pyarrow as pa

from viewmill.engines.spark.anchor import anchored, stage
from viewmill.engines.spark.hash import bucket_keys
from viewmill.engines.spark.session import maintenance_session, spark_session

BUCKETS, BATCHES = 4, 4
SCHEMA = "key int, bucket int, executor string"


def where(bucket: int, rows: pa.Table) -> pa.Table:
    """The working directory of an executor ends with its number."""
    executor = Path(os.getcwd()).name
    columns = [
        pa.array([bucket_keys(BUCKETS)[bucket]], pa.int32()),
        pa.array([bucket], pa.int32()),
        pa.array([executor]),
    ]
    return pa.table(columns, ["key", "bucket", "executor"])


def cached_on(spark) -> dict[int, str]:
    context = spark.sparkContext
    base = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"

    def asked(path: str):
        with urllib.request.urlopen(f"{base}/{path}") as answer:
            return json.load(answer)

    (stored,) = asked("storage/rdd")
    partitions = asked(f"storage/rdd/{stored['id']}")["partitions"]
    return {int(p["blockName"].split("_")[-1]): p["executors"][0] for p in partitions}


def main(master: str) -> None:
    spark = spark_session(
        master=master, spark_ui_enabled="true", spark_ui_port="0", spark_executor_memory="512m", spark_cores_max="2"
    )
    # Both executors must be there, or all buckets would live on the first.
    while len(spark.sparkContext.statusTracker().getExecutorInfos()) < 3:
        pass
    anchor = anchored(maintenance_session(spark, BUCKETS), BUCKETS)
    ran = []
    for batch in range(BATCHES):
        rows = spark.createDataFrame(
            [(key, number) for key in bucket_keys(BUCKETS) for number in range(batch)], "key int, n int"
        )
        table = stage(anchor, stage(anchor, rows, where, SCHEMA), where, SCHEMA).toArrow()
        ran.append(dict(zip(table.column("bucket").to_pylist(), table.column("executor").to_pylist(), strict=True)))
    print(json.dumps({"cached": cached_on(spark), "ran": ran}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
