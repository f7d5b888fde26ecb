"""The name Spark gives to a column that has no alias: `count(1)`, `(a + 1)`, `sum((a * b))`.

Not all of its names are told apart here: where Spark makes a function call of a date plus a number or an interval, the
name stays an addition.
"""

from __future__ import annotations

from sqlglot import exp

from viewmill.algebra import functions
from viewmill.sql.positions import SqlText
from viewmill.types import STRING

_SCALAR = "scalarsubquery()"
_LIST = "listquery()"
_ALL_THE_REST = "2147483647"
# Functions of several names, of which sqlglot keeps one.
_PLAIN = (
    exp.Coalesce,
    exp.Length,
    exp.Upper,
    exp.Lower,
    exp.Pow,
    exp.Sign,
    exp.Ceil,
    exp.Variance,
    exp.UnixDate,
    exp.Ln,
)


def output_name(text: SqlText, node: exp.Expr) -> str:
    if isinstance(node, exp.Alias | exp.Column | exp.Subquery) and node.alias_or_name:
        return node.alias_or_name
    if isinstance(node.unnest(), exp.Query):
        return _SCALAR
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column):
        return node.this.name
    # A root of its own, so that every node of the expression has a parent and can be replaced.
    root = exp.Paren(this=node.copy())
    parts = list(root.this.walk())
    said = [text.said(part) if isinstance(part, exp.Func) else "" for part in parts]
    for part, name in zip(reversed(parts), reversed(said), strict=True):
        part.replace(_spark(part, name))
    shown = str(root.this.sql(dialect="spark", normalize_functions="lower"))
    return shown.replace(" FILTER(", " FILTER (")


def _spark(node: exp.Expr, said: str) -> exp.Expr:
    """The node as Spark prints it; what is below is done already. `said` is the user's name of a function.

    Gone are the user's parentheses, qualifiers, and conversions that nobody wrote; every operator has parentheses.
    """
    match node:
        case exp.Paren() | exp.TsOrDsToDate():
            is_said = isinstance(node, exp.TsOrDsToDate) and not isinstance(node.parent, exp.Func)
            return node if is_said else _below(node)
        case exp.Column():
            return exp.column(node.name)
        case exp.Literal():
            return _literal(node)
        case exp.Boolean():
            return exp.Var(this="true" if node.this else "false")
        case exp.Subquery() | exp.Exists():
            is_list = isinstance(node.parent, exp.In)
            return exp.Var(this="exists()" if isinstance(node, exp.Exists) else _LIST if is_list else _SCALAR)
        case exp.Cast():
            return _cast(node)
        case exp.Func() if not isinstance(node, exp.Connector | exp.Binary | exp.Case):
            return _function(node, said)
        case _:
            return _operator(node)


def _literal(node: exp.Literal) -> exp.Expr:
    if isinstance(node.parent, exp.Interval):
        return node
    if node.is_string:
        return exp.Var(this=node.name)
    if "e" in node.name.lower():
        return exp.Var(this=str(functions.cast(float(node.name), STRING)))
    return exp.Literal.number(node.name.removesuffix("."))


def _cast(node: exp.Cast) -> exp.Expr:
    # CAST is a TryCast in sqlglot's Spark dialect; DATE '2024-01-01' is a plain Cast.
    if not isinstance(node, exp.TryCast) and isinstance(node.this, exp.Var):
        if node.to.this in (exp.DType.DATE, exp.DType.TIMESTAMPTZ):
            word = "DATE" if node.to.this == exp.DType.DATE else "TIMESTAMP"
            return exp.Var(this=f"{word} '{node.this.name}'")
    type_ = node.to.sql(dialect="spark").replace(", ", ",")
    return exp.Var(this=f"CAST({_below(node).sql(dialect='spark', normalize_functions='lower')} AS {type_})")


