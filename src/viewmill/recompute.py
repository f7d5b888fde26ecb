"""The rows of a query from scratch, by the reference evaluator: for ad-hoc queries and for `verify`."""

from __future__ import annotations

from collections.abc import Mapping

from viewmill.algebra.evaluate import Contents, Database, evaluate
from viewmill.definition import Definition
from viewmill.errors import UnsupportedError
from viewmill.intake import Row
from viewmill.tables import BaseTable
from viewmill.wording import titled


def answer(definition: Definition, database: Database) -> dict[Row, int]:
    """The query's rows, hidden columns included."""
    return {row: int(weight) for row, weight in evaluate(definition.expr, database).items()}


def recompute(name: str, views: Mapping[str, Definition], tables: Mapping[str, BaseTable]) -> dict[Row, int]:
    """A view's rows from the base tables alone: the views below it are computed afresh, too."""
    return answer(views[name], {below: _contents(below, views, tables) for below in views[name].reads})


def table_contents(table: BaseTable) -> Contents:
    if not table.keeps_rows:
        raise UnsupportedError(
            f"the rows of {titled(table.info)} are not kept, so they cannot be read",
            hint="read a view over it, or use CREATE TABLE without stored = false",
        )
    return Contents(table.info.names, dict(table.rows))


def _contents(name: str, views: Mapping[str, Definition], tables: Mapping[str, BaseTable]) -> Contents:
    if name in views:
        return Contents(views[name].fields, dict(recompute(name, views, tables)))
    return table_contents(tables[name])
