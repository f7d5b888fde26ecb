"""Changes of which the last one of each key counts: a row that is there now, or a key that is not.

    {id: 1, price: 5, t: 1}, {id: 1, price: 7, t: 2}, {op: delete, id: 2, t: 1}     order_by = t
        ->  upsert (1, 7), discard 2

A key that is inserted and deleted within a batch was never there, and one that is deleted twice is gone: neither is a
mistake. Two last changes of a key that differ are one, which the key's bucket finds (`resolve.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from viewmill.catalog import RelationInfo
from viewmill.engines.spark.columns import free_name
from viewmill.engines.spark.frames import Request
from viewmill.engines.spark.resolve import Op
from viewmill.sources.reading import columns, envelope, image, known_as, need, paths

_WRITTEN = ("i", "c", "r", "insert", "create", "read", "+i", "u", "update", "upsert", "+u", "update_after")
_DELETED = ("d", "delete", "-d")
_PASSED = ("-u", "update_before", "update_preimage")
"""The row before an update, which the key alone finds."""


def upserts(frame: DataFrame, info: RelationInfo, order_by: Sequence[str]) -> list[Request]:
    """Whole rows."""
    need(frame, columns(info.names) | paths(order_by), info)
    return [Request(info.name, Op.UPSERT, _last(frame, info, order_by).select(*columns(info.names).values()))]


def cdc(frame: DataFrame, info: RelationInfo, order_by: Sequence[str], op: str) -> list[Request]:
    """Whole rows and keys, with a column that says which."""
    need(frame, paths((op, *order_by)) | columns(info.names), info)
    said, row = F.lower(F.col(op).cast("string")), F.struct(*columns(info.names).values())
    is_gone = F.when(said.isin(*_WRITTEN), F.lit(False)).when(said.isin(*_DELETED), F.lit(True))
    passed = F.coalesce(said.isin(*_PASSED), F.lit(False))
    return _by_key(frame.filter(~passed), known_as(is_gone, op, F.col(op), row, info), info, order_by)


def last_envelopes(frame: DataFrame, info: RelationInfo, order_by: Sequence[str]) -> list[Request]:
    """Debezium's envelopes, of which only the key is read before a delete, and nothing before an update."""
    frame, said = envelope(frame, info)
    need(frame, paths(order_by), info)
    op, when = free_name("op", info.names), [free_name(f"by{number}_", info.names) for number in range(len(order_by))]
    told = frame.select(said.alias(op), "before", "after", *map(F.col, order_by)).toDF(op, "before", "after", *when)
    is_gone = F.col(op) == "d"
    row = [
        F.when(is_gone, image("before", name, info)).otherwise(image("after", name, info)).alias(name)
        if name in info.primary_key
        else F.when(~is_gone, image("after", name, info)).alias(name)
        for name in info.names
    ]
    rows = told.filter(F.col(op) != "m").select(*row, op, *when)
    return _by_key(rows, is_gone, info, when)


def _by_key(frame: DataFrame, is_gone: Column, info: RelationInfo, order_by: Sequence[str]) -> list[Request]:
    gone = free_name("gone_", frame.columns)
    last = _last(frame.withColumn(gone, is_gone), info, order_by)
    return [
        Request(info.name, Op.UPSERT, last.filter(~F.col(gone)).select(*columns(info.names).values())),
        Request(
            info.name, Op.DISCARD, last.filter(F.col(gone)).select(*columns(info.primary_key).values()), is_beside=True
        ),
    ]


def _last(frame: DataFrame, info: RelationInfo, order_by: Sequence[str]) -> DataFrame:
    """The last change of each key; several where nothing tells which is the last."""
    if not order_by:
        return frame
    rank = free_name("rank_", frame.columns)
    window = Window.partitionBy(*columns(info.primary_key).values()).orderBy(*(F.col(name).desc() for name in order_by))
    return frame.withColumn(rank, F.rank().over(window)).filter(F.col(rank) == 1).drop(rank)
