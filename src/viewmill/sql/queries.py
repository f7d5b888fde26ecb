"""The rows of a query of any shape: SELECT, set operations, VALUES, parentheses; and CTEs."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sqlglot import exp

from viewmill.errors import BindError
from viewmill.sql import operators
from viewmill.sql.bound import BoundExpr, Field, Query, SetOperation, Values
from viewmill.sql.expressions import Expressions
from viewmill.sql.retype import with_types
from viewmill.sql.scope import Context, Cte, Env, Scope
from viewmill.sql.selects import bind_select
from viewmill.sql.types import common_type


def bind_unordered(context: Context, tree: exp.Expr, env: Env) -> Query:
    """A query without its WITH, ORDER BY and LIMIT."""
    match tree:
        case exp.Select():
            return bind_select(context, tree, env, ordered=False).query
        case exp.SetOperation():
            return _set_operation(context, tree, env)
        case exp.Values():
            return _values(context, tree, env)
        case exp.Subquery():
            return context.bind_query(context, tree.this, env)
        case exp.Table():
            # `FROM (r)` and `(TABLE r)`: the relation itself.
            return context.bind_query(context, exp.select("*").from_(tree), env)
        case _:
            raise context.text.unsupported(tree, "this kind of query is not supported")


def with_ctes(context: Context, tree: exp.Expr, env: Env) -> Env:
    """The surroundings of a query after its WITH clause. Each CTE sees those before it."""
    clause = tree.args.get("with_")
    if clause is None:
        return env
    if clause.args.get("recursive"):
        raise context.text.unsupported(
            clause,
            f"cannot maintain recursive queries{context.subject}",
            "unfold the recursion by hand",
            keyword="RECURSIVE",
        )
    ctes = dict(env.ctes)
    for cte in clause.expressions:
        columns = tuple(cte.args["alias"].args.get("columns") or ())
        ctes[cte.alias] = Cte(cte.this, columns, Env(env.outer, dict(ctes)))
    return Env(env.outer, ctes)


# --- set operations


def _set_operation(context: Context, tree: exp.SetOperation, env: Env) -> SetOperation:
    if tree.args.get("by_name"):
        raise context.text.unsupported(tree, "set operations BY NAME are not supported", "list the columns in order")
    left, right = (context.bind_query(context, side, env) for side in (tree.this, tree.expression))
    kind: Literal["union", "intersect", "except"] = (
        "union" if isinstance(tree, exp.Union) else "intersect" if isinstance(tree, exp.Intersect) else "except"
    )
    if len(left.columns) != len(right.columns):
        raise context.text.bind_error(
            tree.expression,
            f"{kind.upper()} of {len(left.columns)} and {len(right.columns)} columns",
            "select as many on both sides",
        )
    types = []
    for number, (a, b) in enumerate(zip(left.columns, right.columns, strict=True), 1):
        common = common_type(a.type, b.type)
        if common is None:
            raise context.text.bind_error(
                tree.expression,
                f"column {number} of {kind.upper()} cannot combine {a.type} and {b.type}",
                "cast one of them",
            )
        types.append(common)
    left, right = (with_types(context, side, tuple(types)) for side in (left, right))
    return SetOperation(kind, not tree.args.get("distinct"), left, right, _columns(context, kind, left, right))


def _columns(context: Context, kind: str, left: Query, right: Query) -> tuple[Field, ...]:
    fields = []
    for a, b in zip(left.columns, right.columns, strict=True):
        nullable = {"union": a.nullable or b.nullable, "intersect": a.nullable and b.nullable}.get(kind, a.nullable)
        fields.append(Field(a.name, context.var(a.name), a.type, nullable))
    return tuple(fields)


# --- VALUES


def _values(context: Context, tree: exp.Values, env: Env) -> Values:
    binder = Expressions(context, Scope((), (), env.outer), env, "VALUES")
    rows = [_row(binder, row) for row in tree.expressions]
    width = len(rows[0])
    for row, node in zip(rows, tree.expressions, strict=True):
        if len(row) != width:
            raise context.text.bind_error(node, f"a row of VALUES has {len(row)} columns, the first has {width}")
    columns: list[tuple[BoundExpr, ...]] = []
    for column in zip(*rows, strict=True):
        try:
            columns.append(operators.unified(column, "a column of VALUES")[0])
        except BindError as error:
            raise context.text.bind_error(tree, error.message, error.hint) from None
    fields = tuple(
        Field(f"col{number}", context.var(f"col{number}"), values[0].type, any(value.nullable for value in values))
        for number, values in enumerate(columns, 1)
    )
    named = tree.args["alias"].args.get("columns") or () if tree.args.get("alias") else ()
    if len(named) == len(fields):
        fields = tuple(replace(f, name=n.name, var=context.var(n.name)) for f, n in zip(fields, named, strict=True))
    return Values(tuple(zip(*columns, strict=True)), fields)


def _row(binder: Expressions, row: exp.Expr) -> tuple[BoundExpr, ...]:
    parts = row.expressions if isinstance(row, exp.Tuple) else [row]
    return tuple(binder.bind(part) for part in parts)
