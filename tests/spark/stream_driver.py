"""A driver to be killed: two streams feed a mill, until they have given all they have.

`python stream_driver.py <folder>` reads JSON files in folders named for the tables, and writes what it does to a diary.
"""

from __future__ import annotations

import sys
from pathlib import Path

from diary import Diary
from mortal_commits import mortal

import viewmill
from viewmill.engines.spark.session import spark_session
from viewmill.spark_mill import SparkMill

SQL = """
CREATE TABLE kept (id BIGINT PRIMARY KEY, a STRING, b BIGINT);
CREATE TABLE passed (id BIGINT, a STRING, b BIGINT) WITH (stored = false);
CREATE MATERIALIZED VIEW of_kept AS SELECT a, count(*) AS n, sum(b) AS s FROM kept GROUP BY a;
CREATE MATERIALIZED VIEW of_passed AS SELECT a, count(*) AS n, sum(b) AS s FROM passed GROUP BY a
"""
ROW = "id bigint, a string, b bigint"


def main(folder: Path) -> None:
    diary = Diary(folder / "diary")
    mortal(folder, diary)
    spark = spark_session(master="local[2]", spark_driver_memory="1g")
    mill = viewmill.connect(spark=spark, checkpoint=str(folder / "checkpoint"), buckets=2)
    assert isinstance(mill, SparkMill)
    if not mill.views:
        mill.sql(SQL)
    diary.write("connected", version=mill.version)
    for table in ("kept", "passed"):
        stream = spark.readStream.schema(ROW).option("maxFilesPerTrigger", 1).json(str(folder / table))
        mill.stream(table, stream)
    mill.start(availableNow=True)
    mill.await_termination()
    views = {view: sorted(mill.view(view)) for view in mill.views}
    diary.write("finished", version=mill.version, views=views)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
