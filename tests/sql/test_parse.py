"""Statements of a script: what is created, dropped, asked for, with which options."""

from __future__ import annotations

import pytest

from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.sql.parse import parse_statements
from viewmill.sql.statements import CreateTable, CreateView, Delete, Drop, Explain, Insert, Select, Statement, Update
from viewmill.types import BIGINT, INT, STRING, decimal


def only(sql: str) -> Statement:
    (statement,) = parse_statements(sql)
    return statement


def test_create_table() -> None:
    statement = only(
        "CREATE TABLE IF NOT EXISTS Orders (id BIGINT PRIMARY KEY, price DECIMAL(15, 2) NOT NULL, note VARCHAR(9))"
    )
    assert isinstance(statement, CreateTable)
    assert statement.if_not_exists
    assert statement.info == RelationInfo(
        "orders",
        (ColumnInfo("id", BIGINT, False), ColumnInfo("price", decimal(15, 2), False), ColumnInfo("note", STRING)),
        primary_key=("id",),
    )


def test_primary_key_of_several_columns() -> None:
    statement = only("create table t (b int, a int, c int, primary key (a, b))")
    assert isinstance(statement, CreateTable)
    assert statement.info.primary_key == ("a", "b")
    assert [column.nullable for column in statement.info.columns] == [False, False, True]


@pytest.mark.parametrize(
    ("sql", "kind", "stored"),
    [
        ("create table t (a int)", "table", True),
        ("create table t (a int) with (stored = false)", "table", False),
        ("create stream t (a int)", "stream", False),
        ("create foreign table t (a int) server stream", "stream", False),
    ],
)
def test_kinds_of_relations(sql: str, kind: str, stored: bool) -> None:
    statement = only(sql)
    assert isinstance(statement, CreateTable)
    assert statement.info == RelationInfo("t", (ColumnInfo("a", INT),), kind=kind, stored=stored)  # type: ignore[arg-type]


def test_options_stand_before_and_after_the_query() -> None:
    statement = only(
        "create materialized view v with (maintain = 'recursive') as\n"
        "with z as (select a from r) select a from z\n"
        "with (refresh = 'on commit', memory = '512MB', retries = 3, eager = true)"
    )
    assert isinstance(statement, CreateView)
    assert {option.name: option.value for option in statement.options} == {
        "maintain": "recursive",
        "refresh": "on commit",
        "memory": "512MB",
        "retries": 3,
        "eager": True,
    }
    assert statement.query.text == "with z as (select a from r) select a from z"


def test_view_words() -> None:
    statement = only("create or replace materialized view if not exists V (x, Y) as select 1, 2")
    assert isinstance(statement, CreateView)
    assert (statement.name, statement.columns) == ("v", ("x", "y"))
    assert statement.or_replace and statement.if_not_exists


@pytest.mark.parametrize(
    ("sql", "kind", "if_exists"),
    [
        ("drop table t", "table", False),
        ("drop stream t", "stream", False),
        ("drop foreign table if exists t", "stream", True),
        ("drop view t", "view", False),
        ("drop materialized view if exists t", "view", True),
    ],
)
def test_drop(sql: str, kind: str, if_exists: bool) -> None:
    statement = only(sql)
    assert isinstance(statement, Drop)
    assert (statement.kind, statement.name, statement.if_exists) == (kind, "t", if_exists)


def test_a_script() -> None:
    kinds = [
        type(statement)
        for statement in parse_statements(
            """
        create table r (a int);  -- a comment; with a semicolon
        insert into r values (1), (2);
        update r set a = 3 where a = 1;
        delete from r where a = 2;;
        select ';' as x from r;
        explain select a from r where a = ';';
        explain program v;
        drop table r
        """
        )
    ]
    assert kinds == [CreateTable, Insert, Update, Delete, Select, Explain, Explain, Drop]


def test_explain_says_what_and_how_far() -> None:
    by_name, by_query = parse_statements("explain program V; explain select a\nfrom r")
    assert isinstance(by_name, Explain) and isinstance(by_query, Explain)
    assert (by_name.target, by_name.stage) == ("v", "program")
    assert not isinstance(by_query.target, str) and by_query.target.text == "select a\nfrom r"
    assert by_query.stage is None


def test_spans_point_into_the_script() -> None:
    script = "create table r (a int);\n\ncreate table s (b int)"
    _, second = parse_statements(script)
    assert isinstance(second, CreateTable)
    assert script[second.span.start : second.span.end] == "s"
    assert second.span.caret() == "  LINE 3: create table s (b int)\n                       ^"


def test_quoted_names() -> None:
    statement = only("create table `order lines` (`line no` int)")
    assert isinstance(statement, CreateTable)
    assert (statement.info.name, statement.info.names) == ("order lines", ("line no",))


def test_nothing() -> None:
    assert parse_statements(" ; -- nothing\n") == []


@pytest.mark.parametrize("words", ["partition by", "PARTITIONED BY", "Partition\n  By"])
def test_partition_by(words: str) -> None:
    table, stream, view = parse_statements(
        f"create table t (a int, B int) {words} (b, A) with (stored = false);"
        f"create foreign table s (a int) server stream {words} (a);"
        f"create materialized view v (x, y) {words} (Y) with (maintain = 'auto') as select a, b from t"
    )
    assert isinstance(table, CreateTable) and isinstance(stream, CreateTable) and isinstance(view, CreateView)
    assert (table.info.partition_by, table.info.stored) == (("b", "a"), False)
    assert stream.info.partition_by == ("a",)
    assert [column.name for column in view.partition_by] == ["y"]
    assert view.options[0].value == "auto"


def test_partition_by_is_left_to_us() -> None:
    table, view = parse_statements("create table t (a int); create materialized view v as select a from t")
    assert isinstance(table, CreateTable) and isinstance(view, CreateView)
    assert table.info.partition_by == () and view.partition_by == ()
