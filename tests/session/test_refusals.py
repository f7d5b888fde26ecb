"""Every mistake gets one clear line that names the thing, and nothing changes."""

from __future__ import annotations

import pytest

import viewmill
from viewmill import BindError, DataError, ParseError, UnsupportedError

SETUP = """
CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b STRING);
CREATE TABLE bag (a INT);
CREATE STREAM s (a INT);
CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a;
CREATE MATERIALIZED VIEW w AS SELECT sum(n) AS total FROM v;
CREATE MATERIALIZED VIEW few AS SELECT a FROM bag ORDER BY a LIMIT 1
"""

SQL = [
    ("CREATE TABLE t (x INT)", BindError, 'the name "t" is taken by a table'),
    ("CREATE TABLE v (x INT)", BindError, 'the name "v" is taken by a view'),
    ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS x", BindError, 'the name "t" is taken by a table'),
    ("CREATE MATERIALIZED VIEW V AS SELECT 1 AS x", BindError, 'the name "v" is taken by a view'),
    ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 AS x", BindError, 'cannot replace view "v": view "w" needs it'),
    ("CREATE MATERIALIZED VIEW x AS SELECT nope FROM t", BindError, "nope"),
    ("CREATE MATERIALIZED VIEW x AS SELECT a FROM nope", BindError, "nope"),
    ("CREATE MATERIALIZED VIEW x (p, q) AS SELECT a FROM t", BindError, "2 names are given to 1 columns"),
    (
        "CREATE MATERIALIZED VIEW x WITH (maintain = 'incremental') AS SELECT a FROM few",
        UnsupportedError,
        'a change of "few" would re-evaluate it, because which rows of "few" are within a LIMIT depends on all of them',
    ),
    ("CREATE MATERIALIZED VIEW x WITH (maintain = 'recursiv') AS SELECT a FROM t", BindError, "'recursiv' is unknown"),
    ("CREATE MATERIALIZED VIEW x WITH (maintian = 'auto') AS SELECT a FROM t", BindError, 'unknown option "maintian"'),
    ("CREATE MATERIALIZED VIEW x WITH (refresh = 'on read') AS SELECT a FROM t", UnsupportedError, "not there yet"),
    ("CREATE MATERIALIZED VIEW x WITH (refresh = 'soon') AS SELECT a FROM t", BindError, "refresh = 'soon' is unknown"),
    ("CREATE MATERIALIZED VIEW x WITH (memory = '1GB') AS SELECT a FROM t", UnsupportedError, "not there yet"),
    ("CREATE MATERIALIZED VIEW x PARTITION BY (b) AS SELECT a FROM t", BindError, 'view "x" has no column "b"'),
    (
        "CREATE MATERIALIZED VIEW x PARTITION BY (a, n) AS SELECT a, count(*) AS n FROM t GROUP BY a",
        UnsupportedError,
        'cannot partition view "x" by "n": it is computed',
    ),
    ("CREATE TABLE x (a INT) WITH (kept = false)", BindError, 'unknown option "kept"'),
    ("DROP TABLE t", BindError, 'cannot drop table "t": view "v" needs it'),
    ("DROP VIEW v", BindError, 'cannot drop view "v": view "w" needs it'),
    ("DROP TABLE nope", BindError, 'there is no table "nope"'),
    ("DROP VIEW t", BindError, '"t" is a table, not a view'),
    ("DROP TABLE w", BindError, '"w" is a view, not a table'),
    ("SELEC 1", ParseError, "SELEC"),
    ("SELECT a FROM nope", BindError, "nope"),
    ("SELECT a FROM s", UnsupportedError, 'the rows of stream "s" are not kept'),
    ("INSERT INTO v VALUES (1, 2)", BindError, '"v" is a view'),
    ("INSERT INTO nope VALUES (1)", BindError, "nope"),
    ("INSERT INTO t VALUES (1, 2)", BindError, "column"),
    ("INSERT INTO t (id, a, b, A) VALUES (2, 2, 'x', 3)", BindError, 'column "a" is named twice'),
    ("INSERT INTO t VALUES (1, NULL, 'x')", DataError, 'NULL in column "a" of table "t"'),
    ("INSERT INTO t VALUES (1, 5, 'x')", DataError, "two rows with primary key id = 1"),
    ("UPDATE t SET a = 3000000000", BindError, "3000000000 does not fit int"),
    ("UPDATE t SET a = a * 1000000000", DataError, "does not fit int"),
    ("UPDATE t SET id = 7", DataError, "two rows with primary key id = 7"),
    ("DELETE FROM s", UnsupportedError, 'the rows of stream "s" are not kept'),
    ("CREATE TABLE fine (a INT); CREATE TABLE t (a INT); CREATE TABLE later (a INT)", BindError, "is taken"),
]

