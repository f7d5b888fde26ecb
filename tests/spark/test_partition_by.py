"""PARTITION BY decides where rows live, and never which rows there are."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.distribute.nodes import Buckets
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SHOP = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING, since DATE) {customers};
CREATE TABLE orders (
  id INT, line INT, customer INT, price DECIMAL(10, 2), weight DOUBLE, PRIMARY KEY (id, line)) {orders};
CREATE TABLE notes (customer INT, word STRING) {notes};
CREATE MATERIALIZED VIEW revenue {revenue} AS
SELECT region, weight, count(*) AS orders, sum(price) AS total, max(price) AS best
FROM orders JOIN customers ON orders.customer = customers.id GROUP BY region, weight;
CREATE MATERIALIZED VIEW named {named} AS
SELECT orders.id, orders.price, customers.since, n.word FROM orders JOIN customers ON orders.customer = customers.id
LEFT JOIN notes n ON n.customer = customers.id;
CREATE MATERIALIZED VIEW words {words} AS SELECT DISTINCT word FROM notes
"""
NOTHING = dict.fromkeys(("customers", "orders", "notes", "revenue", "named", "words"), "")

CHOICES = {
    "by what is asked for": {"revenue": ("region",), "named": ("id",), "words": ("word",)},
    "tables by what joins them": {"customers": ("id",), "orders": ("customer",), "notes": ("customer",)},
    "by part of the key": {"orders": ("line",), "customers": ("region",), "revenue": ("weight",)},
    "by columns that are often NULL": {"named": ("word",), "notes": ("word",), "revenue": ("region", "weight")},
    "by dates and decimals": {"named": ("since", "price"), "orders": ("price", "id"), "customers": ("since",)},
}


def schema(choice: dict[str, tuple[str, ...]], words: str = "PARTITION BY") -> str:
    return SHOP.format(**{**NOTHING, **{name: f"{words} ({', '.join(by)})" for name, by in choice.items()}})


def changes(seed: int, batches: int) -> list[dict[str, tuple[list[tuple], list[tuple]]]]:
    """Rows to delete and to insert, by table."""
    random, kept = Random(seed), {"customers": {}, "orders": {}, "notes": {}}
    fresh = {
        "customers": lambda: ((key := random.randrange(8)), (key, random.choice(["n", "s", None]), _day(random))),
        "orders": lambda: ((key := (random.randrange(12), random.randrange(3))), (*key, *_order(random))),
        "notes": lambda: (random.random(), (random.choice([1, 2, 3, None]), random.choice(["a", "", None]))),
    }
    found = []
    for _ in range(batches):
        batch = {}
        for name, rows in kept.items():
            old = {key: rows.pop(key) for key in random.sample(list(rows), len(rows) // 3)}
            new = dict(row for row in (fresh[name]() for _ in range(10)) if row[0] not in rows)
            rows.update(new)
            batch[name] = (list(old.values()), list(new.values()))
        found.append(batch)
    return found


def _day(random: Random) -> str | None:
    return random.choice(["2024-01-01", "2024-02-29", None])


def _order(random: Random) -> tuple[object, ...]:
    return random.randrange(8), Decimal(random.randrange(500)) / 100, random.choice([0.0, -0.0, 1.5, None])


def take(mill: SparkMill | viewmill.Mill, batch: dict[str, tuple[list[tuple], list[tuple]]]) -> None:
    with mill.batch() as pending:
        for name, (old, new) in batch.items():
            if old:
                pending.delete(name, old)
            if new:
                pending.insert(name, new)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_rows_are_the_same_wherever_they_live(spark: SparkSession, tmp_path: Path, choice):
    mill, twin = viewmill.connect(spark=spark, checkpoint=str(tmp_path), buckets=3), viewmill.connect()
    mill.sql(schema(choice))
    twin.sql(schema({}))
    for batch in changes(seed=len(str(choice)), batches=3):
        take(mill, batch)
        take(twin, batch)
        for name in twin.views:
            assert Counter(mill.view(name)) == Counter(twin.view(name)), name
        for name in twin.tables:
            query = f"SELECT * FROM {name}"
            assert Counter(mill.sql(query)) == Counter(twin.sql(query)), name


def test_views_and_tables_live_where_they_are_asked_to(spark: SparkSession, tmp_path: Path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path), buckets=3)
    mill.sql(schema({"revenue": ("region",), "words": ("word",), "orders": ("line",), "notes": ("word",)}))
    mill.insert("notes", [(1, "a"), (2, "b")])
    placed = mill._engine.deployed.program
    assert placed.views["revenue"] == Buckets(("region",))
    assert placed.views["words"] == Buckets(("word",))
    assert placed.places["rows of orders"] == Buckets(("line",))  # a part of its key
    assert placed.places["rows of notes"] == Buckets(("word",))
    assert placed.places["rows of customers"] == Buckets(("id",))
    assert "view revenue: buckets by region" in mill.explain("revenue", stage="placed")


def test_another_driver_knows_them(spark: SparkSession, tmp_path: Path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path), buckets=3)
    mill.sql(schema({"words": ("word",), "notes": ("word",)}, "PARTITIONED BY"))
    mill.insert("notes", [(1, "a"), (2, "b"), (3, "b")])
    again = viewmill.connect(spark=spark, checkpoint=str(tmp_path))
    again.insert("notes", [(4, "c")])
    assert sorted(again.view("words")) == [("a",), ("b",), ("c",)]
    again.sql("CREATE MATERIALIZED VIEW more AS SELECT customer FROM notes")
    assert len(again.view("more")) == 4
    assert again._engine.deployed.program.views["words"] == Buckets(("word",))
