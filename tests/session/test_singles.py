"""Single rows take a quick way into a compiled mill. It does, and says, what the general way does.

Two mills are given the same changes, one of them in batches, and must agree on everything: what is refused and why, the
rows that are kept, to the bit, and the views.
"""

from __future__ import annotations

import math
import sys
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewmill
from viewmill.errors import ViewmillError

SQL = """
CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(6, 2), b STRING NOT NULL, c DOUBLE,
    d DATE, e DECIMAL(4, 0), f BOOLEAN, g STRING);
CREATE TABLE bag (a DECIMAL(6, 2), b STRING);
CREATE TABLE trusted (a DECIMAL(6, 2), b STRING, c INT NOT NULL, d DECIMAL(4, 1), e STRING) WITH (stored = false);
CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n, sum(a) AS s, max(c) AS m FROM t GROUP BY b;
CREATE MATERIALIZED VIEW w AS SELECT a, b, count(*) AS n FROM bag GROUP BY a, b;
CREATE MATERIALIZED VIEW x AS SELECT a, b, count(*) AS n FROM trusted GROUP BY a, b
"""
DECIMALS = [
    Decimal(text) for text in "0 0.00 -0.00 -0 1.5 1.50 1.500 1.505 -7.25 9999.99 10000 1E+2 NaN sNaN Infinity".split()
]
TEXTS = ["", "x", "naïve", "\ud800", "2024-01-31"]
ODD = [
    np.array([1, 2]),
    None,
    0,
    1,
    True,
    1.0,
    1.5,
    -0.0,
    math.nan,
    2**31,
    b"x",
    [1],
    date(2024, 1, 31),
    datetime(2024, 1, 31),
    *DECIMALS,
    *TEXTS,
]
USUAL = (
    st.integers(0, 3),
    st.sampled_from(DECIMALS[:9]),
    st.sampled_from(TEXTS[:3]),
    st.sampled_from([0.0, -0.0, 2.5, None]),
    st.sampled_from([date(2024, 1, 31), None]),
    st.sampled_from([Decimal(7), Decimal("-3")]),
    st.booleans(),
    st.sampled_from(TEXTS[:3]),
)


@st.composite
def rows(draw, width):
    row = [draw(values) for values in USUAL[:width]]
    if draw(st.booleans()):
        row[draw(st.integers(0, width - 1))] = draw(st.sampled_from(ODD))
    if draw(st.integers(0, 9)) == 0:
        row = row[:-1]
    return row


def changes():
    verbs = st.sampled_from(["insert", "insert", "delete", "update"])
    whole = st.tuples(verbs, st.just("t"), rows(len(USUAL)).map(tuple))
    keys = st.one_of(st.integers(0, 3), st.integers(0, 3), st.sampled_from(ODD))
    named = st.sampled_from(["id", "id", "id", "ID", "a"])
    by_key = st.tuples(st.just("delete"), st.just("t"), st.dictionaries(named, keys, max_size=2))
    bag = st.tuples(verbs, st.just("bag"), rows(3).map(lambda row: tuple(row[1:])))
    others = st.tuples(st.sampled_from([1, 2, *ODD]), st.sampled_from(DECIMALS), st.sampled_from(ODD))
    fed = st.tuples(rows(3), others).map(lambda pair: (*pair[0][1:], *pair[1]))
    trusted = st.tuples(verbs, st.just("trusted"), fed)
    return st.lists(st.one_of(whole, whole, by_key, bag, trusted), max_size=30)


def new_mill() -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(SQL)
    mill.insert("t", [(9, 1, "z", 0.5, None, 1, True, "z")])
    return mill


def outcome(change):
    try:
        change()
    except ViewmillError as error:
        return error.message
    return None


