"""Views are filled from the rows of stored tables part by part, and are there when all of them are in."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bucket_files import bucket_folder
from half_way import dying_in_job
from logged import rows_logged
from pyspark.sql import SparkSession

import viewmill
from viewmill.distribute.nodes import Everywhere
from viewmill.durable.files import Files
from viewmill.durable.history import History
from viewmill.engines.spark import engine, parts
from viewmill.engines.spark.cluster import Cluster
from viewmill.engines.spark.engine import SparkEngine
from viewmill.engines.spark.hash import hash_array
from viewmill.engines.spark.jobs import counting
from viewmill.errors import DataError
from viewmill.spark_mill import SparkMill

TABLES = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
CREATE TABLE visits (customer INT, page STRING)
"""
QUERIES = {
    "revenue": "SELECT region, count(*) AS n, sum(price) AS total, max(price) AS best FROM orders "
    "JOIN customers ON orders.customer = customers.id GROUP BY region",
    "per_customer": "SELECT customer, count(*) AS n, sum(price) AS total FROM orders GROUP BY customer",
    "pages": "SELECT page, count(*) AS n, count(DISTINCT customer) AS people FROM visits GROUP BY page",
    "above": "SELECT id, price FROM orders WHERE price > (SELECT avg(price) FROM orders)",
    "dear": "SELECT id, price FROM orders WHERE price > 50",
}
CUSTOMERS = [(i, ("north", "south", None)[i % 3]) for i in range(40)]
ORDERS = [(i, i * 7 % 40, f"{i % 90}.50") for i in range(700)]
VISITS = [(i % 5, "home") for i in range(300)] + [(1, "basket")] * 200
ROWS = len(CUSTOMERS) + len(ORDERS) + len(VISITS)
BUCKETS = 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def mill(spark: SparkSession, folder: Path) -> SparkMill:
    """With rows, and one view."""
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=BUCKETS)
    mill.sql(f"{TABLES}; CREATE MATERIALIZED VIEW per_customer AS {QUERIES['per_customer']}")
    with mill.batch() as batch:
        batch.insert("customers", CUSTOMERS)
        batch.insert("orders", ORDERS)
        batch.insert("visits", VISITS)
    return mill


def add_views(mill: SparkMill) -> None:
    """They are filled when somebody looks."""
    for name in QUERIES.keys() - {"per_customer"}:
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name]}")


def agree(mill: SparkMill) -> None:
    """Every view is what Spark finds in the tables."""
    for name, query in QUERIES.items():
        assert Counter(mill.view(name)) == Counter(mill.sql(query)), name


