"""Changes of which the last one of each key counts: a row that is there now, or a key that is not.

    {id: 1, price: 5, t: 1}, {id: 1, price: 7, t: 2}, {op: delete, id: 2, t: 1}     order_by = t
        ->  upsert (1, 7), discard 2

A key that is inserted and deleted within a batch was never there, and one that is deleted twice is gone: neither is a
mistake. Two last changes of a key that differ are one, which the key's bucket finds (`resolve.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from viewmill.catalog import RelationInfo
from viewmill.engines.spark.columns import checked, free_name
from viewmill.engines.spark.frames import Request
from viewmill.engines.spark.resolve import Op
from viewmill.sources.reading import columns, envelope, image, known_as, named, ordering, path

_WRITTEN = ("i", "c", "r", "insert", "create", "read", "+i", "u", "update", "upsert", "+u", "update_after")
_DELETED = ("d", "delete", "-d")
_PASSED = ("-u", "update_before", "update_preimage")
"""The row before an update, which the key alone finds."""


def upserts(frame: DataFrame, info: RelationInfo, order_by: Sequence[str]) -> list[Request]:
    """Whole rows."""
    frame = named(frame, info)
    last = _last(frame, info, ordering(frame, order_by, info))
    return [Request(info.name, Op.UPSERT, last.select(*columns(info.names)))]


def cdc(frame: DataFrame, info: RelationInfo, order_by: Sequence[str], op: str) -> list[Request]:
    """Whole rows and keys, with a column that says which."""
    frame = named(frame, info)
    told, row = path(frame, op, info), F.struct(*columns(info.names))
    said = F.lower(told.cast("string"))
    is_gone = F.when(said.isin(*_WRITTEN), F.lit(False)).when(said.isin(*_DELETED), F.lit(True))
    passed = F.coalesce(said.isin(*_PASSED), F.lit(False))
    rows, order = frame.filter(~passed), ordering(frame, order_by, info)
    return _by_key(rows, known_as(is_gone, op, told, row, info), info, order)


def last_envelopes(frame: DataFrame, info: RelationInfo, order_by: Sequence[str]) -> list[Request]:
    """Debezium's envelopes, of which only the key is read before a delete, and nothing before an update."""
    frame, said = envelope(frame, info)
    op, when = free_name("op", info.names), [free_name(f"by{number}_", info.names) for number in range(len(order_by))]
    order = [column.alias(name) for column, name in zip(ordering(frame, order_by, info), when, strict=True)]
    told = frame.select(said.alias(op), "before", "after", *order)
    is_gone = F.col(op) == "d"

    def value(name: str) -> Column:
        after = image(frame, "after", name, info)
        if name in info.primary_key:
            return F.when(is_gone, image(frame, "before", name, info)).otherwise(after).alias(name)
        return F.when(~is_gone, after).alias(name)

    rows = told.filter(F.col(op) != "m").select(*map(value, info.names), op, *when)
    return _by_key(rows, is_gone, info, [F.col(name) for name in when])


def _by_key(frame: DataFrame, is_gone: Column, info: RelationInfo, order: Sequence[Column]) -> list[Request]:
    gone = free_name("gone_", frame.columns)
    last = _last(frame.withColumn(gone, is_gone), info, order)
    removed, written = last.filter(F.col(gone)), last.filter(~F.col(gone))
    return [
        Request(info.name, Op.UPSERT, written.select(*columns(info.names))),
        Request(info.name, Op.DISCARD, removed.select(*columns(info.primary_key)), is_beside=True),
    ]


def _last(frame: DataFrame, info: RelationInfo, order: Sequence[Column]) -> DataFrame:
    """The last change of each key; several where nothing tells which is the last.

    Keys are the same if they are as the table has them: a text may come with a collation of its own.
    """
    if not order:
        return frame
    rank = free_name("rank_", frame.columns)
    keys = replace(info, columns=tuple(column for column in info.columns if column.name in info.primary_key))
    key = checked(frame.select(*columns(keys.names)).schema, keys).columns.values()
    window = Window.partitionBy(*key).orderBy(*(column.desc() for column in order))
    return frame.withColumn(rank, F.rank().over(window)).filter(F.col(rank) == 1).drop(rank)
