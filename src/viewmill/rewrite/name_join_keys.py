"""Give joins on expressions a variable to join on.

    R(a) * S(x) * {a + 1 = x}       =>  R(a) * S(x) * (x := [a + 1]) * {x is not null}
    R(a) * S(c) * {a + 1 = c * 2}   =>  R(a) * S(c) * (key := [a + 1]) * (key := [c * 2]) * {key is not null}

A variable assigned twice is a join by identity, which looks up where a test would run over all pairs.
Only where the two sides come from different rows; otherwise the test is a plain filter.
"""

from __future__ import annotations

from viewmill.algebra import scalars
from viewmill.algebra.build import agg_sum, assign, product
from viewmill.algebra.nodes import AggSum, DeltaRelation, Exists, Expr, Product, Relation, Test, TopK
from viewmill.algebra.scalars import Call, Scalar, Var
from viewmill.algebra.schema import Names, schema, variables
from viewmill.rewrite.split_values import is_known


def name_join_keys(expr: Expr) -> Expr:
    match expr:
        case AggSum(group, Product(factors)) if any(map(_is_equality, factors)):
            return agg_sum(group, _named(factors, expr, may_add=True))
        case Product(factors) if any(map(_is_equality, factors)):
            return _named(factors, expr, may_add=False)
        case _:
            return expr


def _is_equality(factor: Expr) -> bool:
    return isinstance(factor, Test) and isinstance(factor.scalar, Call) and factor.scalar.op == "="


def _named(factors: tuple[Expr, ...], scope: Expr, *, may_add: bool) -> Expr:
    """A new variable may be added only under an aggregate, where it stays local."""
    rows = [set(schema(f)) for f in factors if isinstance(f, Relation | DeltaRelation | Exists | TopK)]
    names = Names(variables(scope))
    parts: list[Expr] = []
    for factor in factors:
        match factor:
            case Test(Call("=", (left, right))) if _joins(left, right, rows):
                if isinstance(left, Var) and isinstance(right, Var):
                    parts.append(factor)  # `unify` has its reasons
                elif isinstance(right, Var):
                    parts += [assign(right.name, left), is_known(right)]
                elif isinstance(left, Var):
                    parts += [assign(left.name, right), is_known(left)]
                elif may_add:
                    key = names.fresh("key")
                    parts += [assign(key, left), assign(key, right), is_known(Var(key))]
                else:
                    parts.append(factor)
            case _:
                parts.append(factor)
    return product(*parts)


def _joins(left: Scalar, right: Scalar, rows: list[set[str]]) -> bool:
    """Each side is computed from rows, and no row has variables of both."""
    ours, theirs = scalars.variables(left), scalars.variables(right)
    produced = set().union(*rows)
    return bool(ours and theirs and ours | theirs <= produced) and not any(ours & row and theirs & row for row in rows)
