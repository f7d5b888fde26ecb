"""What INSERT, DELETE and UPDATE change, as a query in Spark SQL: for those who have Spark evaluate it.

    INSERT INTO t (b) SELECT c FROM s    =>  SELECT c FROM s
    DELETE FROM t WHERE a > 1            =>  SELECT t.a, t.b FROM t WHERE a > 1
    UPDATE t SET a = a + 1 WHERE b = 2   =>  SELECT t.a, t.b, a + 1, t.b FROM t WHERE b = 2

The rows are those of `bind_insert`, `bind_delete` and `bind_update`, before they get the types of the table's columns;
an INSERT has the columns that it names. Columns are known by their places: two of them may have one name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from viewmill.catalog import RelationInfo
from viewmill.sql.statements import Delete, Insert, Update


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """`names` are those of everything it may read; some may be its own, given by WITH."""

    text: str
    names: frozenset[str]


def changed_in_spark(statement: Insert | Delete | Update, info: RelationInfo) -> SparkQuery:
    match statement:
        case Insert(_, _, query, _):
            tree = query.tree
        case Delete(_, parsed, _):
            tree = _affected(parsed.tree, _as_they_are(parsed.tree, info))
        case Update(_, parsed, _):
            before = _as_they_are(parsed.tree, info)
            values = {assignment.this.name: assignment.expression for assignment in parsed.tree.expressions}
            tree = _affected(parsed.tree, {**before, **_after(before, values)})
        case _:
            assert_never(statement)
    names = frozenset(table.name for table in tree.find_all(exp.Table))
    return SparkQuery(tree.sql(dialect="spark", identify=True), names)


def _as_they_are(tree: exp.Expr, info: RelationInfo) -> dict[str, exp.Expr]:
    table = tree.this.alias_or_name
    return {name: exp.column(name, table=table) for name in info.names}


def _after(before: Mapping[str, exp.Expr], values: Mapping[str, exp.Expr]) -> dict[str, exp.Expr]:
    return {f"new {name}": values.get(name, column) for name, column in before.items()}


def _affected(tree: exp.Expr, outputs: Mapping[str, exp.Expr]) -> exp.Expr:
    """`SELECT outputs FROM table WHERE ...`"""
    select = exp.select(*(output.copy() for output in outputs.values())).from_(tree.this.copy())
    where = tree.args.get("where")
    return select if where is None else select.where(where.this.copy())
