"""Subqueries in expressions, as variables that a factor defines.

    EXISTS (Q)       count > 0                     (count := Sum[](Q))
    (Q) as a value   the column itself             the aggregates of Q, where Q is one group: it has exactly one row
                     assert_single(count, least)   (count := Sum[](Q)) * (least := min column of Q), for any other Q
                     least                         (least := min column of Q), where Q has LIMIT 1
    a IN (Q)         count > 0                     (count := Sum[](Q * {a = b}))

Correlated variables are inputs of these factors. Equalities with them stay factors `{a = b}` of their own, because
domain extraction looks for those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from viewmill.algebra.build import agg_sum, assign, product, test
from viewmill.algebra.nodes import Expr, Extreme, Lift
from viewmill.algebra.scalars import FALSE, NULL, TRUE, Call, Scalar, Var
from viewmill.algebra.schema import Names, schema
from viewmill.sql.bound import Limited, Query, Select
from viewmill.translate.context import Context
from viewmill.translate.formulas import (
    conjunction,
    disjunction,
    equals,
    is_not_null,
    is_null,
    is_positive,
    is_zero,
)
from viewmill.translate.rows import Rows, copy


def count_rows(context: Context, query: Query, needs: list[Expr]) -> str:
    """A variable for the number of rows."""
    return _count(context.names, context.rows(query).expr, needs)


def single_value(context: Context, query: Query, needs: list[Expr]) -> Scalar:
    """The only column of the only row; NULL if there is no row, an error if there are several."""
    if isinstance(query, Limited) and not query.offset and query.limit != 0 and _is_one_row(query.query):
        return single_value(context, query.query, needs)
    if isinstance(query, Select) and _is_one_row(query):
        rows = context.rows(replace(query, distinct=False))
        needs.append(rows.expr)
        return rows.columns[0]
    if isinstance(query, Limited) and query.limit is not None and query.limit <= 1:
        return Var(_least(context.names, context.rows(query), needs))
    rows = context.rows(query)
    count = _count(context.names, rows.expr, needs)
    least = _least(context.names, copy(context.names, rows), needs)
    return Call("assert_single", (Var(count), Var(least)))


def _is_one_row(query: Query) -> bool:
    if not isinstance(query, Select) or query.having is not None:
        return False
    if query.group is None:
        return query.source is None and query.where is None
    return query.group == ()


def _least(names: Names, rows: Rows, needs: list[Expr]) -> str:
    """A variable for the least value of the only column: among one row, the value of that row."""
    (column,) = rows.columns
    least = names.fresh("value")
    if isinstance(column, Var) and column.name in schema(rows.expr):
        needs.append(Extreme(least, "min", column.name, rows.expr))
    else:
        of = names.fresh("value")
        needs.append(Extreme(least, "min", of, product(rows.expr, assign(of, column))))
    return least


def _count(names: Names, expr: Expr, needs: list[Expr]) -> str:
    count = names.fresh("count")
    needs.append(Lift(count, agg_sum((), expr)))
    return count


@dataclass(frozen=True, slots=True)
class Needle:
    scalar: Scalar
    nullable: bool


@dataclass(slots=True)
class Membership:
    """`(needles) IN (rows)`, asked in one of three ways: is it true, is it false, what is it.

    One needle `a` and the column `b`:

        true    some b = a
        false   no b = a, no b is NULL, and a is not NULL or there are no rows
        NULL    otherwise

    Each part that nullability rules out is left out. Several needles make a row comparison, which is false as
    soon as one pair differs; `IN` is then false if the comparison is false for every row.
    """

    names: Names
    needles: tuple[Needle, ...]
    rows: Rows
    nullable: tuple[bool, ...]
    needs: list[Expr]
    _used: bool = field(default=False, init=False)

    def is_true(self) -> Scalar:
        return is_positive(self._count_equal())

    def is_false(self) -> Scalar:
        if len(self.needles) > 1:
            return is_zero(self._count_possible())
        return conjunction((is_zero(self._count_equal()), *self._not_null_parts()))

    def value(self) -> Scalar:
        equal = is_positive(self._count_equal())
        if not any(self.nullable) and not any(needle.nullable for needle in self.needles):
            return equal
        return Call("case", (equal, TRUE, self._is_perhaps(), NULL, FALSE))

    def _not_null_parts(self) -> Iterable[Scalar]:
        (needle,) = self.needles
        if self.nullable[0]:
            yield is_zero(self._count_null())
        if needle.nullable:
            yield disjunction((is_not_null(needle.scalar), is_zero(self._count_all())))

    def _is_perhaps(self) -> Scalar:
        """True where a NULL keeps the answer open, given that no row is equal."""
        if len(self.needles) > 1:
            return is_positive(self._count_possible())
        (needle,) = self.needles
        parts = []
        if self.nullable[0]:
            parts.append(is_positive(self._count_null()))
        if needle.nullable:
            parts.append(conjunction((is_null(needle.scalar), is_positive(self._count_all()))))
        return disjunction(parts)

    def _count_equal(self) -> str:
        rows = self._fresh_rows()
        pairs = zip(self.needles, rows.columns, strict=True)
        return self._count(rows, [equals(needle.scalar, column) for needle, column in pairs])

    def _count_null(self) -> str:
        rows = self._fresh_rows()
        return self._count(rows, [is_null(rows.columns[0])])

    def _count_all(self) -> str:
        return self._count(self._fresh_rows(), [])

    def _count_possible(self) -> str:
        """Rows whose comparison with the needles is true or NULL."""
        rows = self._fresh_rows()
        tests = []
        for needle, column, nullable in zip(self.needles, rows.columns, self.nullable, strict=True):
            open_ = [is_null(needle.scalar)] if needle.nullable else []
            open_ += [is_null(column)] if nullable else []
            tests.append(disjunction((equals(needle.scalar, column), *open_)))
        return self._count(rows, tests)

    def _count(self, rows: Rows, tests: list[Scalar]) -> str:
        return _count(self.names, product(rows.expr, *map(test, tests)), self.needs)

    def _fresh_rows(self) -> Rows:
        """The rows: as they are the first time, then copies, so that every count has variables of its own."""
        if self._used:
            return copy(self.names, self.rows)
        self._used = True
        return self.rows