DATA = [
    ("insert", "nope", [(1,)], BindError, 'there is no table "nope"'),
    ("insert", "v", [(1, 2)], BindError, 'cannot insert into view "v": a view is filled by its query'),
    ("delete", "v", [(1, 2)], BindError, 'cannot delete from view "v"'),
    ("insert", "t", [(1, 5)], DataError, 'table "t" has 3 columns, and a row has 2 values: (1, 5)'),
    ("insert", "t", [(3, "x", "y")], DataError, "'x' is not an int: column \"a\" of table \"t\", row (3, 'x', 'y')"),
    ("insert", "t", [(3, 2**31, "y")], DataError, "is out of range for int"),
    ("insert", "t", [(3, 1.5, "y")], DataError, "1.5 is not an int"),
    ("insert", "t", [(3, None, "y")], DataError, 'NULL in column "a" of table "t"'),
    ("insert", "t", [(None, 1, "y")], DataError, 'NULL in column "id" of table "t"'),
    ("insert", "t", [(4, 1, "y"), (3, 2, "y"), (3, 3, "y")], DataError, "two rows with primary key id = 3"),
    ("insert", "t", [(1, 9, "y")], DataError, "two rows with primary key id = 1: (1, 5, 'x') and (1, 9, 'y')"),
    ("insert", "t", [{"id": 3, "a": 1}], DataError, 'a row for table "t" lacks column "b"'),
    ("insert", "t", [{"id": 3, "a": 1, "b": "x", "c": 1}], DataError, 'table "t" has no column "c"'),
    ("delete", "t", [(1, 5, "other")], DataError, "a row that is not there: (1, 5, 'other')"),
    ("delete", "t", [{"id": 9}], DataError, "no row has primary key id = 9"),
    ("delete", "bag", [(1,)], DataError, 'cannot delete from table "bag" a row that is not there: (1,)'),
    ("delete", "bag", [(7,), (7,)], DataError, "a row that is not there"),
    ("update", "t", [(9, 1, "x")], DataError, 'cannot update table "t": no row has primary key id = 9'),
    ("update", "bag", [(7,)], BindError, 'cannot update table "bag": it has no primary key'),
    ("update", "s", [(7,)], BindError, 'cannot update stream "s"'),
]


def snapshot(mill):
    contents = {name: sorted(mill.sql(f"SELECT * FROM {name}"), key=str) for name in ("t", "bag", *mill.views)}
    return mill.version, sorted(mill.tables), sorted(mill.views), contents, mill.explain("v"), str(mill.status())


@pytest.fixture
def mill():
    mill = viewmill.connect()
    mill.sql(SETUP)
    mill.insert("t", [(1, 5, "x"), (2, 5, None)])
    mill.insert("bag", [(7,)])
    return mill


def refused(mill, act, error, message):
    before = snapshot(mill)
    with pytest.raises(error) as caught:
        act()
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert snapshot(mill) == before
    mill.insert("t", [(50, 5, "still works")])
    assert all(mill.verify(name) for name in mill.views)


@pytest.mark.parametrize(("statement", "error", "message"), SQL[:-1], ids=lambda item: str(item))
def test_sql(mill, statement, error, message):
    refused(mill, lambda: mill.sql(statement), error, message)


def test_statements_before_the_refused_one_stay(mill):
    with pytest.raises(BindError):
        mill.sql(SQL[-1][0])
    assert "fine" in mill.tables and "later" not in mill.tables


@pytest.mark.parametrize(("verb", "table", "rows", "error", "message"), DATA, ids=lambda item: str(item))
def test_data(mill, verb, table, rows, error, message):
    refused(mill, lambda: getattr(mill, verb)(table, rows), error, message)


def test_refused_data_in_a_batch(mill):
    def act():
        with mill.batch() as batch:
            batch.insert("bag", [(1,)])
            batch.insert("t", [(7, None, None)])

    refused(mill, act, DataError, 'NULL in column "a"')


def test_unknown_views_and_stages(mill):
    for act in (mill.view, mill.explain, mill.verify):
        with pytest.raises(BindError, match='there is no view "x"'):
            act("x")
    with pytest.raises(BindError, match='there is no stage "progam"') as caught:
        mill.explain("v", stage="progam")
    assert caught.value.hint == 'did you mean "program"?'


def test_a_handle_of_a_dropped_view_says_so(mill):
    view = mill.view("w")
    mill.sql("DROP VIEW w; DROP VIEW v; DROP TABLE t")
    with pytest.raises(BindError, match='there is no view "w"'):
        view.to_arrow()
    mill.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    assert list(mill.view("v")) == []


def test_if_exists_and_if_not_exists(mill):
    mill.sql("""
        DROP TABLE IF EXISTS nope; DROP VIEW IF EXISTS nope;
        CREATE TABLE IF NOT EXISTS t (z INT); CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1 AS x;
        CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT max(n) AS most FROM v
    """)
    assert mill.tables["t"].names == ("id", "a", "b")
    assert mill.view("w").to_dicts() == [{"most": 2}]
