"""Batches routed to buckets by a few sends, without a mill."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from viewmill.arrow import arrow_schema
from viewmill.catalog import RelationInfo
from viewmill.distribute.nodes import WEIGHT, Send
from viewmill.engines.spark.counted import without_counts
from viewmill.engines.spark.frames import Counted
from viewmill.engines.spark.incoming import Incoming
from viewmill.engines.spark.message import MESSAGES, MESSAGES_IN_SPARK, Format, read
from viewmill.engines.spark.routing import Travelling, routing_task

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not see the tests


def form_of(sends: Sequence[Send]) -> Format:
    """Everything that these sends may send, with its count."""
    count = pa.field(WEIGHT, pa.int64(), nullable=False)
    return Format({send.info.name: arrow_schema(send.info.columns).append(count) for send in sends})


def routed(
    sends: Sequence[Send], frames: Mapping[str, DataFrame], relations: Mapping[str, RelationInfo], buckets: int
) -> DataFrame:
    """Messages to buckets."""
    form = form_of(sends)
    rows = Incoming().rows(sends, by_count(frames), relations, packed=True)
    tasks = {relation: routing_task(lambda: Travelling(form, sends, relations), relation, buckets) for relation in rows}
    return reduce(DataFrame.unionAll, (rows[name].mapInArrow(task, MESSAGES_IN_SPARK) for name, task in tasks.items()))


def by_count(frames: Mapping[str, DataFrame]) -> dict[str, list[Counted]]:
    """Frames that have a column of counts, as batches are given."""
    return {
        name: [Counted(frame.filter(F.col(WEIGHT) == count).drop(WEIGHT), count) for count in (1, -1, 2)]
        for name, frame in frames.items()
    }


def arrived(sends: Sequence[Send], table: pa.Table) -> dict[str, tuple[pa.RecordBatch, list[int]]]:
    """Rows and counts, by what they arrive as."""
    found = read(form_of(sends), table.select(MESSAGES.names).cast(MESSAGES))
    pairs = {name: without_counts(batch) for name, batch in found.items()}
    return {name: (rows, counts.tolist()) for name, (rows, counts) in pairs.items()}
