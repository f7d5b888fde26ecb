"""Drop what nobody reads: fields of tables, columns of derived tables, aggregates, the select list of EXISTS.

    SELECT count(*) FROM (SELECT * FROM lineitem) t     reads no field of lineitem

The rows of a query, and how often each occurs, stay as they are but for the columns dropped. So nothing is dropped
below DISTINCT or a set operation, where the columns decide which rows are the same, nor below LIMIT, where they decide
between rows that tie: a CTE that is read twice has the same rows both times. How many there are needs no columns.
"""

from __future__ import annotations

from dataclasses import replace

from viewmill.sql.bound import (
    BoundExpr,
    Derived,
    ExistsQuery,
    Join,
    Limited,
    Query,
    Select,
    SetOperation,
    Source,
    Table,
)
from viewmill.sql.walk import Rewrite, used


class _Prune(Rewrite):
    def expr(self, expr: BoundExpr) -> BoundExpr:
        if isinstance(expr, ExistsQuery):
            return ExistsQuery(prune_columns(expr.query, set()))
        return super().expr(expr)

    def select(self, select: Select) -> Select:
        outputs = tuple(map(self.output, select.outputs))
        having = self.maybe(select.having)
        group = None if select.group is None else tuple(map(self.group_key, select.group))
        read = used(*(output.expr for output in outputs), having)
        aggregates = tuple(self.aggregate(aggregate) for aggregate in select.aggregates if aggregate.var in read)
        where = self.maybe(select.where)
        read |= used(where, *(key.expr for key in group or ()))
        read |= used(*(part for aggregate in aggregates for part in (aggregate.arg, aggregate.filter)))
        source = None if select.source is None else self._source(select.source, read)
        return Select(source, where, group, aggregates, having, outputs, select.distinct)

    def _source(self, source: Source, read: set[str]) -> Source:
        match source:
            case Table():
                return replace(source, fields=tuple(field for field in source.fields if field.var in read))
            case Derived():
                return replace(source, query=prune_columns(source.query, read))
            case Join():
                on = self.maybe(source.on)
                read = read | used(on)
                return replace(
                    source, left=self._source(source.left, read), right=self._source(source.right, read), on=on
                )


def prune(query: Query) -> Query:
    """The query with the same columns, reading no more than it needs."""
    return _Prune().query(query)


def prune_columns(query: Query, read: set[str]) -> Query:
    """The query with those columns only that are in `read`, where that is possible."""
    if isinstance(query, Select) and not query.distinct:
        query = replace(query, outputs=tuple(output for output in query.outputs if output.var in read))
    elif isinstance(query, SetOperation) and query.kind == "union" and query.all:
        kept = [index for index, field in enumerate(query.columns) if field.var in read]
        if _can_drop(query.left) and _can_drop(query.right):
            left = prune_columns(query.left, {query.left.columns[index].var for index in kept})
            right = prune_columns(query.right, {query.right.columns[index].var for index in kept})
            query = replace(query, left=left, right=right, columns=tuple(query.columns[index] for index in kept))
    elif isinstance(query, Limited) and not read & {field.var for field in query.columns} and _can_drop(query.query):
        query = replace(query, query=prune_columns(query.query, set()), hidden=0, order=())
    return prune(query)


def _can_drop(query: Query) -> bool:
    """Whether `prune_columns` drops every column it is allowed to."""
    if isinstance(query, SetOperation):
        return query.kind == "union" and query.all and _can_drop(query.left) and _can_drop(query.right)
    return isinstance(query, Select) and not query.distinct
