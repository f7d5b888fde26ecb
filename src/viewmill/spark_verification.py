"""A view on Spark against its query, which Spark SQL answers over the rows of stored tables.

Compared are all rows that are kept, also those that a LIMIT hides, and with what they are sorted by: where rows tie,
SQL lets any be shown. Views below are computed anew, too, but for those with a LIMIT, which are as readers see them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from viewmill.algebra.functions import one_nan
from viewmill.catalog import ColumnInfo
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.engines.spark.evaluated import answered, asked, under_names
from viewmill.intake import Row
from viewmill.sql.respoken import in_spark, whole_in_spark
from viewmill.verification import Verification, compare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def verified(
    view: Definition,
    columns: tuple[ColumnInfo, ...],
    kept: Mapping[Row, int],
    definitions: Definitions,
    dialect: str,
    session: SparkSession,
    readable: Callable[[str], DataFrame],
) -> Verification:
    """`kept` are all rows of a view, of all `columns`. `readable` gives those of tables, and of views as they are."""

    def below(name: str) -> DataFrame:
        other = definitions.views.get(name)
        if other is None or other.presentation.cuts:
            return readable(name)
        return asked(session, in_spark(other.sql, dialect)).toDF(*(column.name for column in other.columns))

    needed = _needed(view, definitions)
    names = [name for name in (*definitions.tables, *definitions.views) if name in needed]
    with under_names(session, names, below):
        query = asked(session, whole_in_spark(view.sql, dialect, _hidden(view)))
        answer = Counter(map(_row, zip(*(c.to_pylist() for c in answered(query, columns).columns), strict=True)))
    return compare(view.name, {_row(row): weight for row, weight in kept.items()}, answer)


def _hidden(view: Definition) -> list[int]:
    """Which parts of ORDER BY the columns hold that only sort."""
    places = [key.column for key in view.presentation.order]
    first = len(view.columns)
    return [places.index(place) for place in range(first, first + view.presentation.hidden)]


def _row(row: Row) -> Row:
    return tuple(map(one_nan, row))


def _needed(view: Definition, definitions: Definitions) -> set[str]:
    names = set(view.reads)
    for name in view.reads & definitions.views.keys():
        if not definitions.views[name].presentation.cuts:
            names |= _needed(definitions.views[name], definitions)
    return names
