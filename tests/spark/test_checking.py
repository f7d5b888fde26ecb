"""`verify` has Spark SQL compute a view anew, and finds what is wrong; `status` counts what there is."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.engines.interpreter.tables import Rows
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


def changed(mill: SparkMill, monkeypatch: pytest.MonkeyPatch, how: Callable[[Rows], Rows]) -> None:
    """What the mill keeps of every view."""
    contents = mill._contents
    monkeypatch.setattr(mill, "_contents", lambda definition, **whole: how(contents(definition, **whole)))


@pytest.mark.parametrize("view", CHECKED)
def test_what_is_wrong_is_found(mill, monkeypatch, view):
    """A row that is missing, one that is there twice, and a value that is another, also one that nobody sees."""
    fill(mill)
    assert mill.verify(view)
    with monkeypatch.context() as patch:
        changed(mill, patch, lambda rows: dict(list(rows.items())[1:]))
        found = mill.verify(view)
        assert not found and found.missing and not found.extra
    with monkeypatch.context() as patch:
        changed(mill, patch, lambda rows: {row: weight + 1 for row, weight in rows.items()})
        assert mill.verify(view).extra
    with monkeypatch.context() as patch:
        changed(mill, patch, lambda rows: {(*row[:-1], "another"): weight for row, weight in rows.items()})
        found = mill.verify(view)
        assert found.missing and found.extra


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


def test_what_queries_may_look_like(mill, monkeypatch):
    fill(mill)
    for number, query in enumerate(
        (
            "(SELECT id FROM orders ORDER BY price LIMIT 3)",
            "SELECT customer FROM orders GROUP BY customer ORDER BY sum(price) DESC, count(*), customer LIMIT 2",
            "WITH o AS (SELECT id, price * 2 AS p FROM orders) SELECT id FROM o ORDER BY -p, id LIMIT 2",
            "SELECT id FROM orders UNION ALL SELECT id FROM customers ORDER BY id LIMIT 3",
            "SELECT id AS price FROM orders ORDER BY price DESC LIMIT 3",
            "SELECT DISTINCT region FROM customers ORDER BY 1 LIMIT 1",
            "SELECT id, price FROM dear WHERE id > 36",
            "SELECT id, price FROM orders ORDER BY weight NULLS LAST, price + id OFFSET 3",
        )
    ):
        mill.sql(f"CREATE MATERIALIZED VIEW q{number} AS {query}")
        assert mill.verify(f"q{number}"), str(mill.verify(f"q{number}"))


def test_tables_may_have_any_name(spark, tmp_path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("CREATE TABLE `of a.shop` (`the.id` INT PRIMARY KEY, `a``b` STRING)")
    mill.sql("CREATE MATERIALIZED VIEW `as-is` AS SELECT * FROM `of a.shop` ORDER BY `the.id` LIMIT 2")
    mill.insert("of a.shop", [(1, "x"), (2, "y"), (3, "z")])
    mill.sql("UPDATE `of a.shop` SET `a``b` = 'w' WHERE `the.id` = 1")
    assert mill.sql("SELECT `a``b` FROM `of a.shop` JOIN `as-is` USING (`the.id`, `a``b`) ORDER BY 1").to_dicts() == [
        {"a`b": "w"},
        {"a`b": "y"},
    ]
    assert mill.verify("as-is") and mill.status().view("as-is").rows == 2
    assert not mill._engine.session.catalog.listTables()


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
