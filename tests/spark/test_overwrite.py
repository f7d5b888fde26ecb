"""A whole table replaced: views end as if it had always been so, and take only what differs."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import viewmill
from viewmill.engines.spark.jobs import counting
from viewmill.errors import BindError, DataError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE items (id INT PRIMARY KEY, kind STRING, price DECIMAL(10, 2));
CREATE TABLE notes (words STRING);
CREATE TABLE clicks (page STRING) WITH (stored = false);
CREATE MATERIALIZED VIEW kinds AS SELECT kind, count(*) AS n, sum(price) AS total FROM items GROUP BY kind;
CREATE MATERIALIZED VIEW words AS SELECT words, count(*) AS n FROM notes GROUP BY words;
CREATE MATERIALIZED VIEW pages AS SELECT page, count(*) AS n FROM clicks GROUP BY page
"""
ITEMS = [(i, None if i == 3 else f"kind {i % 3}", f"{i}.50") for i in range(20)]


@pytest.fixture
def mill(spark: SparkSession, tmp_path: Path) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql(SQL)
    return mill


@pytest.fixture
def twin() -> viewmill.Mill:
    twin = viewmill.connect()
    twin.sql(SQL)
    return twin


def agree(mill: SparkMill, twin: viewmill.Mill) -> None:
    for name in twin.views:
        assert sorted(mill.view(name), key=str) == sorted(twin.view(name), key=str), name


def test_rows_that_stay_change_nothing(mill, twin, spark):
    changed = [(i, kind, "7.00" if i == 5 else price) for i, kind, price in ITEMS if i != 9]
    for one in (mill, twin):
        one.overwrite("items", ITEMS)
        one.overwrite("notes", [("a",), ("a",), (None,)])
    agree(mill, twin)
    for one in (mill, twin):
        with one.batch() as batch:
            batch.overwrite("items", [*changed, (50, "new", "1.00")])
            batch.overwrite("notes", [("a",), (None,), (None,)])
            batch.insert("items", [(51, "new", "1.00")])
    agree(mill, twin)
    seen = []
    for one in (mill, twin):
        one.view("kinds").subscribe(seen.append)
    frame = spark.createDataFrame(
        [(i, kind, price) for i, kind, price in mill.sql("SELECT * FROM items")],
        "id int, kind string, price decimal(10,2)",
    )
    mill.overwrite("items", frame.filter("id <> 51"))
    twin.delete("items", [{"id": 51}])
    two, one = ("new", 2, Decimal("2.00")), ("new", 1, Decimal("1.00"))
    assert [(change.added, change.removed) for change in seen] == [((one,), (two,))] * 2


def test_a_table_is_emptied(mill, twin):
    for one in (mill, twin):
        one.overwrite("items", ITEMS)
        one.overwrite("items", [])
    agree(mill, twin)
    assert len(mill.view("kinds")) == 0


def test_rows_that_are_others_each_time_they_are_computed(mill, spark):
    """What comes and what goes is of one time, so that the table is what it was then."""
    other = F.udf(lambda number: f"kind {random.randrange(3)}", "string").asNondeterministic()
    frame = spark.range(200).select(F.col("id").cast("int"), other("id").alias("kind"), F.lit(1).alias("price"))
    for _ in range(2):
        mill.overwrite("items", frame)
        mill.overwrite("notes", frame.selectExpr("kind AS words"))
        assert sum(row[1] for row in mill.view("kinds")) == sum(row[1] for row in mill.view("words")) == 200
        assert mill.verify("kinds") and mill.verify("words")
    with counting(spark) as cost:
        mill.overwrite("items", mill.sql("SELECT * FROM items").to_arrow())
    assert mill.version == 4 and cost().jobs > 0, "nothing differs, so nothing is committed"


def test_what_cannot_be_overwritten(mill, spark):
    with pytest.raises(BindError, match="cannot overwrite table .clicks.: its rows are not kept"):
        mill.overwrite("clicks", [("a",)])
    with pytest.raises(DataError, match=".items. is overwritten after other changes"), mill.batch() as batch:
        batch.insert("items", ITEMS[:1])
        batch.overwrite("items", ITEMS)
    mill.insert("items", ITEMS)
    with pytest.raises(DataError, match="lacks column .price."):
        mill.overwrite("items", spark.sql("SELECT 1 AS id, 'a' AS kind"))
    with pytest.raises(DataError, match="two rows with primary key id = 1"):
        mill.overwrite("items", [(1, "a", "1.00"), (1, "b", "2.00")])
    assert mill.version == 1


def test_no_rows_are_no_job(mill, spark):
    mill.insert("items", ITEMS)
    with counting(spark) as cost:
        mill.insert("items", [])
        with mill.batch() as batch:
            batch.delete("items", [])
            batch.update("items", [])
    assert cost().jobs == 0
    assert mill.version == 1
