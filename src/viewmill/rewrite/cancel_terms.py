"""Collect equal terms of a sum.

A + B - A    =>  B
A + A        =>  2 * A
"""

from __future__ import annotations

from viewmill.algebra.build import agg_sum, factors, integer, product, sum_
from viewmill.algebra.nodes import AggSum, Expr, Sum, Value
from viewmill.algebra.scalars import Const


def cancel_terms(expr: Expr) -> Expr:
    if not isinstance(expr, Sum):
        return expr
    count: dict[Expr, int] = {}
    for term in expr.terms:
        number, rest = _coefficient(term)
        count[rest] = count.get(rest, 0) + number
    return sum_(_times(number, rest) for rest, number in count.items())


def _times(number: int, term: Expr) -> Expr:
    """The number goes inside an aggregate, where `flatten_aggregates` would put it."""
    if isinstance(term, AggSum):
        return agg_sum(term.group, _times(number, term.body))
    return product(Value(Const(number)), term)


def _coefficient(term: Expr) -> tuple[int, Expr]:
    if isinstance(term, AggSum):
        number, rest = _coefficient(term.body)
        return number, AggSum(term.group, rest)
    first, *rest_factors = factors(term)
    number_or_none = integer(first)
    return (1, term) if number_or_none is None else (number_or_none, product(*rest_factors))
