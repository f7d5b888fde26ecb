"""LIMIT and OFFSET inside of a query -> algebra.

    (SELECT a FROM r ORDER BY b DESC LIMIT 3)        TopK[b desc, a; 3](R(a, b))

The order goes on with all other columns, from the left, so that it is total: SQL lets any of the rows that tie be
picked, and we always pick the same ones. Without ORDER BY these are the least rows.
"""

from __future__ import annotations

from viewmill.algebra.build import product, test, top_k
from viewmill.algebra.nodes import SortBy
from viewmill.algebra.scalars import FALSE, Var
from viewmill.sql.bound import Limited, SortKey
from viewmill.translate.context import Context
from viewmill.translate.rows import Rows, named


def limited(context: Context, query: Limited) -> Rows:
    columns = tuple(column.var for column in query.query.columns)
    body = named(context.rows(query.query), columns)
    shown = tuple(Var(column.var) for column in query.columns)
    if query.limit == 0:
        return Rows(product(body, test(FALSE)), shown)
    return Rows(top_k(total_order(columns, query.order), query.limit, query.offset, body), shown)


def total_order(columns: tuple[str, ...], keys: tuple[SortKey, ...]) -> tuple[SortBy, ...]:
    """The keys, then every other column, ascending."""
    given = [SortBy(columns[key.column], key.descending, key.nulls_first) for key in keys]
    named = {key.var for key in given}
    return (*given, *(SortBy(column) for column in columns if column not in named))
