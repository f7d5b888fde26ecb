"""Constructors that keep the normal form other code may rely on.

no Product inside a Product, no Sum inside a Sum
no ONE in a Product, a Product with ZERO is ZERO; no ZERO in a Sum
no Product or Sum of fewer than two
at most one integer constant in a Product, in front
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from viewmill.algebra.nodes import (
    ONE,
    ZERO,
    AggSum,
    Exists,
    Expr,
    Lift,
    Product,
    Relation,
    SortBy,
    Sum,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import TRUE, Call, Const, Scalar, Var


def relation(name: str, *columns: str) -> Relation:
    """`relation("R", "a", "b")`: fields and variables of the same names."""
    return Relation(name, columns, columns)


def product(*factors: Expr) -> Expr:
    flat = [part for factor in factors for part in (factor.factors if isinstance(factor, Product) else (factor,))]
    numbers = [number for part in flat if isinstance(part, Value) and (number := integer(part)) is not None]
    constant = prod(numbers)
    if numbers:
        flat = [part for part in flat if integer(part) is None]
    if constant == 0:
        return ZERO
    if constant != 1:
        flat.insert(0, Value(Const(constant)))
    if not flat:
        return ONE
    return flat[0] if len(flat) == 1 else Product(tuple(flat))


def sum_(terms: Iterable[Expr]) -> Expr:
    flat: list[Expr] = []
    for term in terms:
        flat.extend(part for part in (term.terms if isinstance(term, Sum) else (term,)) if part != ZERO)
    if not flat:
        return ZERO
    return flat[0] if len(flat) == 1 else Sum(tuple(flat))


def neg(expr: Expr) -> Expr:
    if isinstance(expr, Sum):
        return sum_(neg(term) for term in expr.terms)
    return product(Value(Const(-1)), expr)


def agg_sum(group: Iterable[str], body: Expr) -> Expr:
    return ZERO if body == ZERO else AggSum(tuple(group), body)


def exists(body: Expr) -> Expr:
    return body if body == ZERO or isinstance(body, Exists) else Exists(body)


def top_k(order: Iterable[SortBy], limit: int | None, offset: int, body: Expr) -> Expr:
    return ZERO if body == ZERO or limit == 0 else TopK(tuple(order), limit, offset, body)


def assign(var: str, scalar: Scalar) -> Expr:
    """`(var := scalar)`"""
    return Lift(var, Value(scalar))


def test(scalar: Scalar) -> Expr:
    return ONE if scalar == TRUE else Test(scalar)


def equal(left: str, right: str) -> Expr:
    """`{left = right}` of two variables."""
    return Test(Call("=", (Var(left), Var(right))))


def integer(expr: Expr) -> int | None:
    """The number, if the expression is an integer constant."""
    match expr:
        case Value(Const(value)) if type(value) is int:
            return value
        case _:
            return None


def terms(expr: Expr) -> tuple[Expr, ...]:
    """The summands: of a Sum its terms, of anything else itself."""
    return expr.terms if isinstance(expr, Sum) else (expr,)


def factors(expr: Expr) -> tuple[Expr, ...]:
    return expr.factors if isinstance(expr, Product) else (expr,)
