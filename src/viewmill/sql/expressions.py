"""Scalar expressions: syntax tree -> bound expression.

Everything that SQL has two spellings for is bound to one: BETWEEN to two comparisons, CASE x WHEN to CASE WHEN, NULLIF
to CASE, EXTRACT to a function, a date plus an interval to `date_add` or `add_months`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sqlglot import exp

from viewmill.errors import BindError
from viewmill.sql import calls, operators
from viewmill.sql.aggregates import Aggregates, aggregate_name
from viewmill.sql.bound import BoundExpr, Column, ExistsQuery, InQuery, Limited, Literal, Query, ScalarQuery
from viewmill.sql.functions import NAMES, bind_function
from viewmill.sql.operators import NULL, compare, convert
from viewmill.sql.refusals import check_expression
from viewmill.sql.retype import with_types
from viewmill.sql.scope import Context, Env, Scope, did_you_mean, lookup, resolve
from viewmill.sql.types import from_sqlglot, integer_type, literal_type
from viewmill.sql.walk import has_query
from viewmill.types import BINARY, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
_DATE_ADD = (exp.TsOrDsAdd, exp.DateAdd, exp.TimestampAdd, exp.DatetimeAdd)
_DATE_SUB = (exp.DateSub, exp.TimestampSub, exp.DatetimeSub)

AliasLookup = Callable[[str], "exp.Expr | BoundExpr | None"]


@dataclass(frozen=True, slots=True)
class Expressions:
    """Binds the expressions of one clause.

    `aggregates` collects aggregate functions; where it is None they are an error.
    `alias` finds columns of the select list by name: before those of FROM if `alias_first`, else after them.
    """

    context: Context
    scope: Scope
    env: Env
    clause: str
    aggregates: Aggregates | None = None
    alias: AliasLookup | None = None
    alias_first: Callable[[exp.Column], bool] = field(default=lambda _: False)

    def bind(self, node: exp.Expr) -> BoundExpr:
        """The bound expression. An error without a place gets that of the innermost node it comes from."""
        try:
            return self._bind(node)
        except BindError as error:
            if error.span is not None:
                raise
            raise BindError(error.message, span=self.context.text.span(node), hint=error.hint) from None

    def condition(self, node: exp.Expr) -> BoundExpr:
        bound = self.bind(node)
        try:
            return operators.condition(bound, f"the {self.clause} condition")
        except BindError as error:
            raise self.context.text.bind_error(node, error.message, error.hint) from None

    def _bind(self, node: exp.Expr) -> BoundExpr:
        check_expression(self.context, node)
        kind = type(node)
        if kind in _COMPARISONS:
            return self._comparison(_COMPARISONS[kind], node.this, node.expression)
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], node)
        match node:
            case exp.Paren() | exp.Alias():
                return self.bind(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal() | exp.Null() | exp.Boolean() | exp.HexString():
                return _literal(node)
            case exp.Neg(this=exp.Literal(is_string=False)):
                # The sign belongs to the number: -2147483648 is an int, although 2147483648 is not.
                return _number(f"-{node.this.name}")
            case exp.Neg():
                return operators.minus(self.bind(node.this))
            case exp.And() | exp.Or():
                connect = operators.all_of if isinstance(node, exp.And) else operators.any_of
                return connect(*(self.bind(part) for part in node.flatten()))
            case exp.Not():
                return operators.negate(self.bind(node.this))
            case exp.Is():
                return self._is(node)
            case exp.NullSafeNEQ():
                return operators.negate(compare("<=>", self.bind(node.this), self.bind(node.expression)))
            case exp.Between():
                # The value is bound twice, so that a subquery in it has variables of its own each time.
                low = compare(">=", self.bind(node.this), self.bind(node.args["low"]))
                return operators.all_of(low, compare("<=", self.bind(node.this), self.bind(node.args["high"])))
            case exp.In():
                return self._in(node)
            case exp.Like() | exp.ILike() | exp.RegexpLike() | exp.Escape():
                return self._like(node)
            case exp.Exists():
                return self._exists(node.this)
            case exp.Subquery() | exp.Select() | exp.SetOperation():
                return self._scalar_query(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Case():
                return self._case(node)
            case exp.Filter():
                return self._aggregate(node.this, node.expression.this)
            case _:
                return self._function(node)

    # --- names

    def _column(self, node: exp.Column) -> BoundExpr:
        if isinstance(node.this, exp.Star):
            raise self.context.text.bind_error(node, "* is not an expression")
        aliased = self.alias(node.name) if self.alias is not None and not node.table else None
        if aliased is not None and (self.alias_first(node) or lookup(self.context, self.scope, node) is None):
            if not isinstance(aliased, exp.Expr):
                return aliased
            return replace(self, alias=None).bind(aliased)
        return resolve(self.context, self.scope, node)

    # --- operators

    def _comparison(self, op: str, left: exp.Expr, right: exp.Expr) -> BoundExpr:
        if not (isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple)):
            return compare(op, self.bind(left), self.bind(right))
        pairs = self._pairs(left, right)
        if op in ("=", "<=>"):
            return operators.all_of(*(compare(op, a, b) for a, b in pairs))
        if op == "<>":
            return operators.any_of(*(compare(op, a, b) for a, b in pairs))
        raise BindError(f'rows cannot be compared with "{op}"', hint="compare their columns one by one")

    def _pairs(self, left: exp.Expr, right: exp.Expr) -> list[tuple[BoundExpr, BoundExpr]]:
        if not (isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple)):
            raise BindError("a row can only be compared with a row")
        if len(left.expressions) != len(right.expressions):
            raise BindError(f"a row of {len(left.expressions)} is compared with a row of {len(right.expressions)}")
        sides = zip(left.expressions, right.expressions, strict=True)
        return [(self.bind(a), self.bind(b)) for a, b in sides]

    def _arithmetic(self, op: str, node: exp.Expr) -> BoundExpr:
        left, right = node.this, node.expression
        if op in ("+", "-") and _is_interval(right):
            return self._shift(self.bind(left), right, op)
        if op == "+" and _is_interval(left):
            return self._shift(self.bind(right), left, op)
        a, b = self.bind(left), self.bind(right)
        if op == "/" and node.args.get("typed") and a.type.is_integer and b.type.is_integer:
            op = "div"  # dialects in which 7 / 2 is 3
        return operators.arithmetic(op, a, b)

    def _shift(self, moment: BoundExpr, interval: exp.Expr, op: str) -> BoundExpr:
        """`moment op interval`, where the interval may be a sum: INTERVAL 1 DAY 2 HOURS."""
        interval = interval.unnest()
        if isinstance(interval, exp.Add):
            return self._shift(self._shift(moment, interval.this, op), interval.expression, op)
        assert isinstance(interval, exp.Interval)
        amount, unit = self._interval(interval)
        return operators.shift(moment, amount if op == "+" else operators.minus(amount), unit)

    def _interval(self, node: exp.Interval) -> tuple[BoundExpr, str]:
        unit, amount = node.args.get("unit"), node.this
        if isinstance(unit, exp.IntervalSpan):
            years = re.fullmatch(r"\s*(-?)(\d+)-(\d+)\s*", amount.name)
            if unit.this.name.upper() != "YEAR" or years is None:
                raise self.context.text.unsupported(node, "only YEAR TO MONTH intervals may span units")
            months = int(years[2]) * 12 + int(years[3])
            return Literal(-months if years[1] else months, INT), "MONTH"
        if unit is None or amount is None:
            raise BindError("an interval needs a number and a unit", hint="write INTERVAL 3 MONTHS")
        name = unit.name.upper()
        name = name.removesuffix("S") if name not in ("HOURS", "DAYS") else name[:-1]
        if not isinstance(amount, exp.Literal):
            return self.bind(amount), name
        number = Decimal(amount.name) if re.fullmatch(r"\s*[+-]?\d+(\.\d*)?\s*", amount.name) else None
        if number is not None and name == "SECOND":
            return Literal(int(number * 1_000_000), integer_type(int(number * 1_000_000))), "MICROSECOND"
        if number is None or number != int(number):
            raise BindError(f"'{amount.name}' is not a whole number of {name.lower()}s")
        return Literal(int(number), integer_type(int(number))), name

    def _is(self, node: exp.Is) -> BoundExpr:
        match node.expression:
            case exp.Null():
                return operators.is_null(self.bind(node.this))
            case exp.Boolean() as wanted:
                return operators.is_true(self.bind(node.this), bool(wanted.this))
            case exp.Not(this=exp.Null()):
                return operators.negate(operators.is_null(self.bind(node.this)))
            case _:
                raise BindError("IS takes NULL, TRUE or FALSE")

    def _like(self, node: exp.Expr) -> BoundExpr:
        escape = [node.expression] if isinstance(node, exp.Escape) else []
        match_ = node.this if isinstance(node, exp.Escape) else node
        if isinstance(match_, exp.RegexpLike) and match_.args.get("flag"):
            raise self.context.text.unsupported(node, "flags of regular expressions are not supported")
        if isinstance(match_.expression, exp.Any | exp.All):
            raise self.context.text.unsupported(
                node, "LIKE ANY and LIKE ALL are not supported", "write LIKE ... OR LIKE ..."
            )
        name = "like" if isinstance(match_, exp.Like) else "ilike" if isinstance(match_, exp.ILike) else "rlike"
        args = tuple(self.bind(part) for part in (match_.this, match_.expression, *escape))
        bound = bind_function(name, args)
        return operators.negate(bound) if match_.args.get("negate") else bound

    # --- choice

    def _case(self, node: exp.Case) -> BoundExpr:
        subject = node.this
        branches = []
        for branch in node.args["ifs"]:
            when = self._comparison("=", subject, branch.this) if subject else self.bind(branch.this)
            branches.append((when, self.bind(branch.args["true"])))
        default = node.args.get("default")
        return operators.case(tuple(branches), self.bind(default) if default is not None else NULL)

    def _choice(self, node: exp.Expr) -> BoundExpr | None:
        match node:
            case exp.Coalesce():
                return operators.coalesce(tuple(self.bind(part) for part in (node.this, *node.expressions)))
            case exp.If():
                otherwise = node.args.get("false")
                branch = (self.bind(node.this), self.bind(node.args["true"]))
                return operators.case((branch,), self.bind(otherwise) if otherwise is not None else NULL)
            case exp.Nullif():
                same = compare("=", self.bind(node.this), self.bind(node.expression))
                return operators.case(((same, NULL),), self.bind(node.this))
            case exp.Nvl2():
                known = operators.negate(operators.is_null(self.bind(node.this)))
                return operators.case(((known, self.bind(node.args["true"])),), self.bind(node.args["false"]))
            case exp.EqualNull():
                return compare("<=>", self.bind(node.this), self.bind(node.expression))
            case _:
                return None

    def _cast(self, node: exp.Cast) -> BoundExpr:
        if node.args.get("safe"):  # CAST is a TryCast too in sqlglot's Spark dialect; only TRY_CAST is safe
            raise self.context.text.unsupported(node, "TRY_CAST is not supported", "use CAST", keyword="TRY_CAST")
        if node.args.get("format"):
            raise self.context.text.unsupported(node, "CAST with a format is not supported")
        type_ = from_sqlglot(node.to)
        if type_ is None:
            raise self.context.text.unsupported(node, f"type {node.to.sql(dialect='spark')} is not supported")
        return convert(self.bind(node.this), type_)

    # --- functions

    def _function(self, node: exp.Expr) -> BoundExpr:
        name = aggregate_name(node)
        if name is not None:
            return self._aggregate(node, None)
        special = (
            self._choice(node) or self._string_function(node) or self._date_function(node) or self._logarithm(node)
        )
        if special is not None:
            return special
        known = calls.function_of(node)
        if known is not None:
            return bind_function(known[0], tuple(self.bind(arg) for arg in known[1]))
        said = self.context.text.said(node) or calls.said_name(node)
        if isinstance(node, exp.Anonymous):
            hint = did_you_mean(said, sorted(NAMES))
            raise self.context.text.bind_error(node, f'unknown function "{said}"', hint)
        if isinstance(node, exp.AggFunc):
            raise self.context.text.unsupported(
                node, f"aggregate function {said} is not supported", "use count, sum, avg, min, max, stddev or variance"
            )
        what = f"function {said}" if isinstance(node, exp.Func) else node.key
        raise self.context.text.unsupported(node, f"{what} is not supported{self.context.subject}")

    def _string_function(self, node: exp.Expr) -> BoundExpr | None:
        match node:
            case exp.Trim():
                sides = {"LEADING": "ltrim", "TRAILING": "rtrim"}
                name = sides.get(str(node.args.get("position") or "").upper(), "trim")
                return bind_function(name, self._given(node.this, node.expression))
            case exp.Pad():
                name = "lpad" if node.args.get("is_left") else "rpad"
                return bind_function(name, self._given(node.this, node.expression, node.args.get("fill_pattern")))
            case exp.DPipe():
                return bind_function("concat", tuple(self.bind(part) for part in node.flatten()))
            case _:
                return None

    def _given(self, *nodes: exp.Expr | None) -> tuple[BoundExpr, ...]:
        return tuple(self.bind(node) for node in nodes if node is not None)

    def _logarithm(self, node: exp.Expr) -> BoundExpr | None:
        if not isinstance(node, exp.Log):
            return None
        if node.expression is None:
            return bind_function("ln", (self.bind(node.this),))
        base, value = self.bind(node.this), self.bind(node.expression)
        named = {10: "log10", 2: "log2"}.get(base.value) if isinstance(base, Literal) else None  # type: ignore[call-overload]
        if named:
            return bind_function(str(named), (value,))
        return operators.arithmetic("/", bind_function("ln", (value,)), bind_function("ln", (base,)))

    def _date_function(self, node: exp.Expr) -> BoundExpr | None:
        match node:
            case exp.Extract():
                return self._extract(node.this.name.lower(), node.expression)
            case exp.Anonymous() if str(node.this).lower() in ("date_part", "datepart") and len(node.expressions) == 2:
                return self._extract(node.expressions[0].name.lower(), node.expressions[1])
            case exp.TsOrDsToDate() | exp.Date() | exp.TsOrDsToTimestamp() | exp.StrToTime():
                if node.args.get("format") or node.args.get("zone"):
                    raise self.context.text.unsupported(node, "formats of dates are not supported", "use CAST")
                target = DATE if isinstance(node, exp.TsOrDsToDate | exp.Date) else TIMESTAMP
                return convert(self.bind(node.this), target)
            case exp.DateDiff() | exp.TsOrDsDiff():
                if _unit(node, "DAY") != "DAY":
                    raise self.context.text.unsupported(node, "datediff counts days only")
                return bind_function("datediff", (self.bind(node.this), self.bind(node.expression)))
            case exp.DateTrunc() | exp.TimestampTrunc():
                return self._truncate(node)
            case _ if isinstance(node, _DATE_ADD + _DATE_SUB):
                return self._date_add(node)
            case _:
                return None

    def _extract(self, part: str, moment: exp.Expr) -> BoundExpr:
        name = calls.EXTRACT_FIELDS.get(part)
        if name is None:
            hint = "use second(...) for whole seconds" if part.startswith("sec") else "use year, month, day, hour, ..."
            raise BindError(f'cannot extract "{part}"', hint=hint)
        return bind_function(name, (self.bind(moment),))

    def _truncate(self, node: exp.DateTrunc | exp.TimestampTrunc) -> BoundExpr:
        moment, unit = self.bind(node.this), Literal(_unit(node, "DAY").lower(), STRING)
        # TRUNC gives a date, whatever it is given; DATE_TRUNC a timestamp, except in dialects that truncate dates.
        if isinstance(node, exp.DateTrunc) and (moment.type != TIMESTAMP or self.context.text.said(node) == "trunc"):
            return bind_function("trunc", (moment, unit))
        return bind_function("date_trunc", (unit, moment))

    def _date_add(self, node: exp.Expr) -> BoundExpr:
        moment, amount = self.bind(node.this), node.expression
        op = "+" if isinstance(node, _DATE_ADD) else "-"
        if _is_interval(amount):
            return self._shift(moment, amount, op)
        number = self.bind(amount)
        if isinstance(node, exp.TsOrDsAdd | exp.TimestampAdd):
            moment = convert(moment, DATE if isinstance(node, exp.TsOrDsAdd) else TIMESTAMP)
        return operators.shift(moment, number if op == "+" else operators.minus(number), _unit(node, "DAY"))

    # --- aggregates

    def _aggregate(self, node: exp.Expr, filter_: exp.Expr | None) -> BoundExpr:
        name = aggregate_name(node)
        if name is None:
            raise self.context.text.bind_error(
                node, f"{calls.said_name(node)} is not an aggregate function, so it takes no FILTER"
            )
        if self.aggregates is None:
            hint = "use HAVING to filter groups" if self.clause == "WHERE" else None
            raise self.context.text.bind_error(node, f"aggregate function {name} cannot stand in {self.clause}", hint)
        inner = replace(self, aggregates=None, clause="the argument of an aggregate function", alias=None)
        arg, distinct = self._aggregate_argument(name, node)
        bound = inner.bind(arg) if arg is not None else None
        condition = replace(inner, clause="FILTER").condition(filter_) if filter_ is not None else None
        return self.aggregates.add(name, bound, distinct, condition, self.context.var)

    def _aggregate_argument(self, name: str, node: exp.Expr) -> tuple[exp.Expr | None, bool]:
        if isinstance(node, exp.Anonymous):
            if len(node.expressions) != 1:
                raise BindError(f"{name} takes 1 argument, not {len(node.expressions)}")
            arg = node.expressions[0]
        else:
            arg = node.this
        distinct = isinstance(arg, exp.Distinct)
        args = list(arg.expressions) if isinstance(arg, exp.Distinct) else [arg, *(node.args.get("expressions") or ())]
        if isinstance(node, exp.Anonymous):
            args = args[:1]
        if len(args) > 1:
            raise self.context.text.unsupported(
                node,
                f"{name} of several columns is not supported",
                "concatenate them, or count the rows of SELECT DISTINCT",
            )
        return (None if isinstance(args[0], exp.Star) else args[0]), distinct

    # --- subqueries

    def _query(self, node: exp.Expr) -> Query:
        return self.context.bind_query(self.context, node, self.env.within(self.scope))

    def _exists(self, node: exp.Expr) -> BoundExpr:
        query = self._query(node)
        if isinstance(query, Limited) and not query.offset and query.limit != 0:
            query = query.query  # one row is as good as many
        return ExistsQuery(query)

    def _scalar_query(self, node: exp.Expr) -> BoundExpr:
        query = self._query(node)
        columns = query.columns
        if len(columns) != 1:
            raise self.context.text.bind_error(
                node, f"a subquery used as a value must have 1 column, not {len(columns)}", "select one expression"
            )
        return ScalarQuery(query, columns[0].type)

    def _in(self, node: exp.In) -> BoundExpr:
        query = node.args.get("query")
        if node.args.get("unnest") or node.args.get("field"):
            raise self.context.text.unsupported(node, "IN takes a list or a subquery")
        if query is not None:
            return self._in_query(node.this, query)
        if isinstance(node.this, exp.Tuple):
            return operators.any_of(*(self._comparison("=", node.this, item) for item in node.expressions))
        needle = self.bind(node.this)
        items = tuple(self.bind(item) for item in node.expressions)
        if not items:
            raise BindError("IN needs at least one value")
        if has_query(needle) and len(items) > 1:
            return operators.call("in", *operators.same_type((needle, *items), "IN"), type=BOOLEAN)
        return operators.is_in(needle, items)

    def _in_query(self, needle: exp.Expr, subquery: exp.Expr) -> BoundExpr:
        parts = needle.expressions if isinstance(needle, exp.Tuple) else [needle]
        needles = tuple(self.bind(part) for part in parts)
        query = self._query(subquery)
        columns = query.columns
        if len(columns) != len(needles):
            raise BindError(
                f"IN compares {len(needles)} with {len(columns)} columns", hint="select as many as stand before IN"
            )
        wanted = []
        for value, column in zip(needles, columns, strict=True):
            left, right = operators.same_type((value, Column(column.var, column.type, column.nullable)), "IN")
            wanted.append((left, right.type))
        return InQuery(tuple(left for left, _ in wanted), with_types(self.context, query, tuple(t for _, t in wanted)))


def _is_interval(node: exp.Expr) -> bool:
    node = node.unnest()
    return isinstance(node, exp.Interval) or (
        isinstance(node, exp.Add) and _is_interval(node.this) and _is_interval(node.expression)
    )


def _unit(node: exp.Expr, default: str) -> str:
    unit = node.args.get("unit")
    return unit.name.upper() if isinstance(unit, exp.Expr) else default


def _literal(node: exp.Expr) -> Literal:
    match node:
        case exp.Null():
            return NULL
        case exp.Boolean():
            return Literal(bool(node.this), BOOLEAN)
        case exp.HexString():
            return Literal(bytes.fromhex(node.name), BINARY)
        case exp.Literal() if node.is_string:
            return Literal(node.name, STRING)
    return _number(node.name)


def _number(text: str) -> Literal:
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    if "." in text:
        return Literal(Decimal(text), literal_type(Decimal(text)))
    number = int(text)
    type_ = integer_type(number)
    return Literal(Decimal(number) if type_.is_decimal else number, type_)
