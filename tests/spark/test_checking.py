"""`verify` has Spark SQL compute a view anew, and finds what is wrong; `status` counts what there is."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.errors import UnsupportedError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2), weight DOUBLE);
CREATE TABLE feed (a INT) WITH (stored = false);
CREATE TABLE notes (words STRING);
CREATE MATERIALIZED VIEW revenue (where_, n, total) AS
SELECT region, count(*), sum(price) FROM orders JOIN customers ON orders.customer = customers.id GROUP BY region;
CREATE MATERIALIZED VIEW rich AS SELECT where_ FROM revenue WHERE total > 10;
CREATE MATERIALIZED VIEW heavy AS SELECT customer, sum(weight) AS weight FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW dear AS SELECT id, price FROM orders ORDER BY price DESC LIMIT 3;
CREATE MATERIALIZED VIEW hidden AS SELECT id FROM orders ORDER BY price LIMIT 2 OFFSET 1;
CREATE MATERIALIZED VIEW fed AS SELECT a FROM feed;
CREATE MATERIALIZED VIEW said AS SELECT words, count(*) AS n FROM notes GROUP BY words
"""
CHECKED = ("revenue", "rich", "heavy", "dear", "hidden", "said")


@pytest.fixture
def mill(spark: SparkSession, tmp_path: Path) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql(SQL)
    return mill


def fill(mill: SparkMill) -> None:
    with mill.batch() as batch:
        batch.insert("customers", [(i, "north" if i % 2 else None) for i in range(5)])
        weights = (0.1, math.nan, None, -0.0, math.inf)
        batch.insert("orders", [(i, i % 7, f"{i // 4}.50", weights[i % 5]) for i in range(40)])
        batch.insert("notes", [("a",), ("a",), (None,)])


def test_views_are_right(mill):
    """Also under LIMIT, where rows tie."""
    assert all(mill.verify(name) for name in CHECKED), "nothing has been put in"
    fill(mill)
    mill.update("orders", [(3, 1, "90.00", 2.5)])
    mill.delete("orders", [{"id": 10}])  # a NaN that came into a sum stays in it; this one has none
    for name in CHECKED:
        assert mill.verify(name), str(mill.verify(name))
    assert mill.verify("revenue").rows == 2


@pytest.mark.parametrize("view", CHECKED)
def test_what_is_wrong_is_found(mill, monkeypatch, view):
    fill(mill)
    read = mill.read

    def wrong(name: str) -> viewmill.Result:
        result = read(name)
        return viewmill.Result(result.columns, tuple(list(result)[1:]), result.version)

    monkeypatch.setattr(mill, "read", wrong)
    found = mill.verify(view)
    assert not found and sum(found.missing.values()) == sum(found.extra.values()) + 1


def test_a_row_that_should_not_be_within_a_limit(mill, monkeypatch):
    fill(mill)
    result = mill.read("dear")
    worse = mill.sql("SELECT id, price FROM orders WHERE id = 0")
    wrong = viewmill.Result(result.columns, (*list(result)[:2], *worse), result.version)
    monkeypatch.setattr(mill, "read", lambda name: wrong)
    assert sum(mill.verify("dear").extra.values()) == 1


def test_what_is_not_kept_cannot_be_verified(mill, spark):
    mill.insert("feed", [(1,)])
    with pytest.raises(UnsupportedError, match='the rows of table "feed" are not kept'):
        mill.verify("fed")
    names = {table.name for table in mill._engine.session.catalog.listTables()}
    assert not names & {"feed", "orders", "revenue"}


def test_the_dialect_is_that_of_the_mill(spark, tmp_path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2, dialect="postgres")
    mill.sql('CREATE TABLE t (id INT PRIMARY KEY, "Name" TEXT)')
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT \"Name\" || '!' AS name, id::bigint AS id FROM t ORDER BY id LIMIT 1"
    )
    mill.insert("t", [(1, "a"), (2, "b")])
    assert mill.verify("v") and list(mill.view("v")) == [("a!", 1)]


def test_status_counts_everything(mill):
    empty = mill.status()
    assert {view.rows for view in empty.views} == {0} and empty.version == 0
    fill(mill)
    status = mill.status()
    assert [(one.name, one.rows) for one in status.relations] == [
        ("customers", 5),
        ("orders", 40),
        ("feed", None),
        ("notes", 3),
    ]
    assert {view.name: view.rows for view in status.views} == {name: len(mill.view(name)) for name in mill.views}
    stores = {store.name: store for store in status.stores}
    assert stores["rows of orders"].rows == 40 and stores["rows of orders"].bytes > 40 * 4 * 8
    assert status.view("revenue").maintenance and "orders" in str(status)
