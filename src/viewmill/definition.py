"""A view's definition: from the bound query to what is compiled, and how the rows are shown.

Compiled columns carry the names that readers see, so that a view over this view finds them as fields. Hidden columns
(those only sorted by) keep the translation's names.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.nodes import Expr
from viewmill.algebra.schema import Names, relations, rename, variables
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.output import Presentation
from viewmill.sql.bound import BoundView
from viewmill.translate import translate


@dataclass(frozen=True, slots=True)
class Definition:
    """`expr` produces `fields`: the visible columns by name, then the hidden ones."""

    name: str
    sql: str
    bound: BoundView
    expr: Expr
    fields: tuple[str, ...]
    columns: tuple[ColumnInfo, ...]
    maintain: str

    @property
    def presentation(self) -> Presentation:
        return Presentation.of(self.bound)

    @property
    def reads(self) -> frozenset[str]:
        """The relations and views it is directly over."""
        return relations(self.expr)

    @property
    def info(self) -> RelationInfo:
        """The view as other views see it."""
        return RelationInfo(self.name, self.columns, kind="view")


def define(name: str, sql: str, bound: BoundView, maintain: str = "auto") -> Definition:
    translated = translate(bound)
    shown = bound.query.columns[: len(bound.query.columns) - bound.hidden]
    expr, fields = _named(translated.expr, translated.columns, tuple(column.name for column in shown))
    columns = tuple(ColumnInfo(column.name, column.type, column.nullable) for column in shown)
    return Definition(name, sql, bound, expr, fields, columns, maintain)


def _named(expr: Expr, given: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[Expr, tuple[str, ...]]:
    """The expression with its leading columns renamed as `wanted`, other variables of these names stepping aside.

    Of two columns with one name (which ad-hoc queries may have, and views may not) the second gets another.
    """
    distinct = Names()
    new = {old: distinct.fresh(name) for old, name in zip(given, wanted, strict=False)}
    taken = variables(expr) | set(given)
    fresh = Names(taken | set(new.values()))
    for name in [name for name in new.values() if name in taken and name not in new]:
        new[name] = fresh.fresh(name)
    return rename(expr, new), tuple(new.get(name, name) for name in given)
