"""One aggregation around a product instead of several inside it.

    Sum[g](Sum[h](A))    =>  Sum[g](A)
    A * Sum[h](B)        =>  Sum[a, h](A * B)      for the variables a of A, with B's locals renamed apart
    Sum[g](A)            =>  A                     where A has no variables but g

Products distribute over sums, so adding B's locals away later gives the same weights.
"""

from __future__ import annotations

from viewmill.algebra.build import agg_sum, product
from viewmill.algebra.nodes import AggSum, Expr, Product
from viewmill.algebra.schema import Names, rename_free, schema, variables


def flatten_aggregates(expr: Expr) -> Expr:
    match expr:
        case AggSum(group, AggSum(_, body)):
            return flatten_aggregates(agg_sum(group, body))
        case AggSum(group, body) if set(group) == set(schema(body)):
            return body
        case Product(factors) if any(isinstance(factor, AggSum) for factor in factors):
            return _pull_out(expr)
        case _:
            return expr


def _pull_out(expr: Product) -> Expr:
    names = Names(variables(expr))
    parts: list[Expr] = []
    for factor in expr.factors:
        if isinstance(factor, AggSum):
            local = [name for name in schema(factor.body) if name not in factor.group]
            parts.append(rename_free(factor.body, {name: names.fresh(name) for name in local}))
        else:
            parts.append(factor)
    return agg_sum(schema(expr), product(*parts))
