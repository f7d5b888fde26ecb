"""One test per condition, and none that the others contradict.

{p and q}                =>  {p} * {q}
{p} * {p}                =>  {p}
{x = 1} * {x = 2}        =>  0            for different constants
{x = 1} * {x is null}    =>  0
{x = 1} * {x is not null} => {x = 1}      as for any comparison of x
"""

from __future__ import annotations

from viewmill.algebra.build import factors, product
from viewmill.algebra.nodes import ZERO, Expr, Product, Test
from viewmill.algebra.scalars import Call, Const, Scalar, Var

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def merge_tests(expr: Expr) -> Expr:
    match expr:
        case Test(Call("and", args)):
            return product(*(merge_tests(Test(arg)) for arg in args))
        case Product():
            return _merge(expr)
        case _:
            return expr


def _merge(expr: Product) -> Expr:
    conditions = [part.scalar for part in factors(expr) if isinstance(part, Test)]
    compared = {arg for c in conditions if isinstance(c, Call) and c.op in COMPARISONS for arg in c.args}
    constants: dict[Scalar, Const] = {}
    for condition in conditions:
        match condition:
            case Call("=", (Var() as var, Const() as const)) | Call("=", (Const() as const, Var() as var)):
                if constants.setdefault(var, const) != const and _differ(constants[var], const):
                    return ZERO
            case Call("is_null", (arg,)) if arg in compared:
                return ZERO
    kept: list[Expr] = []
    for part in expr.factors:
        match part:
            case Test(Call("not", (Call("is_null", (arg,)),))) if arg in compared:
                continue
            case Test() if part in kept:
                continue
        kept.append(part)
    return product(*kept) if len(kept) < len(expr.factors) else expr


def _differ(left: Const, right: Const) -> bool:
    """Both can hold of no value. (1 and 1.0 are different constants, and equal.)"""
    return left.value != right.value
