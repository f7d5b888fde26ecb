"""What arrived in a bucket, or on the driver, by name: rows, and how often each counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewmill.catalog import RelationInfo
from viewmill.distribute.nodes import WEIGHT
from viewmill.engines.local.pending import PendingData
from viewmill.engines.spark.incoming import split
from viewmill.engines.spark.message import read
from viewmill.engines.spark.work import Deployed
from viewmill.numbers import numbers


@dataclass(frozen=True, slots=True)
class Arrival:
    """Without counts, every row counts once."""

    rows: pa.RecordBatch
    counts: NDArray[np.int64] | None = None

    def pending(self, info: RelationInfo) -> PendingData:
        """As the batch of a relation that has some of the columns."""
        rows = self.rows.select(list(info.names))
        return PendingData(info, rows, 1 if self.counts is None else self.counts)

    def message(self, info: RelationInfo) -> pa.RecordBatch:
        """As it is sent on."""
        rows = self.rows.select(list(info.names))
        if self.counts is None:
            return rows
        count = pa.field(WEIGHT, pa.int64(), nullable=False)
        return pa.RecordBatch.from_arrays([*rows.columns, pa.array(self.counts)], schema=rows.schema.append(count))


Arrivals = dict[str, Arrival]


def from_source(deployed: Deployed, relations: tuple[str, ...], table: pa.Table) -> Arrivals:
    """Rows of a batch that Spark brought here."""
    found = split(deployed.sends(relations), table)
    return {name: Arrival(rows, numbers(counts)) for name, (rows, counts) in found.items()}


def from_messages(deployed: Deployed, table: pa.Table) -> Arrivals:
    arrivals: Arrivals = {}
    for name, batch in read(deployed.format, table).items():
        if name in deployed.counted:
            last = batch.num_columns - 1
            arrivals[name] = Arrival(batch.select(list(range(last))), numbers(batch.column(last)))
        else:
            arrivals[name] = Arrival(batch)
    return arrivals
