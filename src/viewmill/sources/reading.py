"""What all change formats read: columns that have to be there, and words that have to be known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


def columns(names: Iterable[str]) -> dict[str, Column]:
    return {name: exactly(name) for name in names}


def paths(names: Iterable[str]) -> dict[str, Column]:
    """The same for names that people give, which may lead into structs."""
    return {name: F.col(name) for name in names}


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
        frame = frame.select("payload.*")
    need(frame, paths(("op", "before", "after")), info)
    for name in ("before", "after"):
        if not isinstance(frame.select(name).schema[0].dataType, StructType):
            raise DataError(
                f"column {quoted(name)} of the changes of {titled(info)} is no struct",
                hint="parse the envelope with from_json first",
            )
    op, before, after = F.col("op"), F.col("before"), F.col("after")
    is_empty = op.isNull() & before.isNull() & after.isNull()
    said = F.when(op.isin("c", "r", "u", "d", "m"), op).when(is_empty, F.lit("m"))
    return frame, known_as(said, "op", op, F.struct(before, after), info)


def image(name: str, column: str, info: RelationInfo) -> Column:
    """A column of the row before a change, or after it. Without the row the change cannot be followed."""
    missing = (
        f"a change of {titled(info)} lacks the row {name} it: "
        "have the database send it (REPLICA IDENTITY FULL), or give order_by, with which an update needs none"
    )
    row = F.when(F.col(name).isNotNull(), F.col(name)).otherwise(raised(missing))
    return row.getField(column).alias(column)


def need(frame: DataFrame, wanted: Mapping[str, Column], info: RelationInfo) -> None:
    """Columns that have to be there."""
    for name, column in wanted.items():
        try:
            frame.select(column)
        except AnalysisException:
            raise DataError(
                f"the changes of {titled(info)} have no column {quoted(name)}",
                hint=nearest(name, frame.columns, "the columns are"),
            ) from None