@pytest.mark.parametrize("number", [1, 2, 3, 7])
@pytest.mark.parametrize("buckets", [1, 2, 6])
def test_copies_of_a_row_are_spread_over_the_parts(number: int, buckets: int):
    keys = [pa.array([*range(2000), None], pa.int32()), pa.array(["a", None, "b"] * 667)]
    counts = np.where(np.arange(2001) % 10 == 0, 23, 1)
    found = parts.part_numbers(parts.apart(hash_array(keys, 2001), counts, buckets), buckets, number)
    assert len(found) == counts.sum() and found.min() == 0 and found.max() == number - 1
    sizes = np.bincount(found)
    assert max(sizes) < 1.2 * min(sizes)
    for row, mine in enumerate(np.split(found, np.cumsum(counts)[:-1])):
        assert len(mine) == counts[row] and np.bincount(mine).max() <= -(-23 // number), row


@pytest.mark.parametrize("number", [2, 3, 4])
def test_parts_of_one_bucket_are_alike(number: int):
    """Rows that hashing has put in one bucket are spread over the parts as all rows are."""
    hashes = hash_array([pa.array(range(8000), pa.int32())], 8000)
    sizes = np.bincount(parts.part_numbers(hashes[hashes % 4 == 1], 4, number))
    assert len(sizes) == number and max(sizes) < 1.3 * min(sizes)


def test_there_are_as_many_parts_as_it_takes(monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 100)
    assert [len(parts.parts(rows)) for rows in (0, 1, 100, 101, 1000)] == [1, 1, 1, 2, 10]
    assert [str(part) for part in parts.parts(150)] == ["part 1 of 2", "part 2 of 2"]


@pytest.mark.spark
def test_views_are_filled_in_parts(mill, spark, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 100)
    titles = []
    shown = engine.shown
    monkeypatch.setattr(engine, "shown", lambda session, title: titles.append(title) or shown(session, title))
    add_views(mill)
    before = mill.version
    with counting(spark) as cost:
        mill._deploy()
    first, *rest = titles
    assert first == "reading the rows" and len(rest) >= ROWS / BUCKETS / 100
    assert rest == [f"filling the views, part {i + 1} of {len(rest)}" for i in range(len(rest))]
    assert cost().jobs == len(titles) + 1, "one that counts the rows, one that reads them, one for each part"
    assert mill.version == before
    agree(mill)
    assert Counter(mill.sql("SELECT * FROM customers")) == Counter(CUSTOMERS)
    assert Counter(mill.sql("SELECT id, customer, cast(price AS string) FROM orders")) == Counter(ORDERS)
    assert Counter(mill.sql("SELECT * FROM visits")) == Counter(VISITS)
    mill.update("orders", [(5, 3, "99.00"), (6, 4, "98.00")])
    mill.delete("visits", [(1, "basket")])
    agree(mill)


@pytest.mark.spark
def test_no_task_gets_more_than_a_part(mill, folder, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 150)
    monkeypatch.setattr(SparkEngine, "_clean", lambda self: None)
    old = {file.parent for file in folder.glob("logs/*/*")}
    add_views(mill)
    mill._deploy()
    logs = [file for file in folder.glob("logs/*/1-*") if file.parent not in old]
    sizes = rows_logged(mill, logs)
    assert sum(sizes) == ROWS
    assert max(sizes) < 150 * 1.4 and len(sizes) >= ROWS / 150


@pytest.mark.spark
@pytest.mark.parametrize("lost", ["nothing", "buckets"])
def test_a_driver_that_dies_half_way_leaves_what_was_there(mill, spark, folder, monkeypatch, lost):
    monkeypatch.setattr(parts, "PART_ROWS", 100)
    add_views(mill)
    committed = History(Files(str(folder))).newest()
    with dying_in_job(4, monkeypatch):
        mill._deploy()
    assert History(Files(str(folder))).newest() == committed
    left = {*folder.glob("programs/*"), *folder.glob("logs/*")}
    if lost == "buckets":
        shutil.rmtree(bucket_folder(mill))
    again = viewmill.connect(spark=spark, checkpoint=str(folder))
    agree(again)
    assert again.version == committed.version
    assert not left & {*folder.glob("programs/*"), *folder.glob("logs/*")}
    again.insert("orders", [(9999, 3, "70.00")])
    agree(again)


@pytest.mark.spark
def test_how_large_tables_are_is_known_when_views_are_filled(spark, folder):
    """A small table is copied to every bucket, and a batch meets it without another round."""
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=BUCKETS)
    mill.sql("CREATE TABLE shop (s BIGINT PRIMARY KEY, city STRING)")
    mill.sql("CREATE TABLE sale (i BIGINT PRIMARY KEY, s BIGINT, price BIGINT)")
    mill.apply(
        shop=spark.range(20).selectExpr("id AS s", "concat('city ', id % 3) AS city"),
        sale=spark.range(12_000).selectExpr("id AS i", "id % 20 AS s", "id % 7 AS price"),
    )
    query = "SELECT city, sum(price) AS total FROM shop JOIN sale USING (s) GROUP BY city"
    mill.sql(f"CREATE MATERIALIZED VIEW v WITH (maintain = 'first_order') AS {query}")
    mill.sql("CREATE MATERIALIZED VIEW alone AS SELECT count(*) AS n FROM sale")
    placed = mill.explain("v", stage="placed")
    assert "store shop(s, city)        everywhere" in placed and "alone" not in placed
    for price in (5, 9):
        mill.update("sale", [(1, 2, price)])
        assert Counter(mill.view("v")) == Counter(mill.sql(query))
    assert mill._engine.deployed.program.places["shop"] == Everywhere()
    assert mill.explain("v", stage="placed") == placed
    assert "  look up rows of sale, shop, and go on with what changes as their source" in mill.explain(
        "v", stage="blocks"
    )
    mill.close()


