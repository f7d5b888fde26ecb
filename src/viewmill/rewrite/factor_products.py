"""Take apart products whose factors have nothing to do with each other.

    Sum[a, c](R(a, b) * S(c, d))   =>   Sum[a](R(a, b)) * Sum[c](S(c, d))

Factors belong together if they share a variable, be it through a test or an assignment. Aggregation distributes over
the product of those that do not, and no cross product need ever be stored. (`flatten_aggregates` is the opposite,
for looking at a product as a whole; so this is not one of the passes that run to a fixed point.)
"""

from __future__ import annotations

from collections.abc import Sequence

from viewmill.algebra.build import agg_sum, factors, product
from viewmill.algebra.nodes import AggSum, Expr, Product
from viewmill.algebra.schema import inputs, schema


def factor_products(expr: Expr) -> Expr:
    match expr:
        case AggSum(group, body):
            parts = unconnected(factors(body))
            if len(parts) == 1:
                return expr
            return product(*(agg_sum((name for name in group if name in schema(part)), part) for part in parts))
        case _:
            return expr


def unconnected(parts: Sequence[Expr]) -> list[Expr]:
    """The products of factors that hang together, one for each group."""
    groups: list[tuple[set[str], list[Expr]]] = []
    for part in parts:
        names = set(schema(part)) | inputs(part)
        joined = [group for group in groups if group[0] & names]
        merged = names.union(*(group[0] for group in joined)), [f for group in joined for f in group[1]] + [part]
        groups = [group for group in groups if group not in joined] + [merged]
    return [product(*members) for _, members in groups]


def is_connected(expr: Expr) -> bool:
    body = expr.body if isinstance(expr, AggSum) else expr
    return not isinstance(body, Product) or len(unconnected(body.factors)) == 1
