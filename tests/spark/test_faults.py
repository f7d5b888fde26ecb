"""Whatever is lost at whatever moment: every view equals that of an embedded mill that took the same batches."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest
from bucket_files import bucket_folder
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_cluster import children, command

import viewmill
from viewmill.durable.files import FileError, Files
from viewmill.durable.history import History
from viewmill.engines.spark import engine
from viewmill.errors import DataError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
CREATE MATERIALIZED VIEW revenue AS
SELECT region, count(*) AS orders, sum(price) AS total, min(price) AS least
FROM orders JOIN customers ON orders.customer = customers.id GROUP BY region;
CREATE MATERIALIZED VIEW per_customer AS
SELECT customer, count(*) AS n, sum(price) AS total FROM orders GROUP BY customer
"""


class Shop:
    """Random batches, for a mill on Spark and for its twin; those that a mill has refused are tried again."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int = 3) -> None:
        self.spark, self.folder = spark, folder
        self.random = Random(seed)
        self.twin = viewmill.connect()
        self.twin.sql(SQL)
        self.mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=2)
        self.mill.sql(SQL)
        self.next, self.there = 0, set()

    def connect(self) -> None:
        """The driver dies, and another one goes on."""
        self.mill = viewmill.connect(spark=self.spark, checkpoint=str(self.folder))

    def batch(self):
        """A batch as a function of a mill."""
        new = range(self.next, self.next + 20)
        gone = set(self.random.sample(sorted(self.there), min(5, len(self.there))))
        changed = self.random.sample(sorted(self.there - gone), min(5, len(self.there - gone)))
        rows = {i: (i, self.random.randrange(6), f"{self.random.randrange(1000)}.25") for i in (*new, *changed)}
        moved = (self.random.randrange(6), self.random.choice(["north", "south", "west"]))

        def apply(mill: SparkMill | viewmill.Mill) -> None:
            with mill.batch() as batch:
                if self.next == 0:
                    batch.insert("customers", [(i, "north") for i in range(6)])
                else:
                    batch.update("customers", [moved])
                batch.insert("orders", [rows[i] for i in new])
                if gone:
                    batch.delete("orders", [{"id": i} for i in sorted(gone)])
                if changed:
                    batch.update("orders", [rows[i] for i in changed])

        def done() -> None:
            self.next += 20
            self.there = (self.there | set(new)) - gone

        return apply, done

    def step(self) -> None:
        apply, done = self.batch()
        apply(self.twin)
        apply(self.mill)
        done()

    def agree(self) -> None:
        assert self.mill.version == self.twin.version
        for name in self.twin.views:
            assert sorted(self.mill.view(name)) == sorted(self.twin.view(name)), name


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path / "checkpoint")


def test_buckets_that_are_lost_are_made_again(shop):
    for _ in range(3):
        shop.step()
    shutil.rmtree(bucket_folder(shop.mill))
    shop.agree()
    shutil.rmtree(bucket_folder(shop.mill))
    shop.step()
    shop.agree()


def test_snapshots_shorten_the_way(shop, monkeypatch):
    monkeypatch.setattr(engine, "SAVE_AFTER_BATCHES", 2)
    for _ in range(7):
        shop.step()
    commit = shop.mill._engine.commit
    assert min(commit.snapshots) > 0 and commit.driver > 0 and len(commit.entries) < 7
    logs = sorted((shop.folder / "logs").iterdir())
    assert len(logs) <= 7 and len(logs) == len({entry.folder for entry in commit.entries})
    shutil.rmtree(bucket_folder(shop.mill))
    shop.connect()
    shop.agree()
    shop.step()
    shop.agree()


@pytest.mark.parametrize(
    "view",
    [
        pytest.param("SELECT count(*) AS n, sum(a) AS s FROM t", id="only the driver has something of it"),
        pytest.param("SELECT count(*) AS n FROM other", id="nobody has"),
        pytest.param("SELECT a, count(*) AS n FROM t GROUP BY a", id="buckets"),
    ],
)
def test_what_is_in_the_checkpoint_does_not_grow_with_batches(spark, tmp_path, monkeypatch, view):
    monkeypatch.setattr(engine, "SAVE_AFTER_BATCHES", 4)
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path), buckets=2)
    mill.sql("CREATE TABLE t (a INT) WITH (stored = false); CREATE TABLE other (a INT)")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {view}")
    for number in range(24):
        mill.insert("t", [(number % 3,)])
    assert len(mill._engine.commit.entries) <= 8
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file.parent.name != "programs"]
    assert len(files) < 40, sorted(map(str, files))
    found = sorted(mill.view("v"))
    again = viewmill.connect(spark=spark, checkpoint=str(tmp_path))
    assert again.version == 24 and sorted(again.view("v")) == found
    again.insert("t", [(7,)])
    twin = viewmill.connect()
    twin.sql(f"CREATE TABLE t (a INT); CREATE TABLE other (a INT); CREATE MATERIALIZED VIEW v AS {view}")
    twin.insert("t", [(number % 3,) for number in range(24)] + [(7,)])
    assert sorted(again.view("v")) == sorted(twin.view("v"))


def test_a_mill_that_is_refused_has_replaced_nothing(shop, monkeypatch):
    """Two mills use a checkpoint, with snapshots due. What the late one writes is nothing that the other needs."""
    monkeypatch.setattr(engine, "SAVE_AFTER_BATCHES", 2)
    shop.step()
    late = shop.mill
    shop.connect()
    shop.step()
    with pytest.raises(DataError, match="another mill uses the checkpoint"):
        late.insert("orders", [(10**6, 0, "999.00")])
    shop.connect()
    shop.agree()


def test_a_batch_counts_though_old_files_stay(shop, monkeypatch):
    monkeypatch.setattr(engine, "SAVE_AFTER_BATCHES", 2)

    def fail(self, name):
        raise FileError("read only", hint="wait")

    monkeypatch.setattr(Files, "remove", fail)
    for _ in range(4):
        shop.step()
    shop.agree()


def test_a_driver_that_dies_before_the_commit(shop, monkeypatch):
    shop.step()
    apply, _ = shop.batch()
    with monkeypatch.context() as patch:

        def die(self, commit):
            raise KeyboardInterrupt

        patch.setattr(History, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            apply(shop.mill)
    shop.agree()  # the same driver, if it lives
    shop.connect()
    shop.agree()
    shop.step()  # another batch than the one that was lost
    shop.agree()


def test_a_driver_that_dies_before_a_view_is_full(shop, monkeypatch):
    shop.step()
    for mill in (shop.twin, shop.mill):
        mill.sql("CREATE MATERIALIZED VIEW dear AS SELECT customer, max(price) AS most FROM orders GROUP BY customer")
    with monkeypatch.context() as patch:

        def die(self, commit):
            raise KeyboardInterrupt

        patch.setattr(History, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            shop.mill.read("dear")
    left = set(shop.folder.glob("snapshots/*"))
    assert left
    shop.connect()
    shop.agree()
    shop.step()
    shop.agree()
    # Tasks may outlive their driver, and write where it told them to.
    assert not left & set(shop.folder.glob("snapshots/*"))


def test_python_workers_that_are_killed(shop):
    shop.step()
    killer = Random(1)
    for _ in range(4):
        apply, done = shop.batch()
        apply(shop.twin)
        for delay in (killer.uniform(0.05, 0.5), killer.uniform(0.3, 1.5), None):
            try:
                with killing(delay) if delay else nullcontext():
                    apply(shop.mill)
                break
            except (PySparkException, Py4JJavaError):  # this Spark tries a task once: the batch is tried again
                _recover(shop.spark)
        else:
            pytest.fail("the batch was refused without anybody being killed")
        done()
        _recover(shop.spark)
        shop.agree()


class killing:
    """Kill the Python workers of this process's Spark after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, _kill_workers)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()


