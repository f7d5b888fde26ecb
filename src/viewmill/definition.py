"""A view's definition: from the bound query to what is compiled, and how the rows are shown.

Compiled columns carry the names that readers see, so that a view over this view finds them as fields. Hidden columns
(those only sorted by) keep the translation's names.

A view with a LIMIT is kept with all its rows, and cut off when it is read. A query over it sees what its readers see:

    best(id)        =>  Sum[id](TopK[sort desc, id; 2](best(id, sort)))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewmill.algebra.build import agg_sum, product, test, top_k
from viewmill.algebra.nodes import Expr, Relation
from viewmill.algebra.scalars import FALSE
from viewmill.algebra.schema import Names, bottom_up, relations, rename, variables
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.output import Presentation
from viewmill.sql.bound import BoundView
from viewmill.translate import translate
from viewmill.translate.limits import total_order


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
    partition_by: tuple[str, ...] = ()

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
        return RelationInfo(self.name, self.columns, kind="view", partition_by=self.partition_by)

    @property
    def kept(self) -> RelationInfo:
        """The view as programs read it: with what it is sorted by, where this decides which rows are shown."""
        if not self.presentation.cuts:
            return self.info
        typed = zip(self.fields, self.bound.query.columns, strict=True)
        columns = tuple(ColumnInfo(name, column.type, column.nullable) for name, column in typed)
        return RelationInfo(self.name, columns, kind="view", partition_by=self.partition_by)


def define(
    name: str,
    sql: str,
    bound: BoundView,
    maintain: str = "auto",
    *,
    views: Mapping[str, Definition] | None = None,
) -> Definition:
    """`views` are those that the query may read."""
    translated = translate(bound)
    shown = bound.query.columns[: len(bound.query.columns) - bound.hidden]
    limited = {other: view for other, view in (views or {}).items() if view.presentation.cuts}
    expr = _as_shown(translated.expr, limited)
    expr, fields = _named(expr, translated.columns, tuple(column.name for column in shown))
    columns = tuple(ColumnInfo(column.name, column.type, column.nullable) for column in shown)
    return Definition(name, sql, bound, expr, fields, columns, maintain)


def _as_shown(expr: Expr, limited: Mapping[str, Definition]) -> Expr:
    """The expression with the rows of limited views that their readers see, in place of all."""
    names = Names(variables(expr))

    def step(node: Expr) -> Expr:
        if not isinstance(node, Relation) or node.name not in limited:
            return node
        view = limited[node.name]
        given = dict(zip(node.fields, node.vars, strict=True))
        vars_ = tuple(given[field] if field in given else names.fresh(field) for field in view.fields)
        rows, how = Relation(view.name, view.fields, vars_), view.presentation
        if how.limit == 0:
            return agg_sum(node.vars, product(rows, test(FALSE)))
        return agg_sum(node.vars, top_k(total_order(vars_, how.order), how.limit, how.offset, rows))

    return bottom_up(step, expr)


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
