"""Connecting with another number of buckets moves the state: nothing of it is lost, before the commit or after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bucket_files import bucket_folder
from pyspark.sql import SparkSession

import viewmill
from viewmill.durable.history import History
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
CREATE TABLE clicks (customer INT, page STRING) WITH (stored = false);
CREATE MATERIALIZED VIEW revenue AS
SELECT region, count(*) AS orders, sum(price) AS total, min(price) AS least
FROM orders JOIN customers ON orders.customer = customers.id GROUP BY region;
CREATE MATERIALIZED VIEW per_customer AS
SELECT customer, count(*) AS n, sum(price) AS total FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW pages AS
SELECT customers.id, page, count(*) AS n FROM clicks JOIN customers ON clicks.customer = customers.id
GROUP BY customers.id, page
"""


class Shop:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.taken = spark, folder, 0
        self.twin = viewmill.connect()
        self.twin.sql(SQL)
        self.mill = self.connect(2)
        self.mill.sql(SQL)

    def connect(self, buckets: int | None) -> SparkMill:
        return viewmill.connect(spark=self.spark, checkpoint=str(self.folder), buckets=buckets)

    def batch(self) -> None:
        number = self.taken
        self.taken += 1
        orders = [(i, i % 7, f"{i}.25") for i in range(number * 20, number * 20 + 20)]
        for mill in (self.mill, self.twin):
            with mill.batch() as batch:
                if number == 0:
                    batch.insert("customers", [(i, None if i == 6 else f"region {i % 3}") for i in range(7)])
                else:
                    batch.delete("orders", [{"id": number * 20 - 1}])
                    batch.update("orders", [(number * 20 - 2, 3, "1.00")])
                batch.insert("orders", orders)
                batch.insert("clicks", [(i % 5, f"page {i % 4}") for i in range(30)])

    def check(self) -> None:
        assert self.mill.version == self.twin.version == self.taken
        for name in self.twin.views:
            assert sorted(self.mill.view(name), key=str) == sorted(self.twin.view(name), key=str), name


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path / "checkpoint")


def test_views_go_on_in_more_and_in_fewer_buckets(shop):
    shop.batch()
    shop.batch()
    for buckets in (5, 1, 2):
        shop.mill = shop.connect(buckets)
        shop.check()
        shop.batch()
        shop.check()
    shop.mill = shop.connect(None)
    assert shop.mill._engine.commit.buckets == 2
    shop.check()


def test_a_moved_bucket_is_made_again_from_its_snapshot(shop):
    shop.batch()
    shop.mill = shop.connect(3)
    shutil.rmtree(bucket_folder(shop.mill))
    shop.check()
    shop.batch()
    shop.check()


def test_moving_that_is_not_committed_has_not_happened(shop, monkeypatch):
    shop.batch()

    def dies(history: History, commit: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(History, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            shop.connect(4)
    shop.mill = shop.connect(None)
    assert shop.mill._engine.commit.buckets == 2
    shop.check()
    shop.batch()
    shop.check()


def test_an_empty_mill_takes_any_number(shop):
    shop.mill = shop.connect(3)
    shop.batch()
    shop.check()
    assert shop.mill._engine.commit.buckets == 3


def numbers_of(folder: Path) -> set[str]:
    """For how many buckets there are files."""
    return {file.name.split("-")[1] for file in folder.iterdir() if not file.suffix and "used-by" not in file.name}


def test_files_of_other_buckets_are_removed(shop):
    shop.batch()
    folder = bucket_folder(shop.mill)
    shop.mill = shop.connect(3)
    shop.batch()
    shutil.rmtree(folder)
    shop.check()  # made again
    assert numbers_of(folder) == {"3"}
    shop.mill = shop.connect(2)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "0123456789ab-9-0").write_bytes(b"of another program")
    shop.check()
    assert numbers_of(folder) == {"2"}


def test_a_view_defined_before_the_driver_died_is_there_afterwards(shop):
    shop.batch()
    for mill in (shop.mill, shop.twin):
        mill.sql("DROP MATERIALIZED VIEW pages")  # its rows of clicks are not kept
    for mill in (shop.mill, shop.twin):
        mill.sql("CREATE MATERIALIZED VIEW best AS SELECT customer, max(price) AS best FROM orders GROUP BY customer")
    shop.mill = shop.connect(None)
    shop.check()
    shop.batch()
    shop.check()
