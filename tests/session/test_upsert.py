"""Rows that replace those of their key, or are new."""

from __future__ import annotations

import pyarrow as pa
import pytest

import viewmill
from viewmill.errors import BindError, DataError

SQL = """
CREATE TABLE t (id INT PRIMARY KEY, a INT);
CREATE TABLE bag (a INT);
CREATE MATERIALIZED VIEW v AS SELECT id, sum(a) AS a FROM t GROUP BY id;
CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM bag
"""


@pytest.fixture
def mill(executor) -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(SQL)
    mill.insert("t", [(1, 10), (2, 20)])
    return mill


def test_rows_are_replaced_or_added(mill):
    mill.upsert("t", [(2, 21), (3, 30), (3, 31)])
    assert sorted(mill.view("v")) == [(1, 10), (2, 21), (3, 31)]
    mill.upsert("t", pa.table({"id": pa.array([1, 4], pa.int32()), "a": pa.array([None, 40], pa.int32())}))
    assert sorted(mill.view("v")) == [(1, None), (2, 21), (3, 31), (4, 40)]


def test_an_upsert_sees_what_is_before_it(mill):
    with mill.batch() as batch:
        batch.delete("t", [{"id": 1}])
        batch.upsert("t", [(1, 11)])
        batch.insert("t", [(5, 50)])
        batch.upsert("t", [(5, 51)])
    assert sorted(mill.view("v")) == [(1, 11), (2, 20), (5, 51)]


def test_all_or_nothing(mill):
    with pytest.raises(DataError, match="NULL in column"):
        mill.upsert("t", [(1, 11), (None, 1)])
    assert sorted(mill.view("v")) == [(1, 10), (2, 20)]


def test_a_key_is_needed(mill):
    with pytest.raises(BindError, match='cannot update table "bag": it has no primary key'):
        mill.upsert("bag", [(1,)])
