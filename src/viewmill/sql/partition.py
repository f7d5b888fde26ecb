"""PARTITION BY: the columns by which the rows of a table or view are spread over buckets.

    CREATE TABLE items (...) PARTITION BY (order_id)                   PARTITIONED BY, as Spark has it, is the same
    CREATE MATERIALIZED VIEW v PARTITION BY (region) AS SELECT ...

It says where rows live, never which rows there are: a mill that has no buckets looks the names up, and that is all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from viewmill.errors import BindError
from viewmill.sql.cursor import Cursor
from viewmill.sql.statements import NamedColumn
from viewmill.wording import nearest, quoted


def partition_by(cursor: Cursor) -> tuple[NamedColumn, ...]:
    """The clause, if it is there."""
    if not (cursor.accept("PARTITION BY") or cursor.accept("PARTITIONED BY")):  # one token each to sqlglot
        return ()
    cursor.expect("(")
    columns = [NamedColumn(*cursor.name("a column name"))]
    while cursor.accept(","):
        columns.append(NamedColumn(*cursor.name("a column name")))
    cursor.expect(")")
    return tuple(columns)


def partition_columns(named: Sequence[NamedColumn], known: Collection[str], owner: str) -> tuple[str, ...]:
    """Their names, each of which must be one of the `known` columns of `owner`, and named once."""
    found: list[str] = []
    for column in named:
        if column.name not in known:
            raise BindError(
                f"{owner} has no column {quoted(column.name)} to partition by",
                span=column.span,
                hint=nearest(column.name, known, "the columns are"),
            )
        if column.name in found:
            raise BindError(f"PARTITION BY names column {quoted(column.name)} twice", span=column.span)
        found.append(column.name)
    return tuple(found)
