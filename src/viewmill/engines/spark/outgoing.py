"""Rows on their way from where they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

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
        return Outgoing(send.info.name, send.to, lets[send.source].select(list(send.info.names)))
    if send.source in arrivals:
        return Outgoing(send.info.name, send.to, arrivals[send.source].message(send.info))
    return None
