"""A batch that takes rows away and puts back rows that a view cannot tell from them changes nothing in that view."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE part (id INT PRIMARY KEY, brand STRING) WITH (stored = false);
CREATE TABLE supplier (id INT PRIMARY KEY, bad BOOLEAN) WITH (stored = false);
CREATE TABLE offer (part INT, supplier INT, cost INT, PRIMARY KEY (part, supplier)) WITH (stored = false);
CREATE MATERIALIZED VIEW v AS SELECT brand, count(DISTINCT supplier) AS n FROM part JOIN offer ON part.id = offer.part
    WHERE supplier NOT IN (SELECT id FROM supplier WHERE bad) GROUP BY brand
"""
COSTS = "CREATE MATERIALIZED VIEW costs AS SELECT supplier, sum(cost) AS total FROM offer GROUP BY supplier"
OFFERS = [(part, (part * 7 + k) % 20, part + k) for part in range(30) for k in range(4)]


@pytest.mark.parametrize("more", ["", COSTS], ids=["alone", "beside a view that sees them"])
def test_updates_that_a_view_does_not_see(spark: SparkSession, tmp_path: Path, more: str):
    """Which suppliers may have changed is asked in two blocks, in one of rows that have waited: both must agree."""
    with SparkMill(spark, str(tmp_path / "checkpoint"), buckets=2) as mill:
        mill.sql(f"{SQL}; {more}")
        mill.apply(
            part=spark.createDataFrame([(i, f"brand {i % 5}") for i in range(30)], "id int, brand string"),
            supplier=spark.createDataFrame([(i, i % 6 == 0) for i in range(20)], "id int, bad boolean"),
            offer=spark.createDataFrame(OFFERS, "part int, supplier int, cost int"),
        )
        before = Counter(map(tuple, mill.view("v")))
        assert before == _expected(OFFERS)
        changed = OFFERS[::3]
        with mill.batch() as batch:
            batch.delete("offer", spark.createDataFrame(changed, "part int, supplier int, cost int"))
            batch.insert(
                "offer",
                spark.createDataFrame([(p, s, c + 1) for p, s, c in changed], "part int, supplier int, cost int"),
            )
        assert Counter(map(tuple, mill.view("v"))) == before
        with mill.batch() as batch:
            batch.delete("offer", spark.createDataFrame(OFFERS[1:40:3], "part int, supplier int, cost int"))
        left = [offer for offer in OFFERS if offer not in OFFERS[1:40:3]]
        assert Counter(map(tuple, mill.view("v"))) == _expected(left)


def _expected(offers: list[tuple[int, int, int]]) -> Counter[tuple[object, ...]]:
    good = {(f"brand {part % 5}", supplier) for part, supplier, _ in offers if supplier % 6}
    return Counter(Counter(brand for brand, _ in good).items())
