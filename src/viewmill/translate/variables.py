"""Every variable of a bound query, so that new names can be kept apart from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from viewmill.sql.bound import (
    BoundExpr,
    Call,
    Cast,
    Column,
    Derived,
    ExistsQuery,
    InQuery,
    Join,
    Literal,
    Query,
    ScalarQuery,
    Select,
    SetOperation,
    Source,
    Table,
    Values,
)


def variables(query: Query) -> frozenset[str]:
    return frozenset(_of_query(query))


def _of_query(query: Query) -> Iterator[str]:
    yield from (column.var for column in query.columns)
    match query:
        case Select():
            yield from _of_select(query)
        case SetOperation(_, _, left, right, _):
            yield from _of_query(left)
            yield from _of_query(right)
        case Values(rows, _):
            for row in rows:
                yield from _of_exprs(*row)
        case _:
            assert_never(query)


def _of_select(select: Select) -> Iterator[str]:
    if select.source is not None:
        yield from _of_source(select.source)
    for key in select.group or ():
        yield key.var
        yield from _of_exprs(key.expr)
    for each in select.aggregates:
        yield each.var
        yield from _of_exprs(each.arg, each.filter)
    yield from _of_exprs(select.where, select.having, *(output.expr for output in select.outputs))


def _of_source(source: Source) -> Iterator[str]:
    match source:
        case Table(_, _, fields):
            yield from (field.var for field in fields)
        case Derived(query, _):
            yield from _of_query(query)
        case Join(_, left, right, on):
            yield from _of_source(left)
            yield from _of_source(right)
            yield from _of_exprs(on)
        case _:
            assert_never(source)


def _of_exprs(*exprs: BoundExpr | None) -> Iterator[str]:
    for expr in exprs:
        match expr:
            case None | Literal():
                pass
            case Column(var):
                yield var
            case Call(_, args):
                yield from _of_exprs(*args)
            case Cast(arg, _):
                yield from _of_exprs(arg)
            case ScalarQuery(query) | ExistsQuery(query):
                yield from _of_query(query)
            case InQuery(needles, query):
                yield from _of_exprs(*needles)
                yield from _of_query(query)
            case _:
                assert_never(expr)
