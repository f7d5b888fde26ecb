"""Data for a table as a DataFrame, whatever it was given as; and what is asked to happen to its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from viewmill.arrow import arrow_table
from viewmill.catalog import RelationInfo
from viewmill.engines.spark.columns import checked, exactly, free_name, spark_type
from viewmill.engines.spark.evaluated import evaluated
from viewmill.engines.spark.resolve import BY_KEY, Op
from viewmill.errors import BindError, DataError
from viewmill.intake import given_columns, given_rows, key_alone, whole_row
from viewmill.tables import BaseTable
from viewmill.wording import titled


@dataclass(frozen=True, slots=True)
class Request:
    """Rows of a relation, and what is to happen to them."""

    relation: str
    op: Op
    frame: DataFrame
    is_small: bool = False  # the driver has had all of its rows
    is_beside: bool = False  # the request before it: neither is first


def is_frame(data: object) -> bool:
    """A DataFrame of Spark, classic or over Connect."""
    return hasattr(data, "sparkSession") and hasattr(data, "mapInArrow")


def frame_of(spark: SparkSession, data: object, base: BaseTable, *, replaces: bool = False) -> DataFrame | None:
    """What the caller gave, on Spark. What is not there yet is checked row by row, as an embedded mill does.

    Rows on Spark have no order. If each `replaces` the row of its key, it is the last of several that counts.
    None if there are no rows, and that is known without a job.
    """
    info = base.info
    if is_frame(data):
        assert isinstance(data, DataFrame)
        return data
    columns = given_columns(data, info)
    rows = given_rows(data, info)
    if not rows:
        return None
    if (columns is not None and len(columns) < len(info.columns)) or key_alone(rows[0], info) is not None:
        keys = [key_alone(row, info) for row in rows]
        if any(key is None for key in keys):
            raise DataError(f"some rows for {titled(info)} are whole, and some have only the key")
        named = [column for name in info.primary_key if (column := info.column(name)) is not None]
        return spark.createDataFrame(arrow_table(named, [key for key in keys if key is not None]))
    whole = [whole_row(row, info) for row in rows]
    if replaces:
        whole = list({base.key(row): row for row in whole}.values())
    return spark.createDataFrame(arrow_table(info.columns, whole))


def replaced(there: DataFrame | None, new: DataFrame | None, info: RelationInfo) -> list[tuple[Op, DataFrame]]:
    """What makes the rows of a table from those that are there. Rows that stay are not touched.

    The new rows are computed once, now: they may be others the next time, and those that come have to be of the same
    time as those that go.
    """
    if there is None or new is None:
        return [(op, frame) for op, frame in ((Op.DELETE, there), (Op.INSERT, new)) if frame is not None]
    given, names = checked(new.schema, info), [exactly(name) for name in info.names]
    columns = (given.guarded(column, [name]).alias(name) for name, column in given.columns.items())
    count = free_name("count_", info.names)
    both = there.select(*names, F.lit(-1).alias(count)).unionAll(new.select(*columns, F.lit(1).alias(count)))
    net = both.groupBy(*names).agg(F.sum(count).cast("int").alias(count)).filter(F.col(count) != 0)
    changed = evaluated(net)
    if changed is None:
        return []
    times = F.explode(F.array_repeat(F.lit(0), F.abs(F.col(count))))
    signs = ((Op.DELETE, F.col(count) < 0), (Op.INSERT, F.col(count) > 0))
    return [(op, changed.filter(sign).select(*names, times.alias(count)).drop(count)) for op, sign in signs]


def has_key_alone(frame: DataFrame, info: RelationInfo) -> bool:
    names = {name.lower() for name in frame.columns}
    return bool(info.primary_key) and names == set(info.primary_key) and len(names) < len(info.columns)


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows of a relation that all have one count: 1 or -1, or for a stored table the code of an operation."""

    frame: DataFrame
    count: int


def counted(requests: Sequence[Request], info: RelationInfo, *, stored: bool) -> list[Counted]:
    """All requests for one relation, each with what it is."""
    found, number = [], -1
    for request in requests:
        number += not request.is_beside
        if stored:
            code = request.op.code(number)
        elif request.op in _SIGNS:
            code = _SIGNS[request.op]
        else:
            raise BindError(
                f"cannot {_VERBS[request.op]} {titled(info)}: its rows are not kept",
                hint="delete the old rows and insert the new ones in one batch, both whole",
            )
        found.append(Counted(_whole(request, info), code))
    return found


_SIGNS = {Op.INSERT: 1, Op.ADD: 1, Op.DELETE: -1, Op.REMOVE: -1}
_VERBS = {Op.UPDATE: "update", Op.UPSERT: "upsert into"} | dict.fromkeys(BY_KEY, "delete by key from")


def _whole(request: Request, info: RelationInfo) -> DataFrame:
    """With NULL for columns that a delete by key does not give."""
    frame = request.frame
    if request.op not in BY_KEY:
        return frame
    missing = [column for column in info.columns if column.name not in {name.lower() for name in frame.columns}]
    return frame.select("*", *(F.lit(None).cast(spark_type(column.type)).alias(column.name) for column in missing))
