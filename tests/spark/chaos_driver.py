"""A driver to be killed: takes the batches of a shop from wherever the checkpoint is, and checks every view.

`python chaos_driver.py <master> <folder> <seed> <batches> <cores>` writes what it does to the diary in the folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from diary import Diary
from mortal_commits import mortal
from oracle import difference
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from shop_batches import TABLES, Change, Shop, views_at

import viewmill
from viewmill.engines.spark import engine
from viewmill.engines.spark.session import spark_session
from viewmill.spark_mill import SparkMill

BUCKETS = 4
CHECK_EVERY = 5
ATTEMPTS = 6
SNAPSHOT_EVERY = 6  # batches: snapshots are taken, and old logs removed, while things die


T = TypeVar("T")


class Driver:
    def __init__(self, mill: SparkMill, seed: int, diary: Diary) -> None:
        self.mill, self.diary = mill, diary
        self.shop = Shop.at(seed, mill.version)

    def run(self, batches: int) -> None:
        self.define()
        if self.shop.version:
            self.check()
        while self.shop.version < batches:
            self.define()
            changes = self.shop.next()
            self.diary.write("begin", batch=self.shop.version)
            self.patiently(lambda changes=changes: self.apply(changes))
            assert self.mill.version == self.shop.version
            self.diary.write("done", batch=self.shop.version)
            if self.shop.version % CHECK_EVERY == 0 or self.shop.version == batches:
                self.check()

    def define(self) -> None:
        """What is missing, one by one: the driver before may have died between any two."""
        for table, words in TABLES.items():
            if table not in self.mill.tables:
                self.mill.sql(words)
        for view, query in views_at(self.mill.version).items():
            if view not in self.mill.views:
                self.mill.sql(f"CREATE MATERIALIZED VIEW {view} AS {query}")

    def apply(self, changes: list[Change]) -> None:
        with self.mill.batch() as batch:
            for change in changes:
                getattr(batch, change.op)(change.table, change.rows)

    def check(self) -> None:
        for view in self.mill.views:
            wrong = difference(self.patiently(lambda view=view: list(self.mill.view(view))), self.shop.truth(view))
            assert not wrong, f"{view} at version {self.mill.version}:\n{wrong}"
        self.diary.write("checked", version=self.mill.version)

    def patiently(self, action: Callable[[], T]) -> T:
        """Spark gives up when a task has failed four times, which says nothing about the fifth."""
        for _ in range(ATTEMPTS - 1):
            try:
                return action()
            except (PySparkException, Py4JError) as error:
                self.diary.write("again", error=" ".join(str(error).split())[:2000])
        return action()


def main(master: str, folder: Path, seed: int, batches: int, cores: int) -> None:
    diary = Diary(folder / "diary")
    mortal(folder, diary)
    engine.SAVE_AFTER_BATCHES = SNAPSHOT_EVERY
    spark = spark_session(
        master=master,
        spark_executor_memory="512m",
        # All executors are there before buckets are handed out.
        spark_cores_max=str(cores),
        spark_scheduler_minRegisteredResourcesRatio="1.0",
    )
    # Workers share no disk, and are not to share memory: as if each were a machine of its own.
    mill = viewmill.connect(spark=spark, checkpoint=str(folder / "checkpoint"), buckets=BUCKETS, scratch="$TMPDIR")
    assert isinstance(mill, SparkMill)
    diary.write("connected", version=mill.version)
    Driver(mill, seed, diary).run(batches)
    diary.write("finished", version=mill.version)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
