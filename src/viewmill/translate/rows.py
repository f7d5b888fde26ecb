"""The rows of a query before its columns have variables.

    SELECT a + 1, b FROM r        Rows(R(a, b), columns [a + 1], [b])

Who reads the query decides what becomes of the columns: a view gives them names, `IN` compares them,
`EXISTS` does not look at them. So no column is computed only to be thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra import scalars
from viewmill.algebra.build import agg_sum, assign, product
from viewmill.algebra.nodes import Expr, Lift
from viewmill.algebra.scalars import Scalar, Var
from viewmill.algebra.schema import Names, schema


@dataclass(frozen=True, slots=True)
class Rows:
    """A row for each row of `expr`, as often as it weighs; `columns` are computed from its variables."""

    expr: Expr
    columns: tuple[Scalar, ...]


def named(rows: Rows, variables: tuple[str, ...]) -> Expr:
    """The rows as an expression whose schema is `variables`, one for each column."""
    given = zip(variables, rows.columns, strict=True)
    computed = product(rows.expr, *(assign(var, column) for var, column in given if column != Var(var)))
    return project(computed, variables)


def project(expr: Expr, variables: tuple[str, ...]) -> Expr:
    """The expression with exactly `variables` as its schema, in this order."""
    return expr if schema(expr) == variables else agg_sum(variables, expr)


def copy(names: Names, rows: Rows) -> Rows:
    """The same rows under other names; variables from outside keep theirs."""
    expr, given = names.apart(rows.expr)
    values: dict[str, Scalar] = {old: Var(new) for old, new in given.items()}
    return Rows(expr, tuple(scalars.substitute(column, values) for column in rows.columns))


def count_matching(names: Names, rows: Rows, variables: tuple[str, ...]) -> Lift:
    """`(count := Sum[](rows * (column := variable) ...))`: how often the row `variables` occurs, NULL being NULL."""
    pairs = zip(rows.columns, variables, strict=True)
    matches = [factor for column, var in pairs for factor in _match(names, rows.expr, column, var)]
    return Lift(names.fresh("count"), agg_sum((), product(rows.expr, *matches)))


def _match(names: Names, expr: Expr, column: Scalar, var: str) -> tuple[Expr, ...]:
    # A column that `expr` does not produce belongs to an outer query: to assign it would hide the outer one.
    if isinstance(column, Var) and column.name in schema(expr):
        return (assign(column.name, Var(var)),)
    local = names.fresh(var)
    return assign(local, column), assign(local, Var(var))
