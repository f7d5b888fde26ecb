"""From SQL text to bound queries: golden text per construct, laws over every query we have, and TPC-H's types."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from fixture_cases import FIXTURES, cases
from small_schema import small_catalog
from tpch_schema import tpch_catalog

from viewmill.errors import ViewmillError
from viewmill.sql.bind import bind, bind_delete, bind_insert, bind_update
from viewmill.sql.bound import BoundExpr, BoundView, Column, Select, Values
from viewmill.sql.naming import bound_variables
from viewmill.sql.parse import parse_statements
from viewmill.sql.show import show
from viewmill.sql.statements import CreateView, Delete, Insert, Update
from viewmill.sql.statements import Select as SelectStatement
from viewmill.sql.walk import Rewrite

SMALL = small_catalog()
TPCH = tpch_catalog()
TPCH_QUERIES = sorted((FIXTURES / "tpch").glob("q*.sql"))
THEMES = sorted(file.stem for file in (FIXTURES / "bind").glob("*.txt"))


def bind_text(sql: str) -> BoundView:
    """The one statement of the text, bound over the small tables; a query as the view `v`."""
    (statement,) = parse_statements(sql)
    match statement:
        case SelectStatement(query):
            return bind(query, SMALL, "v")
        case CreateView(name, query, columns):
            return bind(query, SMALL, name, columns=columns)
        case Insert():
            return bind_insert(statement, SMALL)
        case Delete():
            return bind_delete(statement, SMALL)
        case Update():
            return bind_update(statement, SMALL)
        case _:
            raise AssertionError(f"nothing to bind in {statement}")


@pytest.mark.parametrize(("given", "expected"), [case for theme in THEMES for case in cases(f"bind/{theme}.txt")])
def test_bound_text(given: str, expected: str) -> None:
    assert show(bind_text(given)) == expected


# --- laws


class _Mentions(Rewrite):
    """Every variable that some expression mentions."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def expr(self, expr: BoundExpr) -> BoundExpr:
        if isinstance(expr, Column):
            self.found.add(expr.var)
        return super().expr(expr)


def check_variables(view: BoundView) -> None:
    counts = Counter(bound_variables(view.query))
    assert [var for var, count in counts.items() if count > 1] == [], "a variable is bound twice"
    mentions = _Mentions()
    mentions.query(view.query)
    assert mentions.found <= set(counts), "a variable is used and never bound"


@pytest.mark.parametrize("theme", THEMES)
def test_every_variable_is_bound_once(theme: str) -> None:
    for case in cases(f"bind/{theme}.txt"):
        check_variables(bind_text(str(case.values[0])))


@pytest.mark.parametrize("file", TPCH_QUERIES, ids=lambda file: file.stem)
def test_tpch_binds(file: Path) -> None:
    view = bind(file.read_text(), TPCH, file.stem)
    check_variables(view)
    names = [column.name for column in view.query.columns][: len(view.query.columns) - view.hidden]
    assert [column.var for column in view.query.columns][: len(names)] == names, "the view's columns keep their names"


# --- types


# The types that Spark 4 gives to the columns of TPC-H over decimal(15,2).
TPCH_TYPES = {
    "q01": "string string decimal(25,2) decimal(25,2) decimal(38,4) decimal(38,6) "
    "decimal(19,6) decimal(19,6) decimal(19,6) bigint",
    "q06": "decimal(38,4)",
    "q08": "int decimal(38,6)",
    "q09": "string int decimal(38,4)",
    "q11": "bigint decimal(36,2)",
    "q12": "string bigint bigint",
    "q14": "decimal(38,6)",
    "q17": "decimal(30,6)",
    "q22": "string bigint decimal(25,2)",
}


@pytest.mark.parametrize("name", TPCH_TYPES)
def test_tpch_types(name: str) -> None:
    view = bind((FIXTURES / "tpch" / f"{name}.sql").read_text(), TPCH)
    assert [str(column.type) for column in view.query.columns] == TPCH_TYPES[name].split()


# --- what callers rely on


def test_insert_values_are_literal_rows() -> None:
    view = bind_text("insert into r values (1, 2), (null, 3)")
    assert isinstance(view.query, Values)
    assert [[value.value for value in row] for row in view.query.rows] == [[1, 2], [None, 3]]  # type: ignore[union-attr]


def test_update_gives_rows_before_and_after() -> None:
    view = bind_text("update r set b = 7 where a = 1")
    assert [column.name for column in view.query.columns] == ["a", "b", "new_a", "new_b"]


def test_a_view_is_read_like_a_table() -> None:
    from viewmill.catalog import ColumnInfo, RelationInfo
    from viewmill.types import BIGINT

    info = RelationInfo("totals", (ColumnInfo("total", BIGINT),), kind="view")
    view = bind("select total + 1 as t from totals", SMALL.with_relation(info))
    assert "table totals(total)" in show(view)


def test_a_query_may_have_columns_of_one_name_and_a_limit_without_order() -> None:
    """Only a view may not."""
    view = bind("select a, a from r limit 3", SMALL)
    assert isinstance(view.query, Select)
    assert view.limit == 3


@pytest.mark.parametrize(
    ("dialect", "sql", "same"),
    [
        ("duckdb", "select a // 2 as x from r", "select a div 2 as x from r"),
        ("postgres", "select a / 2 as x from r", "select a div 2 as x from r"),
        ("postgres", 'select "a" as x from r where b::bigint > 1', "select a as x from r where cast(b as bigint) > 1"),
        (
            "snowflake",
            "select A as X from R where iff(B > 1, true, false)",
            "select a as x from r where if(b > 1, true, false)",
        ),
        ("postgres", "select a from r order by a", "select a from r order by a nulls last"),
    ],
)
def test_other_dialects(dialect: str, sql: str, same: str) -> None:
    assert show(bind(sql, SMALL, dialect=dialect)) == show(bind(same, SMALL))


def test_binding_leaves_the_parsed_query_alone() -> None:
    (statement,) = parse_statements("select a, sum(b) as t from r group by a order by t")
    assert isinstance(statement, SelectStatement)
    assert bind(statement.query, SMALL) == bind(statement.query, SMALL)


def test_errors_are_ours() -> None:
    """Whatever the text, no exception of sqlglot or of Python gets out."""
    words = [
        "select",
        "a",
        "from",
        "r",
        ",",
        "(",
        ")",
        "group by",
        "sum(",
        "*",
        "'",
        "with",
        "lateral",
        "over",
        "1",
        "=",
    ]
    for first in words:
        for second in words:
            for third in words:
                text = f"select {first} {second} {third}"
                try:
                    for statement in parse_statements(text):
                        assert isinstance(statement, SelectStatement)
                        bind(statement.query, SMALL, "v")
                except ViewmillError:
                    pass
