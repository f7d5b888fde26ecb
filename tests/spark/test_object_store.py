"""A mill whose checkpoint and views are in an object store, which has no folders, and no moves but copies."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from bucket_files import bucket_folder
from pyspark.sql import SparkSession

import viewmill
from viewmill.durable.files import Files
from viewmill.engines.spark import engine
from viewmill.errors import DataError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS orders, sum(price) AS total FROM orders;
CREATE MATERIALIZED VIEW per_customer AS
SELECT customer, count(*) AS n, sum(price) AS total, max(price) AS most FROM orders GROUP BY customer
"""


def order(number: int, price: str) -> tuple[int, int, str]:
    return number, number % 5, price


def change(mill: SparkMill | viewmill.Mill, number: int) -> None:
    """Batch after batch: ten orders come, those of the last one get another price, and one of these goes."""
    with mill.batch() as batch:
        batch.insert("orders", [order(i, f"{i}.25") for i in range(10 * number, 10 * number + 10)])
        if number:
            batch.update("orders", [order(i, f"{2 * i}.50") for i in range(10 * number - 9, 10 * number)])
            batch.delete("orders", [{"id": 10 * number - 10}])


def agree(mill: SparkMill, twin: viewmill.Mill) -> None:
    assert mill.version == twin.version
    for name in twin.views:
        assert sorted(mill.view(name)) == sorted(twin.view(name)), name


def test_a_mill_goes_on_from_an_object_store(
    spark: SparkSession, object_place: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SAVE_AFTER_BATCHES", 2)  # of snapshots and cleaning, too
    place = object_place()
    mill, twin = viewmill.connect(spark=spark, checkpoint=place.replace("s3:", "s3a:"), buckets=2), viewmill.connect()
    for one in (mill, twin):
        one.sql(SQL)
        for number in range(4):
            change(one, number)
    agree(mill, twin)
    commit, files = mill._engine.commit, mill._engine.files
    assert min(commit.snapshots) > 0 and len(commit.entries) < 4
    assert len(files.folders("logs")) == len(commit.entries), "what no version needs is gone"

    shutil.rmtree(bucket_folder(mill))
    again = viewmill.connect(spark=spark, checkpoint=place, buckets=3)
    agree(again, twin)
    for one in (again, twin):
        change(one, 4)
    agree(again, twin)
    with pytest.raises(DataError, match=r'another mill uses the checkpoint "s3://bucket-\d+/mill"'):
        change(mill, 4)
    agree(viewmill.connect(spark=spark, checkpoint=place), twin)

    last = again._engine.commit.entries[-1]
    log = f"{last.folder}/{last.logs[0]}"
    data = files.read(log)
    with files.output(log) as out:
        out.write(data[:-1])
    shutil.rmtree(bucket_folder(again))
    with pytest.raises(DataError, match=f'{log}" is damaged'):
        change(viewmill.connect(spark=spark, checkpoint=place), 5)
    files.write(log, data)
    again = viewmill.connect(spark=spark, checkpoint=place)
    for one in (again, twin):
        change(one, 5)
    agree(again, twin)


def test_views_are_written_to_an_object_store(spark: SparkSession, object_place: Callable[[], str]) -> None:
    mill = viewmill.connect(spark=spark, checkpoint=object_place(), buckets=2)
    mill.sql(SQL)
    change(mill, 0)
    whole, changes = object_place(), object_place()
    view = mill.view("per_customer")
    view.write(whole)
    view.write(changes, mode="changes")
    for number in (1, 2):
        change(mill, number)
    expected = sorted(view)

    files = Files(changes)
    assert files.names("") == ["_latest", *(f"changes-{version:012d}.parquet" for version in (1, 2, 3))]
    counts: dict[tuple[object, ...], int] = {}
    for *row, kind, _ in rows(_read(changes)):
        counts[tuple(row)] = counts.get(tuple(row), 0) + (1 if kind == "insert" else -1)
    assert sorted(row for row, count in counts.items() for _ in range(count)) == expected

    newest = max(Files(whole).folders("_versions"))
    assert sorted(rows(_read(whole, f"_versions/{newest}"))) == expected
    with pytest.raises(DataError, match=r'"s3://bucket-\d+/mill" holds view "per_customer"'):
        mill.view("total").write(whole)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def _read(place: str, folder: str = "") -> pa.Table:
    system, path = fs.FileSystem.from_uri(place)
    return pq.read_table(f"{path}/{folder}" if folder else path, filesystem=system)
