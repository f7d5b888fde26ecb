"""A view on Spark against its query, which Spark SQL answers over the rows of stored tables.

Views below it are computed anew, too. Of rows that tie where a LIMIT cuts, SQL lets any be picked: then those that are
there have to be rows of the query without it, as many as Spark picks, and with the same values of what it is sorted by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from viewmill.algebra.functions import NAN
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.engines.spark.evaluated import answered, asked
from viewmill.intake import Row
from viewmill.sql.respoken import in_spark
from viewmill.verification import Verification, compare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def verified(
    view: Definition,
    shown: list[Row],
    definitions: Definitions,
    dialect: str,
    session: SparkSession,
    table: Callable[[str], DataFrame],
) -> Verification:
    """`shown` are the rows that readers of the view see, and `table` gives those of stored tables."""
    rows = Counter(map(_known, shown))
    with _below(view, definitions, dialect, session, table):
        verification = compare(view.name, rows, _answer(view, dialect, session))
        if verification or not view.presentation.cuts:
            return verification
        picked, every = _answer(view, dialect, session), _answer(view, dialect, session, limited=False)
    if sum(rows.values()) == sum(picked.values()) and _sorted_by(view, rows) == _sorted_by(view, picked):
        return compare(view.name, rows, rows & every)
    return verification


def _answer(view: Definition, dialect: str, session: SparkSession, *, limited: bool = True) -> Counter[Row]:
    found = answered(asked(session, in_spark(view.sql, dialect, limited=limited)), view.columns)
    return Counter(map(_known, zip(*(column.to_pylist() for column in found.columns), strict=True)))


def _sorted_by(view: Definition, rows: Counter[Row]) -> Counter[Row]:
    """What can be seen of what rows are sorted by."""
    places = [key.column for key in view.presentation.order if key.column < len(view.columns)]
    found: Counter[Row] = Counter()
    for row, count in rows.items():
        found[tuple(row[place] for place in places)] += count
    return found


def _known(row: Row) -> Row:
    """One NaN, so that equal rows are found by identity."""
    return tuple(NAN if value != value else value for value in row)


@contextmanager
def _below(
    view: Definition,
    definitions: Definitions,
    dialect: str,
    session: SparkSession,
    table: Callable[[str], DataFrame],
) -> Iterator[None]:
    """Everything that the query reads, under its name, made from stored tables alone."""
    needed, made = _needed(view, definitions), list[str]()
    try:
        for name in (*definitions.tables, *definitions.views):
            if name in needed:
                below = definitions.views.get(name)
                if below is None:
                    frame = table(name)
                else:
                    names = [column.name for column in below.columns]
                    frame = asked(session, in_spark(below.sql, dialect)).toDF(*names)
                frame.createOrReplaceTempView(name)
                made.append(name)
        yield
    finally:
        for name in made:
            session.catalog.dropTempView(name)


def _needed(view: Definition, definitions: Definitions) -> set[str]:
    names = set(view.reads)
    for name in view.reads & definitions.views.keys():
        names |= _needed(definitions.views[name], definitions)
    return names
