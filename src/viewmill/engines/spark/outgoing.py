"""Rows on their way from where they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from viewmill.arrow import arrow_type
from viewmill.catalog import RelationInfo
from viewmill.distribute.nodes import Place, Send
from viewmill.engines.spark.arrivals import Arrivals


@dataclass(frozen=True, slots=True)
class Outgoing:
    """`name` is what the rows arrive as."""

    name: str
    to: Place
    rows: pa.RecordBatch


def outgoing(send: Send, lets: Mapping[str, pa.RecordBatch], arrivals: Arrivals) -> Outgoing | None:
    """What is sent, if it is there: a `let`, or something that arrived and is sent on."""
    if send.source in lets:
        return Outgoing(send.info.name, send.to, _typed(lets[send.source].select(list(send.info.names)), send.info))
    if send.source in arrivals:
        return Outgoing(send.info.name, send.to, arrivals[send.source].message(send.info))
    return None


def _typed(rows: pa.RecordBatch, info: RelationInfo) -> pa.RecordBatch:
    """A column that is NULL in every row has no type where it was made, and travels as one of some type."""
    if not any(pa.types.is_null(column.type) for column in rows.columns):
        return rows
    wanted = [arrow_type(column.type) for column in info.columns]
    arrays = [
        pa.nulls(rows.num_rows, type_) if pa.types.is_null(column.type) else column
        for column, type_ in zip(rows.columns, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)
