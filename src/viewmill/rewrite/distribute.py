"""Distribute products and aggregation over sums.

    A * (B + C)    =>  A * B + A * C
    Sum[g](A + B)  =>  Sum[g](A) + Sum[g](B)

Both are exact in every ring. What is left is a sum of flat products.
"""

from __future__ import annotations

from itertools import product as combinations

from viewmill.algebra.build import agg_sum, product, sum_, terms
from viewmill.algebra.nodes import AggSum, Expr, Product, Sum
from viewmill.algebra.schema import inputs, schema


def distribute(expr: Expr) -> Expr:
    match expr:
        case Product(factors) if any(isinstance(factor, Sum) for factor in factors):
            return sum_(product(*choice) for choice in combinations(*map(terms, factors)))
        case AggSum(group, Sum(parts) as body):
            # What only some terms produce comes from outside and must not become local to them.
            return sum_(agg_sum((*group, *(n for n in schema(part) if n in inputs(body))), part) for part in parts)
        case _:
            return expr
