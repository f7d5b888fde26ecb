"""Rows compared with values that depend on no row: kept apart, and compared when somebody reads.

    Sum[id](t(id, p) * (m := max q of t(p: q)) * {p = m})   =>   Sum[id, p](M(id, p) * (m := ...) * {p = m})

Law: the values are one number each, and only tests look at them, so the rows can be added up first, by what is asked
for and what the tests compare.

With a batch the value may move, and then any row may pass the test, or fail it. Kept as one store, all rows would be
gone through again for each batch (the papers re-evaluate: Hot Dog, section 3.2.3). Kept apart, rows and values follow
the batch for what it costs, and a reader compares. That is worth it where a relation changes both: otherwise the value
stays while the rows change, and the few rows that pass are the smaller store.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.build import agg_sum, factors, product
from viewmill.algebra.nodes import AggSum, Expr, Extreme, Lift, Relation, Test, Value
from viewmill.algebra.scalars import Scalar, Var
from viewmill.algebra.scalars import children as scalar_children
from viewmill.algebra.scalars import with_children as scalar_with_children
from viewmill.algebra.schema import inputs, relations, schema


@dataclass(frozen=True, slots=True)
class Compared:
    """Sum[group](rows * values * tests)"""

    group: tuple[str, ...]
    rows: Expr
    values: Expr
    tests: tuple[Test, ...]

    @property
    def expr(self) -> Expr:
        return agg_sum(self.group, product(self.rows, self.values, *self.tests))


def compared(expr: Expr) -> Compared | None:
    """The expression in this form, if it has it and a relation changes both sides."""
    group, body = (expr.group, expr.body) if isinstance(expr, AggSum) else (schema(expr), expr)
    parts = factors(body)
    values = _values(parts)
    names = set(schema(product(*values)))
    tests = [part for part in parts if isinstance(part, Test) and inputs(part) & names]
    rows = [part for part in parts if part not in values and part not in tests]
    if not tests or not any(isinstance(part, Relation) for part in rows):
        return None
    if any((inputs(part) | set(schema(part))) & names for part in rows):
        return None
    if not relations(product(*values)) & relations(product(*rows)):
        return None
    known = {part.body.scalar: part.var for part in rows if isinstance(part, Lift) and isinstance(part.body, Value)}
    named = tuple(Test(_named(test.scalar, known)) for test in tests)
    kept = set(group).union(*map(inputs, named)) - names
    summed = agg_sum((name for name in schema(product(*rows)) if name in kept), product(*rows))
    return Compared(tuple(group), summed, product(*values), named)


def _values(parts: tuple[Expr, ...]) -> list[Expr]:
    """Aggregates over everything, and what follows from these alone."""
    found: list[Expr] = [
        part for part in parts if isinstance(part, Lift | Extreme) and relations(part) and not inputs(part)
    ]
    while True:
        names = {name for part in found for name in schema(part)}
        more = [
            part
            for part in parts
            if isinstance(part, Lift) and isinstance(part.body, Value) and inputs(part) and inputs(part) <= names
        ]
        if all(part in found for part in more):
            return found
        found += [part for part in more if part not in found]


def _named(scalar: Scalar, known: dict[Scalar, str]) -> Scalar:
    """The scalar, with what has a name called by it: one key less for the rows."""
    if scalar in known:
        return Var(known[scalar])
    return scalar_with_children(scalar, tuple(_named(part, known) for part in scalar_children(scalar)))
