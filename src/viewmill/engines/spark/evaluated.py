"""The rows that a statement changes, evaluated by Spark before anything is changed.

A DataFrame over the buckets reads them when it is run. One that is the batch as well would be run while the batch
changes them: so it is run first, and the executors keep its rows for the batch. If an executor is lost with them, the
job fails and nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NullType

from viewmill.arrow import arrow_schema
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.engines.spark.columns import spark_type
from viewmill.engines.spark.failure import raised, refused
from viewmill.errors import DataError, UnsupportedError, ViewmillError
from viewmill.wording import quoted, titled


def asked(session: SparkSession, text: str) -> DataFrame:
    """A query that we have understood; Spark may still see it differently."""
    try:
        return session.sql(text)
    except AnalysisException as error:
        reason = next(filter(None, map(str.strip, str(error).splitlines())), "it does not say why")
        raise UnsupportedError(f"Spark refuses the statement: {reason}", hint="say it in another way") from None


def answered(query: DataFrame, columns: Sequence[ColumnInfo]) -> pa.Table:
    """Its rows, under our names for its columns and with our types."""
    try:
        found = query.toArrow()
    except Exception as error:  # PySpark hands on some errors of Spark's just as they come
        raise refused(error) or _bad_row(error) or error from None
    names = [column.name for column in columns]
    nullable = pa.schema([field.with_nullable(True) for field in arrow_schema(columns)])
    try:
        return found.rename_columns(names).cast(nullable)
    except pa.ArrowInvalid as error:
        raise DataError(f"Spark's answer has a value that does not fit: {error}") from None


@contextmanager
def under_names(session: SparkSession, names: Iterable[str], frame: Callable[[str], DataFrame]) -> Iterator[None]:
    """Queries find these DataFrames under these names, each also while the next is made."""
    made: list[str] = []
    try:
        for name in names:
            frame(name).createOrReplaceTempView("`" + name.replace("`", "``") + "`")
            made.append(name)
        yield
    finally:
        for name in made:
            session.catalog.dropTempView(name)


def inserted(query: DataFrame, names: Sequence[str], info: RelationInfo) -> DataFrame | None:
    """Rows of a table from a query with values for some of its columns; None if there are none."""
    given = _numbered(query)
    places = {name: F.col(str(place)) for place, name in enumerate(names)}
    return evaluated(given.select(*_typed(given, [places.get(name, F.lit(None)) for name in info.names], info)))


def deleted(query: DataFrame, info: RelationInfo) -> DataFrame | None:
    """Rows of a table that a query gives whole."""
    return inserted(query, info.names, info)


def updated(query: DataFrame, info: RelationInfo) -> tuple[DataFrame, DataFrame] | None:
    """Rows before and after, from a query with both, one beside the other; those that stay the same are left out."""
    given, width = _numbered(query), len(info.columns)
    before = [F.col(str(place)) for place in range(width)]
    after = _typed(given, [F.col(str(place + width)) for place in range(width)], info)
    pairs = given.select(*before, *(column.alias(str(place + width)) for place, column in enumerate(after)))
    differ = reduce(Column.__or__, (~F.col(str(p)).eqNullSafe(F.col(str(p + width))) for p in range(width)))
    found = evaluated(pairs.filter(differ))
    if found is None:
        return None
    halves = (range(width), range(width, 2 * width))
    old, new = (found.select(*(F.col(str(p)) for p in half)).toDF(*info.names) for half in halves)
    return old, new


def evaluated(frame: DataFrame) -> DataFrame | None:
    """Its rows as they are now, whatever happens to what it reads; None if there are none."""
    try:
        kept = frame.localCheckpoint(eager=True)
        return None if kept.isEmpty() else kept
    except Exception as error:  # PySpark hands on some errors of Spark's just as they come
        raise refused(error) or _bad_row(error) or error from None


def _numbered(query: DataFrame) -> DataFrame:
    return query.toDF(*(str(place) for place in range(len(query.columns))))


def _typed(query: DataFrame, columns: Sequence[Column], info: RelationInfo) -> list[Column]:
    """As the columns of the table, rounded if need be; a value that its type does not have fails the job."""
    types = [field.dataType for field in query.select(*columns).schema]
    return [
        _stored(column, type_, known, info).alias(known.name)
        for column, type_, known in zip(columns, types, info.columns, strict=True)
    ]


def _stored(column: Column, type_: DataType, known: ColumnInfo, info: RelationInfo) -> Column:
    wanted = spark_type(known.type)
    if type_ in (wanted, NullType()):
        return column.cast(wanted)
    fitted = column.try_cast(wanted)
    message = f"a value for column {quoted(known.name)} of {titled(info)} does not fit {known.type}"
    return F.when(column.isNotNull() & fitted.isNull(), raised(message)).otherwise(fitted)


_BAD_ROW = re.compile(r"(\[[A-Z_.]+\][^\n]*?) SQLSTATE: 2[12]\w{3}")


def _bad_row(error: Exception) -> ViewmillError | None:
    """Spark's word for an overflow, a division by zero, a subquery with two rows: classes 21 and 22 of SQLSTATE."""
    found = _BAD_ROW.search(str(error))
    if found is None:
        return None
    return DataError(f"the statement cannot be evaluated: {found[1]}", hint="correct it; nothing was changed")
