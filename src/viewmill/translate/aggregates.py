"""GROUP BY and aggregates -> algebra.

    SELECT k, count(*), sum(x) FROM r GROUP BY k

    Exists(Sum[g](R(k) * (g := k))) * (count := Sum[](R(k: k2) * (k2 := g)))
                                    * (s := Sum[](R(k: k3, x) * (k3 := g) * x)) * (sum := [cast(s as bigint)])

Which groups exist is a factor of its own, and so is every measure over the rows of a group. Results are formulas of
measures: an average is a sum over a count. Without keys there is one group, which always exists: the measures
alone, so that no rows give one row.
"""

from __future__ import annotations

from viewmill.algebra.build import agg_sum, assign, exists, product
from viewmill.algebra.nodes import Expr
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.schema import schema
from viewmill.errors import InternalError
from viewmill.sql import bound
from viewmill.sql.bound import Aggregate, BoundExpr, Column, GroupKey
from viewmill.translate.context import Context
from viewmill.translate.formulas import is_zero, null_if
from viewmill.translate.measures import Group, Measure, Measures
from viewmill.translate.results import average, variance
from viewmill.translate.scalars import value
from viewmill.types import DOUBLE


def aggregate(context: Context, body: Expr, keys: tuple[GroupKey, ...], aggregates: tuple[Aggregate, ...]) -> Expr:
    """The groups of `body` with the variables of keys and aggregates, each group of weight 1."""
    existing, group = _group(context, body, keys)
    measures = Measures(context, group)
    for each in aggregates:
        _define(measures, each)
    return product(existing, *measures.factors)


def _group(context: Context, body: Expr, keys: tuple[GroupKey, ...]) -> tuple[Expr, Group]:
    """The groups that exist, by the variables of the keys; and their members, where a plain column is its own key."""
    inner: list[str] = []
    computed: list[Expr] = []
    copied: list[Expr] = []
    for key in keys:
        match key.expr:
            case Column(var) if var in schema(body):
                inner.append(var)
                if key.var != var:
                    copied.append(assign(key.var, Var(var)))
            case _:
                inner.append(key.var)
                needs: list[Expr] = []
                scalar = value(context, key.expr, needs)
                computed += [*needs, assign(key.var, scalar)]
    outer = tuple(key.var for key in keys)
    members = product(body, *computed)
    existing = exists(agg_sum(outer, product(members, *copied))) if keys else product()
    return existing, Group(members, tuple(inner), outer)


def _define(measures: Measures, each: Aggregate) -> None:
    """Add the factors that give `each.var` its value."""
    match each.function:
        case "count":
            _take_as(measures, each.var, _count(each))
        case "min" | "max":
            _take_as(measures, each.var, Measure(each.function, each.arg, each.filter, distinct=False))
        case _:
            measures.factors.append(assign(each.var, _formula(measures, each)))


def _take_as(measures: Measures, var: str, measure: Measure) -> None:
    if measure in measures.taken:
        measures.factors.append(assign(var, Var(measures.taken[measure])))
    else:
        measures.take(measure, var)


def _formula(measures: Measures, each: Aggregate) -> Scalar:
    total = measures.variable(Measure("sum", _values(each), each.filter, each.distinct))
    match each.function:
        case "sum":
            return _unless_empty(measures, each, Cast(Var(total), each.type))
        case "avg":
            return _unless_empty(measures, each, average(total, measures.variable(_count(each)), each.type))
        case "var_pop" | "stddev_pop":
            return _unless_empty(measures, each, _spread(measures, each, total))
        case "var_samp" | "stddev_samp":
            count = measures.variable(_count(each))
            return null_if(Call("<", (Var(count), Const(2))), _spread(measures, each, total))
        case _:
            raise InternalError(f"the aggregate {each.function} is a measure and has no formula")


def _spread(measures: Measures, each: Aggregate, total: str) -> Scalar:
    values = _values(each)
    count = measures.variable(_count(each))
    squares = measures.variable(Measure("squares", values, each.filter, each.distinct))
    found = variance(count, total, squares, values.type, sample=each.function.endswith("samp"))
    return Call("sqrt", (found,)) if each.function.startswith("stddev") else found


def _unless_empty(measures: Measures, each: Aggregate, scalar: Scalar) -> Scalar:
    """NULL for a group without a value. A group that exists has a row, so often this cannot be."""
    if measures.group.outer and each.filter is None and not _values(each).nullable:
        return scalar
    return null_if(is_zero(measures.variable(_count(each))), scalar)


def _count(each: Aggregate) -> Measure:
    """How many values go into an aggregate."""
    if each.arg is not None and (each.distinct or each.arg.nullable):
        return Measure("count", _values(each), each.filter, each.distinct)
    return Measure("count", None, each.filter, distinct=False)


def _values(each: Aggregate) -> BoundExpr:
    """What is added up. Exact values stay exact and are rounded in the result, even where doubles are asked for."""
    match each.arg:
        case None:
            raise InternalError(f"the aggregate {each.function} has no argument")
        # DISTINCT must see the values as converted, since conversion may make two of them equal.
        case bound.Cast(exact, type_) if type_ == DOUBLE and exact.type.is_exact and not each.distinct:
            return exact
        case arg:
            return arg
