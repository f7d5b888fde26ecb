"""What a batch did to views that are followed, and when it takes more than asking the buckets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.definition import Definition
from viewmill.distribute.nodes import Buckets, Everywhere
from viewmill.durable.files import Files
from viewmill.durable.history import Entry
from viewmill.engines.spark.changed import Untold, change_messages, change_of_rows, gathered_changes
from viewmill.engines.spark.work import Point, Wanted, Work
from viewmill.errors import DataError
from viewmill.spark_mill import SparkMill
from viewmill.spark_watching import Watching


def definition(query: str) -> Definition:
    mill = viewmill.connect()
    mill.sql(f"CREATE TABLE t (a INT, b STRING); CREATE MATERIALIZED VIEW v AS {query}")
    return mill._definitions.views["v"]


class Fake:
    """A mill whose view has these rows, one list after another."""

    def __init__(self, *versions: list[Any], tells: bool = True) -> None:
        self.versions, self.tells = versions, tells
        self.at, self.reads, self.asked = 0, 0, []

    def read(self, name: str) -> viewmill.Result:
        self.reads += 1
        return viewmill.Result((), tuple(self.versions[self.at]), self.at)

    def apply(self, watched: dict[str, Any]) -> dict[str, pa.Table]:
        self.asked.append(sorted(watched))
        if watched and not self.tells:
            raise Untold("v")
        before, self.at = self.versions[self.at], self.at + 1
        net = {row: self.versions[self.at].count(row) - before.count(row) for row in [*before, *self.versions[self.at]]}
        return {name: change_of_rows(net, columns) for name, columns in watched.items()}


def test_the_batch_runs_again_if_what_it_did_cannot_be_told():
    view = definition("SELECT a, b FROM t")
    fake = Fake([(1, "x"), (1, "x")], [(1, "x"), (2, None)], tells=False)
    change = Watching(fake.read).take([view], 1, fake.apply)["v"]
    assert fake.asked == [["v"], []]
    assert fake.reads == 2
    assert sorted(change.to_pylist(), key=str) == [
        {"a": 1, "b": "x", "weight_": -1},
        {"a": 2, "b": None, "weight_": 1},
    ]


def test_a_view_with_a_limit_is_read_once_for_each_batch_that_changes_it():
    view = definition("SELECT a, b FROM t ORDER BY a LIMIT 1")
    fake = Fake([(1, "x")], [(2, "x")], [(2, "x")], [(3, "x")])
    watching = Watching(fake.read)
    reads, sizes = [], []
    for version in (1, 2, 3):
        sizes.append(watching.take([view], version, fake.apply)["v"].num_rows)
        reads.append(fake.reads)
    assert sizes == [2, 0, 2]
    assert reads == [2, 2, 3]
    watching.forget()
    fake.at = 0
    watching.take([view], 4, fake.apply)
    assert fake.reads == 5


def test_messages_add_up():
    view = definition("SELECT a, b FROM t")
    parts = [{(1, "x"): 1, (2, None): 2}, {(1, "x"): -1, (2, None): 1, (3, "y"): -1}]
    messages = [change_messages({"v": change_of_rows(rows, view.columns)}, n, 2) for n, rows in enumerate(parts)]
    told = gathered_changes(pa.concat_tables(messages), {"v": view.columns, "w": view.columns})
    assert sorted(told["v"].to_pylist(), key=str) == [
        {"a": 2, "b": None, "weight_": 3},
        {"a": 3, "b": "y", "weight_": -1},
    ]
    assert told["w"].num_rows == 0 and told["w"].schema == told["v"].schema
    nothing = change_messages({"v": change_of_rows({}, view.columns)}, 0, 2)
    assert nothing.num_rows == 0
    with pytest.raises(Untold) as error:
        gathered_changes(change_messages({"v": None}, 1, 2), {"v": view.columns})
    assert error.value.view == "v"


def test_one_bucket_tells_of_a_view_that_is_everywhere(monkeypatch):
    places = {"here": Buckets(("a",)), "everywhere": Everywhere()}
    monkeypatch.setattr(Point, "deployed", lambda self: SimpleNamespace(program=SimpleNamespace(views=places)))
    point = Point(Files("nowhere"), "m", "p", 2, "", (), (0, 0))
    work = Work(point, Entry(1, "b"), 1, wanted=Wanted({"here": (), "everywhere": ()}))
    assert [set(work.wanted_in(bucket).watched) for bucket in (0, 1)] == [{"here", "everywhere"}, {"here"}]


RATIOS = """
CREATE TABLE a (id INT PRIMARY KEY, ck INT);
CREATE TABLE c (ck INT PRIMARY KEY, y INT);
CREATE MATERIALIZED VIEW ratios PARTITION BY (id) AS
SELECT a.id, 10 / sum(c.y) AS ratio FROM a JOIN c ON a.ck = c.ck GROUP BY a.id
"""


@pytest.fixture
def ratios(spark: SparkSession, tmp_path: Path) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql(RATIOS)
    with mill.batch() as batch:
        batch.insert("a", [(i, i) for i in range(8)])
        batch.insert("c", [(i, i + 1) for i in range(8)])
    return mill


@pytest.mark.spark
def test_a_state_that_a_batch_passes_through_may_be_an_error(ratios, monkeypatch):
    """Row 3 of `a` is 10 / 4. `c` changes by -4 where the row is going to be, before that is taken for where it was."""
    assert not ratios._engine.is_on_driver("ratios")
    heard, runs = [], []
    ratios.view("ratios").subscribe(heard.append)
    apply = ratios._engine.apply
    monkeypatch.setattr(ratios._engine, "apply", lambda *given: runs.append(list(given[1])) or apply(*given))
    with ratios.batch() as batch:
        batch.update("a", [(3, 2)])
        batch.update("c", [(2, -1)])
    assert runs == [["ratios"], []], "the batch ran again, without asking the buckets"
    assert ratios.version == 2
    assert [(change.version, set(change.added), set(change.removed)) for change in heard] == [
        (2, {(2, -10.0), (3, -10.0)}, {(2, 10 / 3), (3, 2.5)})
    ]


@pytest.mark.spark
def test_a_batch_that_ends_in_an_error_is_refused(ratios):
    heard = []
    ratios.view("ratios").subscribe(heard.append)
    before = sorted(ratios.view("ratios"))
    with pytest.raises(DataError, match="division by zero"):
        ratios.update("c", [(3, 0)])
    assert ratios.version == 1 and not heard
    assert sorted(ratios.view("ratios")) == before
    ratios.update("c", [(3, 20)])
    assert [(change.added, change.removed) for change in heard] == [(((3, 0.5),), ((3, 2.5),))]


def twin() -> viewmill.Mill:
    """An embedded mill with what `ratios` has."""
    twin = viewmill.connect()
    twin.sql(RATIOS)
    with twin.batch() as batch:
        batch.insert("a", [(i, i) for i in range(8)])
        batch.insert("c", [(i, i + 1) for i in range(8)])
    return twin


def state(mill: SparkMill | viewmill.Mill) -> object:
    """All that there is to see: its version, its view and its tables."""
    tables = [sorted(mill.sql(f"SELECT * FROM {name}")) for name in ("a", "c")]
    return mill.version, sorted(mill.view("ratios")), tables


@pytest.mark.spark
def test_nobody_has_to_follow_a_view_for_its_errors_to_be_refused(ratios, spark, tmp_path):
    other = twin()
    before = state(ratios)
    assert before == state(other)
    for mill in (ratios, other):
        with pytest.raises(DataError, match="division by zero"), mill.batch() as batch:
            batch.insert("a", [(100, 1)])
            batch.update("c", [(3, 0)])
    assert state(ratios) == before
    again = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    assert state(again) == before
    with pytest.raises(DataError, match='division by zero in view "ratios"') as error:
        again.update("c", [(3, 0)])
    assert error.value.hint == "correct the rows and apply the batch again: nothing of it was"
    for mill in (again, other):
        mill.update("c", [(3, 20)])
    assert state(again) == state(other)


@pytest.mark.spark
def test_a_batch_may_pass_through_an_error_that_nobody_sees(ratios):
    """Row 3 of `a` is 10 / 4 until `c` changes by -4 where it is not yet gone from: see above."""
    other = twin()
    for mill in (ratios, other):
        with mill.batch() as batch:
            batch.update("a", [(3, 2)])
            batch.update("c", [(2, -1)])
    assert state(ratios) == state(other)
    for mill in (ratios, other):
        mill.update("c", [(2, 5)])
    assert state(ratios) == state(other)


@pytest.mark.spark
def test_an_error_of_an_early_step_is_one_if_no_later_step_takes_it_away(spark, tmp_path):
    """`t` changes the view in its first block; what follows, of `u`, is another view's."""
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("""
        CREATE TABLE t (k INT PRIMARY KEY, x INT, g INT);
        CREATE TABLE u (g INT PRIMARY KEY, y INT);
        CREATE MATERIALIZED VIEW inverse AS SELECT k, 10 / x AS y FROM (SELECT k, sum(x) AS x FROM t GROUP BY k);
        CREATE MATERIALIZED VIEW others PARTITION BY (y) AS
            SELECT u.y, sum(t.x) AS n FROM t JOIN u ON t.g = u.g GROUP BY u.y
    """)
    with mill.batch() as batch:
        batch.insert("t", [(i, i + 1, i) for i in range(8)])
        batch.insert("u", [(i, i % 3) for i in range(8)])
    assert not mill._engine.is_on_driver("inverse")
    with pytest.raises(DataError, match='division by zero in view "inverse"'):
        mill.update("t", [(3, 0, 3)])
    assert mill.version == 1 and (3, 2.5) in set(mill.view("inverse"))
    mill.update("t", [(3, 5, 3)])
    assert (3, 2.0) in set(mill.view("inverse"))


@pytest.mark.spark
def test_only_views_that_can_be_in_error_are_checked(ratios, spark, tmp_path):
    assert ratios._engine.deployed.fallible == {"ratios"}
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "other"), buckets=2)
    mill.sql("CREATE TABLE t (k INT PRIMARY KEY, x INT); CREATE MATERIALIZED VIEW v AS SELECT k, x FROM t WHERE x > 1")
    mill.insert("t", [(1, 2)])
    assert mill._engine.deployed.fallible == frozenset()
