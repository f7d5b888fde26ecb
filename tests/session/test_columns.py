"""Whole columns for tables that keep their rows: batches are right whatever else is in them."""

from __future__ import annotations

import numpy as np
import pandas
import pyarrow as pa
import pytest

import viewmill
from viewmill.errors import DataError

SQL = """
CREATE TABLE t (id INT PRIMARY KEY, a INT, b STRING);
CREATE TABLE bag (a INT);
CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n, sum(a) AS s FROM t GROUP BY b;
CREATE MATERIALIZED VIEW w AS SELECT a, count(*) AS n FROM bag GROUP BY a
"""


def columns(*rows: tuple[int, int, str]) -> pa.Table:
    fields = zip("id a b".split(), zip(*rows, strict=True), strict=True)
    kinds = {"id": pa.int32(), "a": pa.int32(), "b": pa.string()}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in fields})


@pytest.fixture
def mill() -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(SQL)
    return mill


def check(mill: viewmill.Mill, *groups: tuple[str, int, int]) -> None:
    assert sorted(mill.view("v")) == sorted(groups)
    assert mill.verify("v", by="engine")


def test_columns_alone(mill):
    mill.insert("t", columns((1, 10, "x"), (2, 20, "y"), (3, 30, "x")))
    check(mill, ("x", 2, 40), ("y", 1, 20))
    mill.delete("t", columns((1, 10, "x"), (2, 20, "y")))
    check(mill, ("x", 1, 30))


def test_columns_with_other_changes_of_the_table(mill):
    with mill.batch() as batch:
        batch.insert("t", columns((1, 10, "x"), (2, 20, "y")))
        batch.delete("t", [{"id": 1}])
    check(mill, ("y", 1, 20))
    with mill.batch() as batch:
        batch.insert("t", [(3, 30, "x")])
        batch.insert("t", columns((4, 40, "x")))
    check(mill, ("x", 2, 70), ("y", 1, 20))
    with mill.batch() as batch:
        batch.insert("t", columns((5, 50, "y")))
        batch.insert("t", columns((6, 60, "y")))
        batch.update("t", columns((5, 55, "z")))
    check(mill, ("x", 2, 70), ("y", 2, 80), ("z", 1, 55))
    with mill.batch() as batch:
        batch.insert("t", columns((7, 70, "x")))
        batch.overwrite("t", columns((8, 80, "q")))
    check(mill, ("q", 1, 80))


def test_rows_that_occur_more_than_once(mill):
    mill.insert("bag", pa.table({"a": pa.array([1, 1, 2], pa.int32())}))
    mill.insert("bag", pa.table({"a": pa.array([1, 2, 2], pa.int32())}))
    assert sorted(mill.view("w")) == [(1, 3), (2, 3)]
    mill.delete("bag", pa.table({"a": pa.array([1, 2], pa.int32())}))
    assert sorted(mill.view("w")) == [(1, 2), (2, 2)]


def test_a_key_that_is_there_refuses_all(mill):
    mill.insert("t", columns((1, 10, "x")))
    for wrong in (
        columns((2, 20, "y"), (1, 11, "x")),
        columns((3, 1, "x"), (3, 1, "x")),
        columns((3, 1, "x"), (3, 2, "x")),
    ):
        with pytest.raises(DataError, match="two rows with primary key"):
            mill.insert("t", wrong)
        check(mill, ("x", 1, 10))
    with pytest.raises(DataError, match="a row that is not there"):
        mill.delete("t", columns((1, 10, "x"), (2, 20, "y")))
    check(mill, ("x", 1, 10))


def test_a_stream_of_columns_and_a_frame(mill):
    table = columns((1, 10, "x"), (2, 20, "y"))
    mill.insert("t", table.to_reader(max_chunksize=1))
    check(mill, ("x", 1, 10), ("y", 1, 20))
    mill.insert("t", columns((3, 30, "x"), (4, 40, "x")).to_pandas())
    check(mill, ("x", 3, 80), ("y", 1, 20))


def test_what_is_given_may_change_before_the_block_ends(mill):
    """A frame that is used again for something else: what counts is what it was when it was given."""
    mill.sql("CREATE TABLE feed (a INT) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW x AS SELECT a, count(*) AS n FROM feed GROUP BY a")
    frame, values = columns((1, 10, "x")).to_pandas(), np.array([7], np.int32)
    fed = pandas.DataFrame({"a": [1]})
    with mill.batch() as batch:
        batch.insert("t", frame)
        batch.insert("bag", pa.table({"a": pa.array(values)}))
        batch.insert("feed", fed)
        frame["a"], values[0], fed["a"] = 99, 8, 2
    check(mill, ("x", 1, 10))
    assert list(mill.view("w")) == [(7, 1)]
    assert list(mill.view("x")) == [(1, 1)]
    assert mill.verify("w", by="engine")
    with mill.batch() as batch:
        batch.delete("feed", fed.assign(a=1))
        batch.delete("t", (gone := frame.assign(a=10)))
        gone["a"] = 98
    check(mill)
    assert list(mill.view("x")) == []


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_dates_that_python_does_not_have_are_refused(mill, kind):
    mill.sql(f"CREATE TABLE days (day {kind}); CREATE MATERIALIZED VIEW d AS SELECT count(*) AS n FROM days")
    type_, value = (pa.date32(), 2**30) if kind == "date" else (pa.timestamp("us"), 2**62)
    with pytest.raises(DataError, match='column "day" of table "days" cannot be read'):
        mill.insert(
            "days", pa.table({"day": pa.array([value], pa.int32() if kind == "date" else pa.int64()).cast(type_)})
        )
    assert list(mill.view("d")) == [(0,)]
