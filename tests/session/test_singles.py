"""Single rows take a quick way into a compiled mill. It does, and says, what the general way does.

A row as a tuple goes the quick way, as a list the general one. Two mills are given the same rows, and must agree on
everything: what is refused and why, the rows that are kept, to the bit, and the views.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

import viewmill
from viewmill.errors import DataError

SQL = """
CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(6, 2), b STRING NOT NULL, c DOUBLE,
    d DATE, e DECIMAL(4, 0), f BOOLEAN, g STRING);
CREATE TABLE bag (a DECIMAL(6, 2), b STRING);
CREATE TABLE trusted (a DECIMAL(6, 2), b STRING) WITH (stored = false);
CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n, sum(a) AS s, max(c) AS m FROM t GROUP BY b;
CREATE MATERIALIZED VIEW w AS SELECT a, b, count(*) AS n FROM bag GROUP BY a, b;
CREATE MATERIALIZED VIEW x AS SELECT a, b, count(*) AS n FROM trusted GROUP BY a, b
"""
DECIMALS = [
    Decimal(text) for text in "0 0.00 -0.00 -0 1.5 1.50 1.500 1.505 -7.25 9999.99 10000 1E+2 NaN sNaN Infinity".split()
]
TEXTS = ["", "x", "naïve", "\ud800", "2024-01-31"]
ODD = [
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
    bag = rows(3).map(lambda row: row[1:])
    given_to = st.tuples(st.just("t"), rows(len(USUAL))) | st.tuples(st.sampled_from(["bag", "trusted"]), bag)
    return st.lists(st.tuples(st.sampled_from(["insert", "insert", "delete"]), given_to), max_size=25)


def new_mill() -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(SQL)
    mill.insert("t", [(9, 1, "z", 0.5, None, 1, True, "z")])
    return mill


def outcome(change, table, row):
    try:
        change(table, [row])
    except DataError as error:
        return error.message
    return None


@settings(max_examples=30)
@given(changes())
def test_both_ways_agree(changes):
    quick, general = new_mill(), new_mill()
    for verb, (table, row) in changes:
        said = outcome(getattr(quick, verb), table, tuple(row))
        assert said == outcome(getattr(general, verb), table, row)
    for name in ("t", "bag"):
        assert repr(quick._definitions.tables[name].rows) == repr(general._definitions.tables[name].rows)
        assert quick._definitions.tables[name].by_key == general._definitions.tables[name].by_key
    for name in ("v", "w", "x"):
        assert repr(sorted(quick.view(name), key=repr)) == repr(sorted(general.view(name), key=repr))
    assert quick.version == general.version


def test_the_quick_way_is_taken(executor):
    mill = new_mill()
    if executor == "interpreted":
        assert not mill._singles  # nothing is compiled
        return
    single, row = mill._singles["t"], (1, Decimal("1.50"), "é", 2.5, None, Decimal(7), False, None)
    assert single([row], 1)
    assert not single([row], 1)  # the key is there
    assert single([row], -1)
    assert not single([row], -1)
    assert not single([(1, Decimal("1.5"), *row[2:])], 1)
    assert not single([(*row[:7], "\ud800")], 1)
