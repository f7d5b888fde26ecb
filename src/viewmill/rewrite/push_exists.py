"""Push Exists down to where it changes anything.

    Exists(A * B)        =>  Exists(A) * Exists(B)     where A and B share no variable: a product is 0 only where one is
    Exists({p} * (x := A))  =>  {p} * (x := A)         weights are 0 or 1 already, as for Exists and Extreme
    Exists(A * A)        =>  Exists(A)
    Exists(c)            =>  1                         for a constant other than 0
    Exists(A + A + B)    =>  Exists(A + B)             where A and B are sets: no weight is negative

A test stays with the rows it is about, so that the set of groups and their count are one store.
"""

from __future__ import annotations

from viewmill.algebra.build import exists, factors, integer, product, sum_
from viewmill.algebra.nodes import ONE, AggSum, Exists, Expr, Extreme, Lift, Product, Sum, Test, TopK
from viewmill.rewrite.factor_products import unconnected


def push_exists(expr: Expr) -> Expr:
    match expr:
        case Exists(body) if integer(body):
            return ONE
        case Exists(body) if all(isinstance(factor, Exists | Test | Lift | Extreme) for factor in factors(body)):
            return body
        case Exists(Product(parts)) if len(set(parts)) < len(parts):
            return push_exists(exists(product(*dict.fromkeys(parts))))
        case Exists(Product(parts)) if len(groups := unconnected(parts)) > 1:
            return product(*(push_exists(exists(group)) for group in groups))
        case Exists(Sum(parts)) if len(set(parts)) < len(parts) and all(map(is_counted, parts)):
            return exists(sum_(dict.fromkeys(parts)))
        case _:
            return expr


def is_counted(expr: Expr) -> bool:
    """No weight is negative, whatever the data."""
    match expr:
        case AggSum(_, body):
            return is_counted(body)
        case Product() | Exists() | Test() | Lift() | Extreme() | TopK():
            return all(isinstance(f, Exists | Test | Lift | Extreme | TopK) for f in factors(expr))
        case _:
            return False
