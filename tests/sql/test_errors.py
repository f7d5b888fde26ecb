"""Wrong SQL (`invalid.txt`) and SQL that is refused (`refused.txt`): the whole message, caret and hint included."""

from __future__ import annotations

import pytest
from fixture_cases import cases
from small_schema import small_catalog

from viewmill.errors import BindError, ParseError, UnsupportedError, ViewmillError
from viewmill.sql.bind import bind, bind_delete, bind_insert, bind_update
from viewmill.sql.parse import parse_statements
from viewmill.sql.partition import partition_columns
from viewmill.sql.statements import CreateTable, CreateView, Delete, Drop, Explain, Insert, Select, Update

SMALL = small_catalog()


def run(sql: str) -> None:
    """Parse every statement and bind it, as a session would."""
    for statement in parse_statements(sql):
        match statement:
            case Select(query):
                bind(query, SMALL, "v")
            case CreateView(name, query, columns, partition):
                bound = bind(query, SMALL, name, columns=columns)
                partition_columns(partition, [column.name for column in bound.query.columns], f'view "{name}"')
            case Insert():
                bind_insert(statement, SMALL)
            case Delete():
                bind_delete(statement, SMALL)
            case Update():
                bind_update(statement, SMALL)
            case CreateTable() | Drop() | Explain():
                pass


def message(sql: str) -> str:
    with pytest.raises(ViewmillError) as caught:
        run(sql)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(("given", "expected"), cases("sql/refused.txt"))
def test_refused(given: str, expected: str) -> None:
    assert message(given) == expected
    assert expected.startswith(UnsupportedError.__name__)


@pytest.mark.parametrize(("given", "expected"), cases("sql/invalid.txt"))
def test_invalid(given: str, expected: str) -> None:
    assert message(given) == expected
    assert expected.startswith((ParseError.__name__, BindError.__name__))


def test_a_view_is_not_changed_by_hand() -> None:
    from viewmill.catalog import ColumnInfo, RelationInfo
    from viewmill.types import INT

    catalog = SMALL.with_relation(RelationInfo("w", (ColumnInfo("a", INT),), kind="view"))
    (statement,) = parse_statements("insert into w values (1)")
    assert isinstance(statement, Insert)
    with pytest.raises(BindError, match="is a view"):
        bind_insert(statement, catalog)


def test_unknown_dialect() -> None:
    with pytest.raises(UnsupportedError, match='unknown SQL dialect "klingon"'):
        bind("select 1", SMALL, dialect="klingon")
