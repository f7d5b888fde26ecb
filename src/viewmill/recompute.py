"""The rows of a query from scratch: by a fresh engine, or by the reference evaluator.

The engine compiles the query for one reading and uses indexes: for ad-hoc queries. The reference evaluator shares no
code with compiler and engine and multiplies everything with everything: for checking them, on small data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from viewmill.algebra.evaluate import Contents, evaluate
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.engines.interpreter import Interpreter
from viewmill.errors import UnsupportedError
from viewmill.intake import Row
from viewmill.program.nodes import EMPTY
from viewmill.tables import BaseTable
from viewmill.wording import titled

Rows: TypeAlias = dict[Row, int]
Compute: TypeAlias = Callable[[Definition, Definitions, Mapping[str, Rows]], Rows]


def by_engine(query: Definition, definitions: Definitions, sources: Mapping[str, Rows]) -> Rows:
    """The query's rows, hidden columns included, over the rows of what it reads."""
    engine = Interpreter()
    engine.install(definitions.compiled(replace(query, maintain="reevaluate"), EMPTY), sources)
    return {row: int(weight) for row, weight in engine.contents(query.name).items()}


def by_reference(query: Definition, definitions: Definitions, sources: Mapping[str, Rows]) -> Rows:
    """The same, slowly and independently."""
    relations = definitions.kept.relations
    database = {name: Contents(relations[name].names, dict(rows)) for name, rows in sources.items()}
    return {row: int(weight) for row, weight in evaluate(query.expr, database).items()}


def recompute(view: Definition, definitions: Definitions, compute: Compute) -> Rows:
    """A view's rows from the base tables alone: the views below it are computed afresh, too."""
    return compute(view, definitions, {name: _source(name, definitions, compute) for name in view.reads})


def kept_rows(table: BaseTable) -> Rows:
    if not table.keeps_rows:
        raise UnsupportedError(
            f"the rows of {titled(table.info)} are not kept, so they cannot be read",
            hint="read a view over it, or use CREATE TABLE without stored = false",
        )
    return table.rows


def _source(name: str, definitions: Definitions, compute: Compute) -> Rows:
    view = definitions.views.get(name)
    if view is None:
        return kept_rows(definitions.tables[name])
    return read_rows(recompute(view, definitions, compute), view)


def read_rows(rows: Rows, view: Definition) -> Rows:
    """A view's rows as queries read them: without the hidden columns, unless these decide which rows are shown."""
    width = len(view.kept.columns)
    read: Rows = {}
    for row, weight in rows.items():
        read[row[:width]] = read.get(row[:width], 0) + weight
    return read
