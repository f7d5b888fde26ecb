"""Bound query -> algebra.

    SELECT a, a + b AS c FROM r WHERE b > 0        Sum[a2, c](R(a, b) * {b > 0} * (a2 := a) * (c := [a + b]))

Law: the expression is closed, its schema is the query's columns, and the weight of a row is the number of times it
occurs in the query's result. Its own ORDER BY and LIMIT are not part of it; they belong to reading the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from viewmill.algebra.build import assign, exists, product, sum_
from viewmill.algebra.nodes import Expr
from viewmill.algebra.scalars import Var
from viewmill.algebra.schema import Names
from viewmill.sql.bound import BoundView, Limited, Query, Select, SetOperation, Values
from viewmill.translate.aggregates import aggregate
from viewmill.translate.check import check
from viewmill.translate.conditions import condition
from viewmill.translate.context import Context
from viewmill.translate.joins import source
from viewmill.translate.limits import limited
from viewmill.translate.rows import Rows, named, project
from viewmill.translate.scalars import value
from viewmill.translate.set_operations import set_operation
from viewmill.translate.variables import variables


@dataclass(frozen=True, slots=True)
class Translated:
    """The query of a view; `columns` are the variables of its columns in order, hidden ones last."""

    expr: Expr
    columns: tuple[str, ...]


def translate(view: BoundView) -> Translated:
    columns = tuple(column.var for column in view.query.columns)
    context = Context(Names(variables(view.query)), rows)
    expr = named(context.rows(view.query), columns)
    check(expr, columns)
    return Translated(expr, columns)


def rows(context: Context, query: Query) -> Rows:
    match query:
        case Select():
            return _select(context, query)
        case SetOperation():
            return set_operation(context, query)
        case Values():
            return _values(context, query)
        case Limited():
            return limited(context, query)
        case _:
            assert_never(query)


def _select(context: Context, select: Select) -> Rows:
    body = product() if select.source is None else source(context, select.source)
    body = product(body, *condition(context, select.where))
    if select.group is not None:
        body = aggregate(context, body, select.group, select.aggregates)
    body = product(body, *condition(context, select.having))
    needs: list[Expr] = []
    columns = tuple(value(context, output.expr, needs) for output in select.outputs)
    result = Rows(product(body, *needs), columns)
    return _distinct(result, select) if select.distinct else result


def _distinct(result: Rows, select: Select) -> Rows:
    outputs = tuple(output.var for output in select.outputs)
    return Rows(exists(named(result, outputs)), tuple(map(Var, outputs)))


def _values(context: Context, query: Values) -> Rows:
    """One term for each row; rows that are equal add up."""
    columns = tuple(column.var for column in query.columns)
    terms: list[Expr] = []
    for row in query.rows:
        needs: list[Expr] = []
        cells = [value(context, cell, needs) for cell in row]
        given = zip(columns, cells, strict=True)
        terms.append(project(product(*needs, *(assign(var, cell) for var, cell in given)), columns))
    return Rows(sum_(terms), tuple(map(Var, columns)))
