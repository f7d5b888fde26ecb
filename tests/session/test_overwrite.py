"""A table replaced as a whole, embedded: the net change is what differs."""

from __future__ import annotations

import pytest

import viewmill
from viewmill.errors import BindError, DataError

SQL = """
CREATE TABLE t (id INT PRIMARY KEY, a INT);
CREATE TABLE bag (a INT);
CREATE STREAM s (a INT);
CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a;
CREATE MATERIALIZED VIEW w AS SELECT a, count(*) AS n FROM bag GROUP BY a
"""


@pytest.fixture
def mill() -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(SQL)
    mill.insert("t", [(1, 10), (2, 20), (3, 20)])
    mill.insert("bag", [(1,), (1,), (2,)])
    return mill


def test_views_take_what_differs(mill):
    seen = []
    mill.view("v").subscribe(seen.append)
    mill.overwrite("t", [(1, 10), (2, 30), (4, 40)])
    assert sorted(mill.view("v")) == [(10, 1), (30, 1), (40, 1)]
    assert not any(row[0] == 10 for change in seen for row in (*change.added, *change.removed))


def test_repeated_rows_and_changes_before_and_after(mill):
    with mill.batch() as batch:
        batch.insert("bag", [(7,)])
        batch.overwrite("bag", [(1,), (2,), (2,)])
        batch.insert("bag", [(8,)])
    assert sorted(mill.view("w")) == [(1, 1), (2, 2), (8, 1)]
    mill.overwrite("bag", [])
    assert list(mill.view("w")) == []


def test_a_table_that_would_be_wrong_stays(mill):
    with pytest.raises(DataError, match="two rows with primary key id = 1"):
        mill.overwrite("t", [(1, 1), (1, 2)])
    with pytest.raises(BindError, match='cannot overwrite stream "s"'):
        mill.overwrite("s", [(1,)])
    assert sorted(mill.view("v")) == [(10, 1), (20, 2)]
