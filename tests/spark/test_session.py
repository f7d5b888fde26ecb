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


def test_what_the_cluster_is_set_to_does_not_change_what_sql_means(tmp_path):
    """In a process of its own: a new session has the settings that Spark was started with."""
    program = f"""
import viewmill
from viewmill.engines.spark.session import spark_session
spark = spark_session(master="local[2]", spark_driver_memory="1g", **{{
    "spark_sql_ansi_enabled": "false",
    "spark_sql_caseSensitive": "true",
    "spark_sql_execution_arrow_useLargeVarTypes": "true",
    "spark_sql_decimalOperations_allowPrecisionLoss": "false",
    "spark_sql_session_timeZone": "America/New_York",
    "spark_sql_ansi_doubleQuotedIdentifiers": "true",
    "spark_sql_parser_escapedStringLiterals": "true",
    "spark_sql_orderByOrdinal": "false",
}})
mill = viewmill.connect(spark=spark, checkpoint={str(tmp_path / "checkpoint")!r}, buckets=2)
twin = viewmill.connect()
for one in (mill, twin):
    one.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, s STRING, at TIMESTAMP, q DECIMAL(38, 10))")
    one.sql("CREATE MATERIALIZED VIEW v AS SELECT id, a, s, at, q FROM t")
    one.insert("t", [(1, 2147483647, "x", "2024-03-10 02:30:00", "1.5"), (2, 5, None, None, None)])
    for statement in (
        "UPDATE t SET a = a + 1",
        "UPDATE t SET a = a / 0",
        "INSERT INTO t SELECT id + 10, cast(s AS INT), s, at, q FROM t",
        "SELECT a / 0 AS x FROM t",
        "SELECT a * 9223372036854775807 AS x FROM t",
    ):
        try:
            one.sql(statement)
        except viewmill.DataError:
            continue
        raise AssertionError(statement)
    one.sql("UPDATE t SET s = 'a\\\\tb' WHERE id = 2")
    one.sql("DELETE FROM t WHERE s = 'a	b'")
    assert len(one.view("v")) == 1
    one.sql("UPDATE T SET s = concat(S, '${{spark.app.name}}'), a = 7 WHERE ID = 1")
assert sorted(mill.view("v")) == sorted(twin.view("v")), list(mill.view("v"))
query = "SELECT Id, A AS Twice, '${{spark.app.name}}' AS z, At, q * q AS qq FROM T ORDER BY 1"
assert list(mill.sql(query)) == list(twin.sql(query)), list(mill.sql(query))
assert mill.sql(query).to_arrow().schema == twin.sql(query).to_arrow().schema
assert mill.verify("v") and mill.view("v").to_df().count() == 1
spark.stop()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
