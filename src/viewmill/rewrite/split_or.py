"""Split a disjunction that ties several relations together.

    {p or q}  =>  {p} + {q} - {p and q}

Worth it only where the parts then belong to one relation each: TPC-H Q19 becomes three products whose
conditions can be checked before the join. What would give more than seven terms stays as it is.
"""

from __future__ import annotations

from itertools import combinations

from viewmill.algebra import scalars
from viewmill.algebra.build import neg, product, sum_
from viewmill.algebra.nodes import DeltaRelation, Expr, Product, Relation, Test
from viewmill.algebra.scalars import Call, Scalar, can_fail
from viewmill.rewrite.merge_tests import merge_tests

MAX_TERMS = 7
"""Three branches of one disjunction, or two and one of two."""


def split_or(expr: Expr) -> Expr:
    if not isinstance(expr, Product):
        return expr
    owners = [set(f.vars) for f in expr.factors if isinstance(f, Relation | DeltaRelation)]
    parts = list(expr.factors)
    terms = 1
    for index, part in enumerate(parts):
        match part:
            case Test(Call("or", branches) as condition) if _spans(condition, owners) and not can_fail(condition):
                # `s.c = 0 or r.a / s.c > 1`: the second must not be computed where the first holds
                terms *= 2 ** len(branches) - 1
                if terms <= MAX_TERMS:
                    parts[index] = _split(branches)
    return expr if parts == list(expr.factors) else product(*parts)


def _spans(condition: Scalar, owners: list[set[str]]) -> bool:
    """The whole needs several relations, and splitting gives conjuncts that need fewer."""
    used = scalars.variables(condition)
    return sum(bool(used & owned) for owned in owners) > 1 and not any(used <= owned for owned in owners)


def _split(branches: tuple[Scalar, ...]) -> Expr:
    """Inclusion and exclusion."""
    chosen = []
    for size in range(1, len(branches) + 1):
        for group in combinations(branches, size):
            term = merge_tests(product(*(merge_tests(Test(branch)) for branch in group)))
            chosen.append(term if size % 2 else neg(term))
    return sum_(chosen)
