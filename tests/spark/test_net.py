"""A batch that takes rows away and puts back rows that a view cannot tell from them changes nothing in that view.

Which keys of a view may have changed is asked of the batch, in one block of rows as they come and in another of rows
that have waited, where those that cancel are gone. Both must give the same keys.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE part (id INT PRIMARY KEY, brand STRING, weight INT) WITH (stored = false);
CREATE TABLE supplier (id INT PRIMARY KEY, bad BOOLEAN) WITH (stored = false);
CREATE TABLE offer (part INT, supplier INT, cost INT, PRIMARY KEY (part, supplier)) WITH (stored = false)
"""
COSTS = "SELECT supplier, sum(cost) AS total FROM offer GROUP BY supplier"
SETS = """
SELECT brand, count(DISTINCT supplier) AS n FROM part JOIN offer ON part.id = offer.part
WHERE supplier NOT IN (SELECT id FROM supplier WHERE bad) GROUP BY brand
"""
SUMS = """
SELECT bad, count(*) AS n FROM supplier AS s
WHERE (SELECT sum(weight) FROM offer JOIN part ON part.id = offer.part WHERE offer.supplier = s.id) > 27 GROUP BY bad
"""
PARTS = [(part, f"brand {part % 5}", part % 11) for part in range(30)]
OFFERS = [(part, (part * 7 + k) % 20, part + k) for part in range(30) for k in range(4)]


@pytest.mark.parametrize("view", [SETS, SUMS], ids=["sets", "sums"])
@pytest.mark.parametrize("more", [(), (COSTS,)], ids=["alone", "beside a view that sees them"])
def test_updates_that_a_view_does_not_see(spark: SparkSession, tmp_path: Path, view: str, more: tuple[str, ...]):
    def offers(rows: list[tuple[int, int, int]]) -> DataFrame:
        return spark.createDataFrame(rows, "part int, supplier int, cost int")

    def is_right(rows: list[tuple[int, int, int]]) -> bool:
        for name, frame in {**fixed, "offer": offers(rows)}.items():
            frame.createOrReplaceTempView(name)
        return Counter(map(tuple, mill.view("v0"))) == Counter(map(tuple, spark.sql(view).collect()))

    fixed = {
        "part": spark.createDataFrame(PARTS, "id int, brand string, weight int"),
        "supplier": spark.createDataFrame([(i, i % 6 == 0) for i in range(20)], "id int, bad boolean"),
    }
    with SparkMill(spark, str(tmp_path / "checkpoint"), buckets=2) as mill:
        mill.sql(TABLES)
        for number, query in enumerate((view, *more)):
            mill.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        mill.apply(**fixed, offer=offers(OFFERS))
        assert is_right(OFFERS)
        dearer = [(part, supplier, cost + 1) for part, supplier, cost in OFFERS[::3]]
        with mill.batch() as batch:
            batch.delete("offer", offers(OFFERS[::3]))
            batch.insert("offer", offers(dearer))
        now = [*dearer, *(offer for offer in OFFERS if offer not in OFFERS[::3])]
        assert is_right(now)
        with mill.batch() as batch:
            batch.delete("offer", offers(now[1:40:3]))
        assert is_right([offer for offer in now if offer not in now[1:40:3]])
