"""What all change formats read: columns that have to be there, and words that have to be known.

Names of a relation's columns are found in any case, also in a session that tells cases apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from viewmill.catalog import RelationInfo
from viewmill.engines.spark.columns import exactly
from viewmill.engines.spark.failure import raised
from viewmill.errors import DataError
from viewmill.wording import nearest, quoted, titled

_SHOWN = 120


def columns(names: Iterable[str]) -> list[Column]:
    return [exactly(name) for name in names]


def named(frame: DataFrame, info: RelationInfo) -> DataFrame:
    """The frame, in which the relation's columns are there and have its names."""
    found = [name.lower() for name in frame.columns]
    for name in info.names:
        if name not in found:
            raise _missing(name, frame.columns, info)
        if found.count(name) > 1:
            raise DataError(f"column {quoted(name)} is given twice for {titled(info)}")
    others = [name for name in frame.columns if name.lower() not in info.names and found.count(name.lower()) == 1]
    ours = {name.lower(): name for name in frame.columns}
    return frame.select(*columns(others), *(exactly(ours[name]).alias(name) for name in info.names))


def path(frame: DataFrame, name: str, info: RelationInfo) -> Column:
    """A column, or a field of a struct, that people have named."""
    try:
        column = F.col(name)
        frame.select(column)
    except AnalysisException:
        raise _missing(name, frame.columns, info) from None
    return column


def ordering(frame: DataFrame, names: Sequence[str], info: RelationInfo) -> list[Column]:
    """What tells which row is the last."""
    found = [path(frame, name, info) for name in names]
    try:
        for column in found:
            frame.orderBy(column)
    except AnalysisException:
        raise DataError(
            f"the changes of {titled(info)} cannot be ordered by {quoted(names)}",
            hint="name columns of numbers, texts, dates or times",
        ) from None
    return found


def known_as(found: Column, name: str, said: Column, row: Column, info: RelationInfo) -> Column:
    """`found`, which is what a row says in column `name`; if it is NULL, nothing that is known: an error in the job."""
    word = F.coalesce(F.concat(F.lit('"'), said.cast("string"), F.lit('"')), F.lit("NULL"))
    told = F.substring(F.coalesce(F.to_json(row), F.lit("{}")), 1, _SHOWN)
    message = f"column {quoted(name)} of a change of {titled(info)} is "
    return F.coalesce(found, raised(F.concat(F.lit(message), word, F.lit(", which is no kind of change: "), told)))


def envelope(frame: DataFrame, info: RelationInfo) -> tuple[DataFrame, Column]:
    """Debezium's envelopes, and of each what it says: `c`, `r`, `u`, `d`, or `m` for those that say nothing of a row.

    These are Postgres's messages, and what Kafka is sent after a delete so that it forgets the key.
    """
    if "payload" in frame.columns:
        _fields(frame, "payload", info)
        frame = frame.select("payload.*")
    op, before, after = (path(frame, name, info) for name in ("op", "before", "after"))
    is_empty = op.isNull() & before.isNull() & after.isNull()
    said = F.when(op.isin("c", "r", "u", "d", "m"), op).when(is_empty, F.lit("m"))
    return frame, known_as(said, "op", op, F.struct(before, after), info)


def image(frame: DataFrame, name: str, column: str, info: RelationInfo) -> Column:
    """A column of the row `before` a change, or `after` it. Without the row the change cannot be followed."""
    names = _fields(frame, name, info)
    found = next((field for field in names if field.lower() == column), None)
    if found is None:
        raise _missing(f"{name}.{column}", [f"{name}.{field}" for field in names], info)
    missing = (
        f"a change of {titled(info)} lacks the row {name} it: "
        "have the database send it (REPLICA IDENTITY FULL), or give order_by, with which an update needs none"
    )
    row = F.when(F.col(name).isNotNull(), F.col(name)).otherwise(raised(missing))
    return row.getField(found).alias(column)


def _fields(frame: DataFrame, name: str, info: RelationInfo) -> list[str]:
    """The names in a struct."""
    kind = frame.select(name).schema[0].dataType
    if not isinstance(kind, StructType):
        raise DataError(
            f"column {quoted(name)} of the changes of {titled(info)} is no struct",
            hint="parse the envelope with from_json first",
        )
    return kind.names


def _missing(name: str, there: Sequence[str], info: RelationInfo) -> DataError:
    return DataError(
        f"the changes of {titled(info)} have no column {quoted(name)}", hint=nearest(name, there, "the columns are")
    )
