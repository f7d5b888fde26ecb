"""Push Exists down to where it changes anything.

Exists(A * B)        =>  Exists(A) * Exists(B)     a product is 0 only where a factor is
Exists(c)            =>  1                         for a constant other than 0
Exists({p})          =>  {p}                       weights are 0 or 1 already,
Exists((x := A))     =>  (x := A)                  as for Extreme and Exists itself
Exists(A + A + B)    =>  Exists(A + B)             where A and B are sets: no weight is negative
"""

from __future__ import annotations

from viewmill.algebra.build import exists, factors, integer, product, sum_
from viewmill.algebra.nodes import ONE, AggSum, Exists, Expr, Extreme, Lift, Product, Sum, Test


def push_exists(expr: Expr) -> Expr:
    match expr:
        case Exists(Product(parts)):
            return product(*(push_exists(exists(part)) for part in parts))
        case Exists(body) if integer(body):
            return ONE
        case Exists(Test() | Lift() | Extreme() as body):
            return body
        case Exists(Sum(parts)) if len(set(parts)) < len(parts) and all(map(is_counted, parts)):
            return exists(sum_(dict.fromkeys(parts)))
        case _:
            return expr


def is_counted(expr: Expr) -> bool:
    """No weight is negative, whatever the data."""
    match expr:
        case AggSum(_, body):
            return is_counted(body)
        case Product() | Exists() | Test() | Lift() | Extreme():
            return all(isinstance(f, Exists | Test | Lift | Extreme) for f in factors(expr))
        case _:
            return False