@pytest.mark.spark
def test_buckets_that_are_lost_between_two_parts_are_made_again(mill, monkeypatch):
    monkeypatch.setattr(parts, "PART_ROWS", 200)
    add_views(mill)
    there = bucket_folder(mill)
    run, programs = Cluster.run, []

    def lose(self, *given):
        programs.append({file.name[:12] for file in there.glob("[0-9a-f]*-*-*[0-9]")})
        if len(programs) == 3:
            shutil.rmtree(there)
        return run(self, *given)

    monkeypatch.setattr(Cluster, "run", lose)
    mill._deploy()
    assert len(programs) > 3
    assert len(programs[1]) == len(programs[2]) == 2, "the buckets of both programs stay, until the last part"
    assert {file.name[:12] for file in there.glob("[0-9a-f]*-*-*[0-9]")} == {mill._engine.commit.program[:12]}
    agree(mill)


@pytest.mark.spark
def test_what_is_an_error_half_way_is_filled_at_once(spark, tmp_path, monkeypatch):
    """Sums are 0 until the last rows are in: a view that counts what is divided by them cannot be kept till then."""
    monkeypatch.setattr(parts, "PART_ROWS", 5)
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=BUCKETS)
    mill.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, x INT)")
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    mill.insert("t", [(k, k % 4, k % 3 if k >= 70 else 0) for k in range(78)])
    query = "SELECT y, count(*) AS n FROM (SELECT g, 10 / sum(x) AS y FROM t GROUP BY g) GROUP BY y"
    mill.sql(f"CREATE MATERIALIZED VIEW inverse AS {query}")
    sizes = []
    filled = SparkEngine._filled_by
    monkeypatch.setattr(
        SparkEngine, "_filled_by", lambda self, *given: sizes.append(len(given[-1])) or filled(self, *given)
    )
    mill._deploy()
    assert len(sizes) == 2 and sizes[0] > 5 and sizes[1] == 1
    assert Counter(mill.view("inverse")) == Counter(mill.sql(query))


@pytest.mark.spark
@pytest.mark.parametrize("place", ["", "PARTITION BY (g)"])
def test_a_view_that_cannot_be_filled_can_be_dropped(spark, tmp_path, monkeypatch, place):
    """Errors of states that are passed through do not count: of every group, the sum of the first rows is 0."""
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=BUCKETS)
    mill.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, x INT)")
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    mill.insert("t", [(k, k % 4, 1 if k >= 96 else 0) for k in range(100)])
    mill.sql(f"CREATE MATERIALIZED VIEW good {place} AS SELECT g, 10 / sum(x) AS y FROM t GROUP BY g")
    assert sorted(mill.view("good")) == [(g, 10.0) for g in range(4)]
    assert mill._engine.is_on_driver("good") == (not place)
    mill.sql(f"CREATE MATERIALIZED VIEW bad {place} AS SELECT g, 10 / (sum(x) - 1) AS y FROM t GROUP BY g")
    for _ in range(2):
        with pytest.raises(DataError, match="cannot be filled from the rows that are there: division by zero"):
            mill.view("n").to_arrow()
    mill.sql("DROP VIEW bad")
    assert list(mill.view("n")) == [(100,)]
    mill.insert("t", [(100, 3, 1)])
    assert (3, 5.0) in set(mill.view("good"))
