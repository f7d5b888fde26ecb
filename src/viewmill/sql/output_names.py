"""The name Spark gives to a column that has no alias: `count(1)`, `(a + 1)`, `sum((a * b))`."""

from __future__ import annotations

from sqlglot import exp

_SCALAR = "scalarsubquery()"
_LIST = "listquery()"


def output_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Alias | exp.Column | exp.Subquery) and node.alias_or_name:
        return node.alias_or_name
    if isinstance(node.unnest(), exp.Query):
        return _SCALAR
    # A root of its own, so that every node of the expression has a parent and can be replaced.
    root = exp.Paren(this=node.copy())
    for part in reversed(list(root.this.walk())):
        part.replace(_spark(part))
    name = str(root.this.sql(dialect="spark", normalize_functions="lower"))
    return name.replace(" FILTER(", " FILTER (")


def _spark(node: exp.Expr) -> exp.Expr:
    """The node as Spark prints it; what is below is done already.

    Gone are the user's parentheses, qualifiers, and conversions that nobody wrote; every operator has parentheses.
    """
    match node:
        case exp.Paren() | exp.TsOrDsToDate():
            is_said = isinstance(node, exp.TsOrDsToDate) and not isinstance(node.parent, exp.Func)
            return node if is_said else _below(node)
        case exp.Column():
            return exp.column(node.name)
        case exp.Literal() if node.is_string and not isinstance(node.parent, exp.Interval):
            return exp.Var(this=node.name)
        case exp.Boolean():
            return exp.Var(this="true" if node.this else "false")
        case exp.Subquery() | exp.Exists():
            is_list = isinstance(node.parent, exp.In)
            return exp.Var(this="exists()" if isinstance(node, exp.Exists) else _LIST if is_list else _SCALAR)
        case exp.Count(this=exp.Star()):
            return exp.Count(this=exp.Literal.number(1))
        case exp.Round() if not node.args.get("decimals"):
            return exp.Round(this=_below(node), decimals=exp.Literal.number(0))
        case exp.Cast(this=exp.Column()):
            return _below(node)
        case exp.Cast(this=exp.Var() as text) if node.to.this in (exp.DType.DATE, exp.DType.TIMESTAMPTZ):
            word = "DATE" if node.to.this == exp.DType.DATE else "TIMESTAMP"
            return exp.Var(this=f"{word} '{text.name}'")
        case exp.Between():
            return exp.Anonymous(this="between", expressions=[_below(node), node.args["low"], node.args["high"]])
        case exp.DPipe():
            return exp.Concat(expressions=[_below(node), node.expression.copy()])
        case _:
            return _operator(node)


def _operator(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Neg():
            return exp.Var(this=f"(- {_below(node).sql(dialect='spark')})")
        case exp.NEQ():
            return _grouped(exp.Not(this=_grouped(exp.EQ(this=_below(node), expression=node.expression.copy()))))
        case exp.Not(this=exp.Paren(this=exp.Is() as test)):
            return _grouped(exp.Is(this=test.this.copy(), expression=exp.Not(this=test.expression.copy())))
        case exp.Like():
            like = node.copy()
            like.set("negate", None)
            return _grouped(exp.Not(this=like)) if node.args.get("negate") else node
        case exp.Connector() | exp.In() | exp.Not():
            return _grouped(node.copy())
        case exp.Binary() if not isinstance(node, exp.Func | exp.Dot):
            return _grouped(node.copy())
        case _:
            return node


def _below(node: exp.Expr) -> exp.Expr:
    assert isinstance(node.this, exp.Expr)
    return node.this.copy()


def _grouped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node)
