"""LIMIT, OFFSET and FETCH: whole numbers known when the query is bound."""

from __future__ import annotations

from sqlglot import exp

from viewmill.sql.bound import Literal
from viewmill.sql.expressions import Expressions
from viewmill.sql.scope import Context, Env, Scope


def is_limited(tree: exp.Expr) -> bool:
    """There is a LIMIT, OFFSET or FETCH."""
    return isinstance(tree.args.get("limit"), exp.Expr) or isinstance(tree.args.get("offset"), exp.Expr)


def row_count(context: Context, tree: exp.Expr, clause: str) -> int | None:
    """The number in `LIMIT n` or `OFFSET n`; None where there is none, and for LIMIT ALL."""
    node = tree.args.get(clause)
    if node is None:
        return None
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        word = "FETCH" if isinstance(node, exp.Fetch) else clause.upper()
        raise context.text.unsupported(node, f"{word} takes a number of rows only", keyword=word)
    number = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    if number is None or isinstance(number, exp.Var):
        return None
    constant = number.find(exp.Column, exp.Query) is None
    value = Expressions(context, Scope((), ()), Env(), clause.upper()).bind(number) if constant else None
    if not isinstance(value, Literal) or type(value.value) is not int or value.value < 0:
        raise context.text.bind_error(number, f"{clause.upper()} takes a constant whole number of rows")
    return value.value
