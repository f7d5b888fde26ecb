"""Readable variables. While a query is bound they are `name#7`, unique but ugly; here they become `name`, `name_2`.

The view's own columns are named first, so that they keep their names all the way down to the stores; then, from the
outer query inwards, what they are made of. In `SELECT a FROM r` the output is `a` and the field of r is `a_2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from viewmill.algebra.schema import Names
from viewmill.sql.bound import (
    BoundExpr,
    BoundView,
    Derived,
    ExistsQuery,
    InQuery,
    Join,
    Limited,
    Query,
    ScalarQuery,
    Select,
    SetOperation,
    Source,
    Table,
    Values,
)
from viewmill.sql.walk import Rewrite, parts_of

_LONGEST = 32


class _Rename(Rewrite):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def var(self, var: str) -> str:
        return self.names[var]


def name_variables(view: BoundView) -> BoundView:
    fresh = Names()
    names = {var: fresh.fresh(_readable(var)) for var in dict.fromkeys(bound_variables(view.query))}
    return BoundView(_Rename(names).query(view.query), view.hidden, view.order, view.limit, view.offset)


def _readable(var: str) -> str:
    """`sum((a * b))#3` gives `sum_a_b`."""
    words = re.sub(r"\W+", "_", var.rpartition("#")[0].lower()).strip("_")[:_LONGEST].strip("_")
    return words if words and not words[0].isdigit() else f"x_{words}".strip("_")


def bound_variables(query: Query) -> Iterator[str]:
    """Every variable that the query binds, in the order in which names are given."""
    match query:
        case Select():
            yield from (output.var for output in query.outputs)
            if query.source is not None:
                yield from _source(query.source)
            yield from (key.var for key in query.group or ())
            yield from (aggregate.var for aggregate in query.aggregates)
            yield from _subqueries(query)
        case SetOperation():
            yield from (field.var for field in query.columns)
            yield from bound_variables(query.left)
            yield from bound_variables(query.right)
        case Values():
            yield from (field.var for field in query.columns)
            for row in query.rows:
                for cell in row:
                    yield from inner_variables(cell)
        case Limited():
            yield from bound_variables(query.query)


def _source(source: Source) -> Iterator[str]:
    match source:
        case Table():
            yield from (field.var for field in source.fields)
        case Derived():
            yield from bound_variables(source.query)
        case Join():
            yield from _source(source.left)
            yield from _source(source.right)
            yield from inner_variables(source.on)


def _subqueries(select: Select) -> Iterator[str]:
    yield from inner_variables(select.where)
    for key in select.group or ():
        yield from inner_variables(key.expr)
    for aggregate in select.aggregates:
        yield from inner_variables(aggregate.arg)
        yield from inner_variables(aggregate.filter)
    yield from inner_variables(select.having)
    for output in select.outputs:
        yield from inner_variables(output.expr)


def inner_variables(expr: BoundExpr | None) -> Iterator[str]:
    """The variables of the subqueries in an expression."""
    for part in parts_of(expr) if expr is not None else ():
        if isinstance(part, ScalarQuery | ExistsQuery | InQuery):
            yield from bound_variables(part.query)
