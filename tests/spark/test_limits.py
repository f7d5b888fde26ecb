"""A view with LIMIT in the buckets: executors look for its first rows, and find those that an embedded mill has."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.engines.spark import cluster

pytestmark = pytest.mark.spark

ORDERS = (
    "a LIMIT 4",
    "a DESC LIMIT 4 OFFSET 2",
    "a NULLS LAST, f DESC LIMIT 6",
    "f DESC NULLS FIRST LIMIT 5",
    "f NULLS LAST LIMIT 30",
    "s DESC, a LIMIT 7",
    "abs(a) DESC LIMIT 5",
    "f LIMIT 0",
    "s OFFSET 17",
)
SQL = "CREATE TABLE t (id INT PRIMARY KEY, a INT, f DOUBLE, s STRING);" + "".join(
    f"CREATE MATERIALIZED VIEW v{number} PARTITION BY (id) AS SELECT id, a, f, s FROM t ORDER BY {order};"
    for number, order in enumerate(ORDERS)
)
ROWS = [
    (
        i,
        None if i % 5 == 0 else i % 4 - 2,
        (None, float("nan"), -0.5, 0.0, 1.5)[i % 5],
        (None, "", "a", "é", "z", "\U0001f600")[i % 6],
    )
    for i in range(20)
]


def test_first_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    twin = viewmill.connect()
    for one in (mill, twin):
        one.sql(SQL)
        one.insert("t", ROWS)
    for number, order in enumerate(ORDERS):
        name = f"v{number}"
        assert not mill._engine.is_on_driver(name)
        # as text: NaN is not equal to itself
        assert [str(row) for row in mill.view(name)] == [str(row) for row in twin.view(name)], order


def test_no_others_come_to_the_driver(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql(SQL)
    mill.insert("t", ROWS)
    came = []

    def collected(frame):
        came.append(cluster.collected(frame))
        return came[-1]

    monkeypatch.setattr("viewmill.spark_mill.collected", collected)
    assert len(mill.view("v1")) == 4
    assert [table.num_rows for table in came] == [6]
