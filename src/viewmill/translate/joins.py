"""FROM -> algebra.

    A CROSS JOIN B           A * B
    A JOIN B ON c            A * B * {c}
    A LEFT JOIN B ON c       A * B * {c} + A * (n := Sum[](B' * {c'})) * {n = 0} * (b := null) ...
    A RIGHT JOIN B ON c      B LEFT JOIN A ON c
    A FULL JOIN B ON c       A * B * {c}, and what is left over of A and of B, padded with NULLs
    A SEMI JOIN B ON c       A * (n := Sum[](B * {c})) * {n > 0}
    A ANTI JOIN B ON c       A * (n := Sum[](B * {c})) * {n = 0}

B' is B under other names; variables of A in c' are inputs. Every row of A is in one term of an outer join:
it matches (n > 0) or it is left over (n = 0).
"""

from __future__ import annotations

from typing import assert_never

from viewmill.algebra.build import agg_sum, assign, product, sum_, test
from viewmill.algebra.nodes import Expr, Lift, Relation
from viewmill.algebra.scalars import NULL
from viewmill.algebra.schema import schema
from viewmill.sql.bound import Derived, Join, Source, Table
from viewmill.translate.conditions import condition
from viewmill.translate.context import Context
from viewmill.translate.formulas import is_positive, is_zero
from viewmill.translate.rows import named, project


def source(context: Context, item: Source) -> Expr:
    """The rows of a FROM item. Its schema holds at least the item's variables; conditions may add others."""
    match item:
        case Table(name, _, fields):
            return Relation(name, tuple(f.name for f in fields), tuple(f.var for f in fields))
        case Derived(query, _):
            return named(context.rows(query), _variables(item))
        case Join():
            return _join(context, item)
        case _:
            assert_never(item)


def _join(context: Context, join: Join) -> Expr:
    left, right = source(context, join.left), source(context, join.right)
    on = product(*condition(context, join.on))
    match join.kind:
        case "cross" | "inner":
            return product(left, right, on)
        case "semi" | "anti":
            count, matches = _count(context, product(right, on))
            return product(left, matches, test(is_positive(count) if join.kind == "semi" else is_zero(count)))
        case "left" | "right" | "full":
            return _outer(context, join, left, right, on)
        case _:
            assert_never(join.kind)


def _outer(context: Context, join: Join, left: Expr, right: Expr, on: Expr) -> Expr:
    ours, theirs = _variables(join.left), _variables(join.right)
    # A side may hold variables of its own conditions; the terms below must have one schema.
    left, right = project(left, ours), project(right, theirs)
    terms = [product(left, right, on)]
    if join.kind != "right":
        terms.append(_left_over(context, left, product(right, on), theirs))
    if join.kind != "left":
        terms.append(_left_over(context, right, product(left, on), ours))
    return sum_(project(term, ours + theirs) for term in terms)


def _left_over(context: Context, kept: Expr, partner: Expr, padded: tuple[str, ...]) -> Expr:
    """Rows of `kept` without a match in `partner`, with NULL for the variables in `padded`."""
    again, _ = context.names.apart(kept, keep=frozenset(schema(kept)))
    other, _ = context.names.apart(partner)
    count, matches = _count(context, other)
    return product(again, matches, test(is_zero(count)), *(assign(var, NULL) for var in padded))


def _count(context: Context, expr: Expr) -> tuple[str, Expr]:
    count = context.names.fresh("count")
    return count, Lift(count, agg_sum((), expr))


def _variables(item: Source) -> tuple[str, ...]:
    """The variables that a FROM item gives to the rest of the query."""
    match item:
        case Table(_, _, fields):
            return tuple(f.var for f in fields)
        case Derived(query, _):
            return tuple(column.var for column in query.columns)
        case Join(kind, left, right, _):
            return _variables(left) if kind in ("semi", "anti") else _variables(left) + _variables(right)
        case _:
            assert_never(item)
