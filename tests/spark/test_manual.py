"""The examples in docs/spark.md run, and do what is said there."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


@pytest.fixture
def mill(spark: SparkSession, tmp_path: Path) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("""
        CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
        CREATE MATERIALIZED VIEW per_customer AS
        SELECT customer, count(*) AS n, sum(price) AS total FROM orders GROUP BY customer
    """)
    return mill


def example(section: str) -> str:
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return text.partition("```python\n")[2].partition("```")[0]


def test_in(mill, spark, tmp_path):
    row = '"customer": 7, "price": 1.00'
    lines = [f'{{"op": "c", "id": 3, {row}, "at": "2024-01-01T00:00:00Z"}}', '{"op": "delete", "id": 1}']
    lines += ['{"op": "d", "id": 3, "at": "2024-01-01T00:00:01Z"}', f'{{"op": "insert", "id": 4, {row}}}']
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (incoming / "changes.json").write_text("\n".join(lines))
    exec(example("In"), {"mill": mill, "spark": spark, "incoming": str(incoming)})
    mill.stop()
    assert sorted(mill.view("per_customer")) == [(7, 1, Decimal("1.00")), (8, 1, Decimal("9.99"))]


def test_out(mill, spark, tmp_path):
    exec(example("Out"), {"mill": mill, "spark": spark, "viewmill": viewmill, "folder": str(tmp_path)})
    found = [tuple(row) for row in spark.sql("SELECT * FROM per_customer").collect()]
    spark.sql("DROP VIEW per_customer")
    assert found == [(7, 2, Decimal("15.00"))]
    read = viewmill.read_versioned(spark, str(tmp_path / "per_customer")).collect()
    assert [tuple(row) for row in read] == found
