"""Drop what nobody reads.

    Sum[a](R(a) * (x := E))    =>  Sum[a](R(a))       where x is not used: a Lift has exactly one row of weight 1
    Sum[a](R(a, b) * {a < 1})  =>  Sum[a](R(a) * {a < 1})

The second line reads fewer fields; a relation adds away the fields it does not name.
"""

from __future__ import annotations

from collections import Counter

from viewmill.algebra.build import agg_sum, product
from viewmill.algebra.nodes import AggSum, DeltaRelation, Expr, Extreme, Lift, Product, Relation
from viewmill.algebra.schema import inputs, schema


def prune_assignments(expr: Expr) -> Expr:
    match expr:
        case AggSum(group, Product(factors)):
            kept = _prune(list(factors), frozenset(group))
            return agg_sum(group, product(*kept))
        case AggSum(group, body):
            return agg_sum(group, _narrow(body, frozenset(group)))
        case _:
            return expr


def _prune(factors: list[Expr], group: frozenset[str]) -> list[Expr]:
    while True:
        mentions = Counter(name for factor in factors for name in _mentioned(factor))
        for i, factor in enumerate(factors):
            read = frozenset(name for name in _mentioned(factor) if name in group or mentions[name] > 1)
            if isinstance(factor, Lift | Extreme) and factor.var not in read:
                factors = [*factors[:i], *factors[i + 1 :]]
                break
            narrow = _narrow(factor, read)
            if narrow != factor:
                factors = [*factors[:i], narrow, *factors[i + 1 :]]
                break
        else:
            return factors


def _mentioned(factor: Expr) -> frozenset[str]:
    return inputs(factor).union(schema(factor))


def _narrow(factor: Expr, read: frozenset[str]) -> Expr:
    """Without the fields that nobody reads. (A variable that stands twice is a condition, and read.)"""
    match factor:
        case Relation(name, fields, vars_) | DeltaRelation(name, fields, vars_):
            kept = [(f, v) for f, v in zip(fields, vars_, strict=True) if v in read or vars_.count(v) > 1]
            if len(kept) == len(fields):
                return factor
            return type(factor)(name, tuple(f for f, _ in kept), tuple(v for _, v in kept))
        case _:
            return factor
