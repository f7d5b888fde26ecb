"""ORDER BY, LIMIT and OFFSET: of the outermost query, where they say how the view is read, and inside of others.

Inside, an order matters only where it decides which rows are within a LIMIT; without one it is not looked at.
"""

from __future__ import annotations

from sqlglot import exp

from viewmill.sql.bound import BoundExpr, Column, Limited, Output, Query, SortKey
from viewmill.sql.expressions import Expressions
from viewmill.sql.limits import row_count
from viewmill.sql.queries import bind_unordered, with_ctes
from viewmill.sql.retype import select_from
from viewmill.sql.scope import Context, Env, Scope, Visible
from viewmill.sql.selects import bind_select


def bind_query(context: Context, tree: exp.Expr, env: Env) -> Query:
    """A query inside another."""
    limit, offset = row_count(context, tree, "limit"), row_count(context, tree, "offset")
    if limit is None and not offset:
        return bind_unordered(context, tree, with_ctes(context, tree, env))
    return Limited(*bind_ordered(context, tree, env), limit, offset or 0)


def bind_ordered(context: Context, tree: exp.Expr, env: Env) -> tuple[Query, int, tuple[SortKey, ...]]:
    """The query without its LIMIT, how many of its last columns are hidden, and the order."""
    env = with_ctes(context, tree, env)
    if isinstance(tree, exp.Select):
        ordered = bind_select(context, tree, env, ordered=True)
        return ordered.query, ordered.hidden, ordered.order
    query = bind_unordered(context, tree, env)
    clause = tree.args.get("order")
    if clause is None:
        return query, 0, ()
    return _order_columns(context, query, clause.expressions, env)


def _order_columns(
    context: Context, query: Query, keys: list[exp.Ordered], env: Env
) -> tuple[Query, int, tuple[SortKey, ...]]:
    """Sort a query that is not a SELECT: by its columns, or by expressions over them."""
    names = [column.name for column in query.columns]
    columns = tuple(Visible(None, c.name, Column(c.var, c.type, c.nullable)) for c in query.columns)
    binder = Expressions(context, Scope(columns, (), env.outer), env, "ORDER BY")
    hidden: list[BoundExpr] = []
    order = []
    for key in keys:
        node = key.this
        if isinstance(node, exp.Literal) and node.is_int:
            index = int(node.name) - 1
            if not 0 <= index < len(names):
                raise context.text.bind_error(
                    node, f"ORDER BY position {index + 1} is not in the select list of {len(names)}"
                )
        elif isinstance(node, exp.Column) and not node.table and names.count(node.name) == 1:
            index = names.index(node.name)
        else:
            hidden.append(binder.bind(node))
            index = len(names) + len(hidden) - 1
        order.append(SortKey(index, bool(key.args.get("desc")), bool(key.args.get("nulls_first"))))
    if not hidden:
        return query, 0, tuple(order)
    shown = (Output(column.name, context.var(column.name), column.expr) for column in columns)
    extra = (Output("sort", context.var("sort"), expr) for expr in hidden)
    return select_from(query, (*shown, *extra)), len(hidden), tuple(order)
