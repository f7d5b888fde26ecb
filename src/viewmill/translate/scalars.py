"""Bound expression -> scalar, with the factors that compute its subqueries.

    a > (SELECT max(b) FROM s)        a > max,  needing  (max := max b of S(b))

A scalar cannot hold a query. Each subquery is replaced by a variable (or a formula of variables), and what defines
the variable is added to `needs`. Every need is total, one value for each binding of its inputs, so that
multiplying an expression by it changes no weight.
"""

from __future__ import annotations

from typing import assert_never

from viewmill.algebra import scalars
from viewmill.algebra.nodes import Expr
from viewmill.algebra.scalars import Const, Scalar, Var
from viewmill.sql.bound import BoundExpr, Call, Cast, Column, ExistsQuery, InQuery, Literal, ScalarQuery
from viewmill.translate.context import Context
from viewmill.translate.formulas import is_positive
from viewmill.translate.subqueries import Membership, Needle, count_rows, single_value


def value(context: Context, expr: BoundExpr, needs: list[Expr]) -> Scalar:
    """The scalar for `expr`, NULLs included; factors that define its variables are added to `needs`."""
    match expr:
        case Column(var):
            return Var(var)
        case Literal(constant):
            return Const(constant)
        case Call(op, args):
            return scalars.Call(op, tuple(value(context, arg, needs) for arg in args))
        case Cast(arg, type_):
            return scalars.Cast(value(context, arg, needs), type_)
        case ScalarQuery(query):
            return single_value(context, query, needs)
        case ExistsQuery(query):
            return is_positive(count_rows(context, query, needs))
        case InQuery():
            return membership(context, expr, needs).value()
        case _:
            assert_never(expr)


def membership(context: Context, expr: InQuery, needs: list[Expr]) -> Membership:
    needles = tuple(Needle(value(context, needle, needs), needle.nullable) for needle in expr.needles)
    nullable = tuple(column.nullable for column in expr.query.columns)
    return Membership(context.names, needles, context.rows(expr.query), nullable, needs)