def _recover(spark: SparkSession) -> None:
    """Spark finds out that workers are gone when it wants to use them, one by one."""
    successes = 0
    for _ in range(60):
        if successes == 5:
            return
        try:
            spark.range(8, numPartitions=4).mapInArrow(lambda batches: batches, "id bigint").count()
            spark.createDataFrame([(number,) for number in range(8)], "id int").repartition(4).count()
            successes += 1
        except (PySparkException, Py4JJavaError):
            successes = 0
    pytest.fail("Spark does not recover from the loss of its workers")


def _kill_workers() -> None:
    for worker in list(_workers(os.getpid())):
        try:
            os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:
            pass
    time.sleep(0.05)


def _workers(process: int) -> Iterator[int]:
    """The forks of Spark's Python daemon."""
    for child in children(process):
        if "pyspark" in command(child) and "daemon" in command(child):
            yield from children(child)
        else:
            yield from _workers(child)


@pytest.mark.parametrize(
    ("what", "which"),
    [("logs", "*"), ("snapshots", "driver-*"), ("snapshots", "[0-9]*-*"), ("commits", "*"), ("programs", "*")],
)
def test_damaged_files_are_named(shop, monkeypatch, what, which):
    monkeypatch.setattr(engine, "SAVE_AFTER_BATCHES", 2)
    for _ in range(4):
        shop.step()
    damaged = sorted(file for file in (shop.folder / what).rglob(which) if file.is_file())
    assert damaged
    for file in damaged:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 0xFF
        file.write_bytes(data)
    shutil.rmtree(bucket_folder(shop.mill))
    with pytest.raises(DataError, match="|".join(re.escape(str(file)) for file in damaged)):
        shop.connect()
        viewmill.engines.spark.work.deployed.cache_clear()
        shop.agree()
        shop.step()
