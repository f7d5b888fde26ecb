"""Drop an Exists that another factor implies.

    Exists(A) * A          =>  A
    Exists(A) * Exists(A)  =>  Exists(A)

A row that A lacks weighs 0 in the product either way.
"""

from __future__ import annotations

from viewmill.algebra.build import product
from viewmill.algebra.nodes import Exists, Expr, Product


def absorb_exists(expr: Expr) -> Expr:
    if not isinstance(expr, Product) or not any(isinstance(factor, Exists) for factor in expr.factors):
        return expr
    plain = {factor for factor in expr.factors if not isinstance(factor, Exists)}
    kept: list[Expr] = []
    for factor in expr.factors:
        if isinstance(factor, Exists) and (factor.body in plain or factor in kept):
            continue
        kept.append(factor)
    return product(*kept)
