"""What the source makes of rows of relations that keep none: it is in the buckets when they need it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import viewmill
from viewmill.distribute.nodes import Driver, Everywhere
from viewmill.engines.spark import engine, parts
from viewmill.engines.spark.progress import shown
from viewmill.errors import DataError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

HIRED = "SELECT id FROM worker WHERE pay + 1 IN (SELECT 100 / budget FROM team)"
VIEWS = {"hired": HIRED, "teams": "SELECT count(*) AS n, sum(budget) AS total FROM team"}
WORKERS = [(i, i % 40) for i in range(300)]
TEAMS = [(i, (4, 5, 20, 50, None)[i % 5]) for i in range(90)]


@pytest.fixture
def mill(spark: SparkSession, tmp_path: Path) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("CREATE TABLE worker (id INT PRIMARY KEY, pay INT) WITH (stored = false)")
    mill.sql("CREATE TABLE team (id INT, budget INT) WITH (stored = false)")
    for name, query in VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return mill


@pytest.fixture
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    return {
        "worker": spark.createDataFrame(WORKERS, "id int, pay int"),
        "team": spark.createDataFrame(TEAMS, "id int, budget int"),
    }


def agree(mill: SparkMill, frames: dict[str, DataFrame]) -> None:
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    for name, query in VIEWS.items():
        truth = next(iter(frames.values())).sparkSession.sql(query).collect()
        assert Counter(map(tuple, mill.view(name))) == Counter(map(tuple, truth)) != Counter(), name


def test_what_it_makes_is_there_in_the_first_block(mill: SparkMill, frames: dict[str, DataFrame]):
    mill.apply(**frames)
    plan = mill._engine.deployed.plan(("team", "worker"))
    made = {type(send.to) for send in plan.blocks[0].sends if not send.incoming}
    assert made == {Driver, Everywhere} and plan.stages == 2, "else this test is of something else"
    agree(mill, frames)
    fewer, gone = frames["team"].where("id >= 40"), frames["team"].where("id < 40")
    with mill.batch() as batch:
        batch.delete("team", gone)
    agree(mill, {**frames, "team": fewer})


def test_of_each_part_of_a_large_batch(mill: SparkMill, frames: dict[str, DataFrame], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parts, "PART_ROWS", 60)
    titles = list[str]()
    monkeypatch.setattr(engine, "shown", lambda session, title: titles.append(title) or shown(session, title))
    mill.apply(**frames)
    assert len(titles) > 2, "else it was not taken in parts"
    agree(mill, frames)


def test_an_error_in_it_refuses_the_batch(mill: SparkMill, frames: dict[str, DataFrame], spark: SparkSession):
    mill.apply(**frames)
    with pytest.raises(DataError, match=r"^division by zero"):
        mill.apply(team=spark.createDataFrame([(1000, 0), (1001, 4)], "id int, budget int"))
    assert mill.version == 1
    agree(mill, frames)


def test_rows_for_the_driver_are_sent_once(spark: SparkSession, tmp_path: Path):
    """They are spread over buckets on their way, and so are rows of the same relation for sums, in another way."""
    both = "SELECT id FROM event WHERE kind = 'buy' AND id IN (SELECT id FROM event WHERE kind = 'sell')"
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=3)
    mill.sql("CREATE TABLE event (id INT, kind STRING, at INT) WITH (stored = false)")
    mill.sql("CREATE TABLE worker (id INT PRIMARY KEY, pay INT) WITH (stored = false)")
    mill.sql(f"CREATE MATERIALIZED VIEW people AS {both}")
    mill.sql("CREATE MATERIALIZED VIEW times AS SELECT kind, max(at) AS last FROM event WHERE at > 0 GROUP BY kind")
    mill.sql("CREATE MATERIALIZED VIEW workers AS SELECT DISTINCT id FROM worker")
    events = spark.createDataFrame([(1, ("buy", "sell")[i % 2], i) for i in range(8)], "id int, kind string, at int")
    mill.apply(event=events, worker=spark.createDataFrame(WORKERS[:9], "id int, pay int"))
    sends = mill._engine.deployed.sends(("event", "worker"))
    assert sum(send.source == "event" for send in sends) > 1, "else this test is of something else"
    events.createOrReplaceTempView("event")
    assert sorted(map(tuple, mill.view("people"))) == sorted(map(tuple, spark.sql(both).collect())) != []


@pytest.mark.parametrize("to_buckets", [False, True])
def test_a_null_where_there_may_be_none_is_named(spark: SparkSession, tmp_path: Path, to_buckets: bool):
    """Where rows are read, whether they go on to buckets or only to the driver, and nothing of the batch is applied."""
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("CREATE TABLE sale (id INT NOT NULL, price INT NOT NULL) WITH (stored = false)")
    place, what = ("PARTITION BY (id)", "id, sum(price) AS s") if to_buckets else ("", "sum(price) AS s")
    mill.sql(f"CREATE MATERIALIZED VIEW v {place} AS SELECT {what} FROM sale {'GROUP BY id' if to_buckets else ''}")
    mill.apply(sale=spark.createDataFrame([(1, 5), (2, 7)], "id int, price int"))
    assert bool(mill._engine.deployed.steps(("sale",))) is to_buckets, "else this test is of something else"
    before = sorted(mill.view("v"))
    with pytest.raises(DataError, match='NULL in column "price" of table "sale", which is NOT NULL') as caught:
        mill.apply(sale=spark.createDataFrame([(1, 5), (2, None)], "id int, price int"))
    assert "correct the rows" in str(caught.value)
    assert sorted(mill.view("v")) == before and mill.version == 1
    mill.apply(sale=spark.createDataFrame([(3, 1)], "id int, price int"))
    assert mill.version == 2