@settings(max_examples=40)
@given(changes())
def test_both_ways_agree(changes):
    quick, general = new_mill(), new_mill()
    for verb, table, row in changes:

        def in_a_batch(verb=verb, table=table, row=row):
            with general.batch() as batch:
                getattr(batch, verb)(table, [row])

        assert outcome(partial(getattr(quick, verb), table, [row])) == outcome(in_a_batch)
    for name in ("t", "bag"):
        assert repr(quick._definitions.tables[name].rows) == repr(general._definitions.tables[name].rows)
        assert quick._definitions.tables[name].by_key == general._definitions.tables[name].by_key
    for name in ("v", "w", "x"):
        assert repr(sorted(quick.view(name), key=repr)) == repr(sorted(general.view(name), key=repr))
    assert quick.version == general.version


def test_the_quick_way_is_taken(executor):
    mill = new_mill()
    if executor == "interpreted":
        assert not mill._quick  # nothing is compiled
        return
    single, row = mill._quick["t"], (1, Decimal("1.50"), "é", 2.5, None, Decimal(7), False, None)
    assert single([row], 1)
    assert not single([row], 1)  # the key is there
    assert single([row], -1)
    assert not single([row], -1)
    assert not single([(1, Decimal("1.5"), *row[2:])], 1)
    assert not single([(*row[:7], "\ud800")], 1)
    assert single([row], 1)
    assert not single([row], 0)  # nothing changes
    assert single([(1, Decimal("2.50"), *row[2:])], 0)
    assert sorted(mill.view("v")) == [("z", 1, 1, 0.5), ("é", 1, Decimal("2.50"), 2.5)]
    assert not single([{"id": True}], -1)
    assert single([{"id": 1}], -1)
    assert list(mill.view("v")) == [("z", 1, 1, 0.5)]
    assert mill._quick["trusted"]([(None, "x", 1, None, "y")], 1)
    assert not mill._quick["trusted"]([(None, "x", 1, None, "y")], 0)
    assert not mill._quick["trusted"]([(None, "x", None, None, "y")], 1)
    assert not mill._quick["trusted"]([(None, "x", 1, None, 5)], 1)


def test_a_row_that_makes_a_view_fail_is_refused():
    """It is not there, nor is the row gone that it would have replaced."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(10 div a) AS s FROM t")
    mill.insert("t", [(1, 5)])
    for change in (mill.insert, mill.update):
        assert "zero" in (outcome(partial(change, "t", [(1 if change == mill.update else 2, 0)])) or "")
        assert list(mill.view("v")) == [(2,)]
        assert list(mill.sql("SELECT * FROM t")) == [(1, 5)]


@pytest.mark.parametrize("maintain", ["recursive", "first_order", "auto"])
def test_the_engine_may_be_another_after_a_batch(maintain):
    """A batch that fails on the way to its end is taken by a new engine, which single rows have to reach."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT)")
    mill.sql(
        f"CREATE MATERIALIZED VIEW v WITH (maintain = '{maintain}') AS "
        "SELECT a, (SELECT c FROM s WHERE s.b = r.b) AS x FROM r"
    )
    mill.insert("r", [(1, 1), (2, 2)])
    mill.insert("s", [(1, 6)])
    before = mill._engine
    with mill.batch() as batch:
        batch.insert("s", [(1, 7)])  # for a moment, there are two for a row of r
        batch.delete("r", [(1, 1)])
    mill.insert("r", [(3, 3)])
    mill.insert("s", [(3, 9)])
    assert sorted(mill.view("v"), key=repr) == [(2, None), (3, 9)]
    assert mill.verify("v")
    assert before is not mill._engine


def test_rows_from_several_threads():
    """Nobody has a batch open, so nothing comes in between: also not for rows that go the general way."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (id INT PRIMARY KEY, a DOUBLE)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, count(a) AS m FROM t")
    errors = []

    def insert(first: int) -> None:
        for key in range(first, first + 300):
            try:
                mill.insert("t", [(key, None if key % 2 else 0.5)])  # a NULL among doubles is for the general way
            except Exception as error:
                errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [Thread(target=insert, args=(1000 * number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors
    assert list(mill.view("v")) == [(900, 450)]