def _function(node: exp.Func, said: str) -> exp.Expr:
    """Function calls, under the user's own name where sqlglot has given them another."""
    match node:
        case exp.Count(this=exp.Star()):
            return exp.Count(this=exp.Literal.number(1))
        case exp.Round() if not node.args.get("decimals"):
            return exp.Round(this=_below(node), decimals=exp.Literal.number(0))
        case exp.Anonymous(expressions=[arg]) if said == "bround":
            return exp.Anonymous(this=said, expressions=[arg.copy(), exp.Literal.number(0)])
        case exp.Anonymous(expressions=[arg]) if said in ("isnull", "isnotnull"):
            null = exp.Null() if said == "isnull" else exp.Not(this=exp.Null())
            return _grouped(exp.Is(this=arg.copy(), expression=null))
        case exp.If() if not isinstance(node.parent, exp.Case):
            return _grouped(_call("if", node, "this", "true", "false"))
        case exp.Substring():
            call = _call(said or "substring", node, "this", "start", "length")
            if not node.args.get("length"):
                call.append("expressions", exp.Literal.number(_ALL_THE_REST))
            return call
        case exp.Log() if said in ("log2", "log10"):
            return _call(said, node, "expression")
        case exp.StrPosition() if said == "instr":
            return _call(said, node, "this", "substr")
        case exp.StrPosition():
            call = _call("locate", node, "substr", "this", "position")
            if not node.args.get("position"):
                call.append("expressions", exp.Literal.number(1))
            return call
        case exp.DateTrunc() | exp.TimestampTrunc():
            unit = exp.Var(this=node.args["unit"].name.lower())
            first, second = (unit, _below(node)) if said == "date_trunc" else (_below(node), unit)
            return exp.Anonymous(this=said or "trunc", expressions=[first, second])
        case exp.MonthsBetween():
            call = _call("months_between", node, "this", "expression")
            call.append("expressions", exp.Var(this="true"))
            return call
        case exp.TsOrDsAdd() if said == "date_sub":
            days = node.expression.unnest()
            return exp.Anonymous(this=said, expressions=[_below(node), _below(days)])
        case _ if isinstance(node, _PLAIN) and said:
            return _call(said, node, "this", "expression", "expressions", "decimals")
        case _:
            return node


def _call(name: str, node: exp.Expr, *places: str) -> exp.Anonymous:
    args: list[exp.Expr] = []
    for place in places:
        part = node.args.get(place)
        args.extend(part if isinstance(part, list) else [part] if isinstance(part, exp.Expr) else [])
    return exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])


def _operator(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Neg(this=exp.Literal() | exp.Var() as number) if number.name[:1].isdigit():
            return exp.Var(this=f"-{number.name}")
        case exp.Neg():
            return exp.Var(this=f"(- {_below(node).sql(dialect='spark', normalize_functions='lower')})")
        case exp.NEQ():
            return _grouped(exp.Not(this=_grouped(exp.EQ(this=_below(node), expression=node.expression.copy()))))
        case exp.NullSafeEQ():
            sides = (side.sql(dialect="spark", normalize_functions="lower") for side in (node.this, node.expression))
            return exp.Var(this=f"({' <=> '.join(sides)})")
        case exp.Not(this=exp.Paren(this=exp.Is() as test)):
            return _grouped(exp.Is(this=test.this.copy(), expression=exp.Not(this=test.expression.copy())))
        case exp.Any(this=exp.Expr() as arg):
            return exp.Anonymous(this="any", expressions=[arg.copy()])
        case exp.RegexpLike() | exp.ILike() | exp.Like():
            return _like(node)
        case exp.DPipe():
            return exp.Concat(expressions=[_below(node), node.expression.copy()])
        case exp.Between():
            return _call("between", node, "this", "low", "high")
        case exp.Case(this=exp.Expr() as subject):
            return _searched(node, subject)
        case exp.Connector() | exp.In() | exp.Not():
            return _grouped(node.copy())
        case exp.Binary() if not isinstance(node, exp.Func | exp.Dot):
            return _grouped(node.copy())
        case _:
            return node


def _like(node: exp.RegexpLike | exp.ILike | exp.Like) -> exp.Expr:
    like: exp.Expr = node.copy()
    like.set("negate", None)
    if not isinstance(node, exp.Like):
        like = _call("ilike" if isinstance(node, exp.ILike) else "rlike", node, "this", "expression")
    return _grouped(exp.Not(this=like)) if node.args.get("negate") else like


def _searched(node: exp.Case, subject: exp.Expr) -> exp.Case:
    """`CASE x WHEN 1` as `CASE WHEN (x = 1)`."""
    branches = [
        exp.If(this=_grouped(exp.EQ(this=subject.copy(), expression=branch.this.copy())), true=branch.args["true"])
        for branch in node.args["ifs"]
    ]
    return exp.Case(ifs=branches, default=node.args.get("default"))


def _below(node: exp.Expr) -> exp.Expr:
    assert isinstance(node.this, exp.Expr)
    return node.this.copy()


def _grouped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node)
