"""Turn arithmetic inside a weight into arithmetic of weights, so that each part can join its own relation.

    [a * b]                          =>  a * b
    [a + b]                          =>  {b is not null} * a + {a is not null} * b
    [-a]                             =>  -1 * a
    [case when p then a else b end]  =>  {p} * a + {not coalesce(p, false)} * b

A NULL weighs 0, so a product needs no care; a sum with one NULL side is NULL, hence the guards.
Sums and cases are split only where the sides use different variables: `1 - discount` stays one value.
"""

from __future__ import annotations

from viewmill.algebra import scalars
from viewmill.algebra.build import neg, product, sum_
from viewmill.algebra.nodes import DeltaRelation, Expr, Product, Relation, Test, Value
from viewmill.algebra.scalars import FALSE, Call, Const, Scalar


def split_values(expr: Expr) -> Expr:
    match expr:
        case Value(Call("*", (left, right))):
            return product(split_values(Value(left)), split_values(Value(right)))
        case Value(Call("neg", (arg,))):
            return neg(split_values(Value(arg)))
        case Product(factors):
            owners = [set(f.vars) for f in factors if isinstance(f, Relation | DeltaRelation)]
            return product(*(_split_sum(f.scalar, owners) if isinstance(f, Value) else f for f in factors))
        case _:
            return expr


def _split_sum(scalar: Scalar, owners: list[set[str]]) -> Expr:
    if sum(bool(scalars.variables(scalar) & owned) for owned in owners) < 2:
        return Value(scalar)
    match scalar:
        case Call("+", (left, right)):
            return sum_((product(is_known(right), Value(left)), product(is_known(left), Value(right))))
        case Call("-", (left, right)):
            return sum_((product(is_known(right), Value(left)), neg(product(is_known(left), Value(right)))))
        case Call("case", (condition, value, *rest)):
            otherwise = rest[0] if len(rest) == 1 else Call("case", tuple(rest))
            holds_not = Test(Call("not", (Call("coalesce", (condition, FALSE)),)))
            return sum_((product(Test(condition), Value(value)), product(holds_not, Value(otherwise))))
        case _:
            return Value(scalar)


def is_known(scalar: Scalar) -> Expr:
    """`{scalar is not null}`"""
    return (
        product()
        if isinstance(scalar, Const) and scalar.value is not None
        else Test(Call("not", (Call("is_null", (scalar,)),)))
    )
