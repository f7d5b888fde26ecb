"""Measures: the numbers over the rows of a group that aggregates are made of, each a factor that defines a variable.

    count(*) of group g      (count := Sum[](R(k: k2) * (k2 := g)))
    sum(x)                   (sum := Sum[](R(k: k3, x) * (k3 := g) * x))
    sum(DISTINCT x)          (sum := Sum[](Exists(Sum[k4, x](R(k: k4, x))) * (k4 := g) * x))
    min(x)                   (min := min x of R(k: k5, x) * (k5 := g))

Rows are matched with their group by identity, `(k2 := g)`, under which NULL is NULL. Every measure has a copy of the
rows to itself, under its own names. Measures that are equal are taken once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, assert_never

from viewmill.algebra import scalars
from viewmill.algebra.build import agg_sum, assign, exists, product, test
from viewmill.algebra.nodes import Expr, Extreme, Lift, Value
from viewmill.algebra.scalars import Call, Const, Scalar, Var
from viewmill.algebra.schema import schema
from viewmill.sql.bound import BoundExpr
from viewmill.translate.conditions import condition
from viewmill.translate.context import Context
from viewmill.translate.formulas import is_not_null
from viewmill.translate.scalars import value


@dataclass(frozen=True, slots=True)
class Group:
    """`members` are the rows of all groups; a row belongs to the group whose keys `outer` are its own `inner`."""

    members: Expr
    inner: tuple[str, ...]
    outer: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number (or extreme) over the rows of a group that pass `filter`; `arg` None counts every row."""

    kind: Literal["count", "sum", "squares", "min", "max"]
    arg: BoundExpr | None
    filter: BoundExpr | None
    distinct: bool


@dataclass(slots=True)
class Measures:
    """The measures of one SELECT: `factors` define them in order, `taken` has their variables."""

    context: Context
    group: Group
    factors: list[Expr] = field(default_factory=list)
    taken: dict[Measure, str] = field(default_factory=dict)

    def variable(self, measure: Measure) -> str:
        """The variable of a measure, which is taken if it was not yet."""
        if measure not in self.taken:
            self.take(measure, self.context.names.fresh("total" if measure.kind == "sum" else measure.kind))
        return self.taken[measure]

    def take(self, measure: Measure, var: str) -> None:
        of, rows = self._rows(measure)
        match measure.kind:
            case "count":
                self._define(var, rows, Const(1))
            case "sum":
                self._define(var, rows, of)
            case "squares":
                self._define(var, rows, Call("*", (of, of)))
            case "min" | "max":
                local, rows = self._with_variable(rows, of)
                rows, names = self._of_group(rows)
                self.factors.append(Extreme(var, measure.kind, names.get(local, local), rows))
            case _:
                assert_never(measure.kind)
        self.taken[measure] = var

    def _define(self, var: str, rows: Expr, weight: Scalar) -> None:
        rows, names = self._of_group(rows)
        values = {old: Var(new) for old, new in names.items()}
        self.factors.append(Lift(var, agg_sum((), product(rows, Value(scalars.substitute(weight, values))))))

    def _rows(self, measure: Measure) -> tuple[Scalar, Expr]:
        """The argument (of COUNT(*), 1) and the rows of all groups that it is taken from."""
        rows = product(self.group.members, *condition(self.context, measure.filter))
        if measure.arg is None:
            return Const(1), rows
        needs: list[Expr] = []
        of = value(self.context, measure.arg, needs)
        rows = product(rows, *needs)
        # Sums and extremes pass over NULL by themselves.
        if measure.arg.nullable and (measure.distinct or measure.kind == "count"):
            rows = product(rows, test(is_not_null(of)))
        return self._distinct(rows, of) if measure.distinct else (of, rows)

    def _distinct(self, rows: Expr, of: Scalar) -> tuple[Scalar, Expr]:
        """Every value once in its group."""
        local, rows = self._with_variable(rows, of)
        return Var(local), exists(agg_sum(dict.fromkeys((*self.group.inner, local)), rows))

    def _with_variable(self, rows: Expr, of: Scalar) -> tuple[str, Expr]:
        """A variable that `rows` has for the value of `of`."""
        if isinstance(of, Var) and of.name in schema(rows):
            return of.name, rows
        local = self.context.names.fresh("value")
        return local, product(rows, assign(local, of))

    def _of_group(self, rows: Expr) -> tuple[Expr, dict[str, str]]:
        """A copy of the rows that belong to the group at hand, and the names in it."""
        names: dict[str, str] = {}
        if self.group.outer or self.taken:  # without keys, the first measure may have the rows as they are
            rows, names = self.context.names.apart(rows)
        pairs = zip(self.group.inner, self.group.outer, strict=True)
        return product(rows, *(assign(names.get(inner, inner), Var(outer)) for inner, outer in pairs)), names
