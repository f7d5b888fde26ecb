"""Aggregate functions of one SELECT block.

Each distinct aggregate is computed once and has a variable; the expression it stands in refers to that.

    count_if(p)  =  count(*) FILTER (WHERE p)        bool_and(p)  =  min(p)        count(x), x never NULL  =  count(*)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from viewmill.errors import BindError
from viewmill.sql.bound import Aggregate, AggregateFunction, BoundExpr, Call, Cast, Column, Literal
from viewmill.sql.operators import all_of, condition, convert
from viewmill.sql.types import average_type, drops_digits, sum_type
from viewmill.sql.walk import used
from viewmill.types import BIGINT, DOUBLE, VOID, Type

_BY_CLASS: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.CountIf: "count_if",
}
_BY_NAME = {"mean": "avg", "std": "stddev_samp", "every": "bool_and", "some": "bool_or", "any": "bool_or"}

Key: TypeAlias = tuple[AggregateFunction, BoundExpr | None, bool, BoundExpr | None]


def aggregate_name(node: exp.Expr) -> str | None:
    """The aggregate function a node calls, None if it calls none."""
    if isinstance(node, exp.Anonymous):
        return _BY_NAME.get(str(node.this).lower())
    if isinstance(node, exp.Any) and isinstance(node.this, exp.Paren):
        return "bool_or"
    return _BY_CLASS.get(type(node))


class Aggregates:
    """The aggregates met so far, each once."""

    def __init__(self) -> None:
        self._known: dict[Key, Aggregate] = {}

    def __iter__(self) -> Iterator[Aggregate]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(aggregate.var for aggregate in self)

    def add(
        self, name: str, arg: BoundExpr | None, distinct: bool, filter_: BoundExpr | None, var: Callable[[str], str]
    ) -> Column:
        """`name([DISTINCT] arg) FILTER (WHERE filter)` as a column; `arg` is None for COUNT(*)."""
        key = _normal(name, arg, distinct, filter_)
        function, arg, distinct, filter_ = key
        known = self._known.get(key)
        if known is None:
            result = _result_type(function, arg)
            known = Aggregate(var(_base(function, arg)), function, arg, distinct, filter_, result, function != "count")
            self._known[key] = known
        return Column(known.var, known.type, known.nullable)


def _normal(name: str, arg: BoundExpr | None, distinct: bool, filter_: BoundExpr | None) -> Key:
    """The same aggregate in terms of the functions that the algebra has."""
    match name:
        case "count_if" | "bool_and" | "bool_or" if arg is not None:
            arg = condition(arg, f"the argument of {name}")
            if name != "count_if":
                return ("min" if name == "bool_and" else "max"), arg, False, filter_
            return "count", None, False, arg if filter_ is None else all_of(filter_, arg)
        case "count":
            is_known = arg is None or (not arg.nullable and not distinct)
            return "count", None if is_known else arg, distinct, filter_
        case "min" | "max":
            return name, arg, False, filter_
        case "sum" | "avg":
            return name, _unchecked(_number(name, arg)), distinct, filter_
        case "stddev_samp" | "stddev_pop" | "var_samp" | "var_pop":
            number = _number(name, arg)
            return name, _unchecked(number) if number.type.is_integer else number, distinct, filter_
        case _:
            raise BindError(f"{name} takes 1 argument, not 0")


def _number(name: str, arg: BoundExpr | None) -> BoundExpr:
    if arg is None:
        raise BindError(f"{name} takes a number, not *")
    if arg.type == VOID:
        return convert(arg, DOUBLE)
    if not arg.type.is_numeric:
        raise BindError(f"{name} takes a number, not {arg.type}", hint="cast the argument to a number")
    return arg


def _unchecked(arg: BoundExpr) -> BoundExpr:
    """The argument without casts that round nothing and only guard against overflow: the sum's own type does that.

    So `sum(a * b)` of integers or wide decimals stays a sum of products.
    """
    match arg:
        case Cast(Call("+" | "-" | "*" as op, (left, right)) as inner) if inner.type == arg.type:
            if arg.type.is_integer:
                return replace(inner, args=(_unchecked(left), _unchecked(right)))
            return arg if drops_digits(op, left.type, right.type) else inner
        case Cast(Call("neg", (negated,)) as inner) if inner.type == arg.type:
            return replace(inner, args=(_unchecked(negated),))
        case Call("case", args):
            # Conditions stay as they are: c, value, c, value, ..., else.
            last = len(args) - 1
            values = tuple(_unchecked(a) if i % 2 or i == last else a for i, a in enumerate(args))
            return replace(arg, args=values)
        case _:
            return arg


def _result_type(function: AggregateFunction, arg: BoundExpr | None) -> Type:
    if function == "count" or arg is None:
        return BIGINT
    if function == "sum":
        return sum_type(arg.type)
    if function == "avg":
        return average_type(arg.type)
    if function in ("min", "max"):
        return arg.type
    return DOUBLE


def _base(function: str, arg: BoundExpr | None) -> str:
    """A name for the variable: `sum_price`, `count_rows`."""
    if arg is None or isinstance(arg, Literal):
        return f"{function}_rows" if arg is None else f"{function}_value"
    columns = sorted(used(arg))
    return f"{function}_{columns[0].rpartition('#')[0] or columns[0]}" if len(columns) == 1 else f"{function}_value"
