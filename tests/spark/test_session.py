"""Our session has its own settings, and starting Spark leaves the process as it was."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pyarrow as pa

from viewmill.engines.spark.anchor import stage
from viewmill.engines.spark.session import maintenance_session


def test_the_other_session_is_left_alone(spark):
    before = {name: spark.conf.get(name) for name in ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")}
    ours = maintenance_session(spark, 7)
    assert ours.conf.get("spark.sql.shuffle.partitions") == "7"
    assert ours.conf.get("spark.sql.adaptive.enabled") == "false"
    assert {name: spark.conf.get(name) for name in before} == before


def test_the_environment_is_put_back(spark):
    assert "PYSPARK_PYTHON" not in os.environ
    assert "SPARK_LOCAL_IP" not in os.environ


def test_workers_run_this_python_and_this_package(spark, anchor):
    import viewmill

    def run(bucket: int, rows: pa.Table) -> pa.Table:
        import viewmill

        return pa.table({"python": [sys.executable], "package": [viewmill.__file__], "frozen": [gc.get_freeze_count()]})

    keys = spark.createDataFrame([], "key int")
    for _ in range(2):
        told = stage(anchor, keys, run, "python string, package string, frozen bigint").toArrow().to_pylist()
    assert {(row["python"], row["package"]) for row in told} == {(sys.executable, viewmill.__file__)}
    assert min(row["frozen"] for row in told) > 1000, "modules are not looked at after every task"


def test_what_outlives_tasks_is_frozen():
    """In a process of its own: frozen objects stay so."""
    program = """
import gc
from viewmill.engines.spark.worker import settle
gc.collect()
counts = []
for task in range(9):
    kept = [[] for _ in range(1000)] if task == 0 else kept + [[] for _ in range(1000)]
    settle()
    counts.append(gc.get_freeze_count())
grew = [task + 1 for task in range(1, 9) if counts[task] > counts[task - 1]]
assert counts[0] > 1000 and grew == [2, 4, 8], (counts, grew)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
