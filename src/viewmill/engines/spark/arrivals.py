"""What arrived in a bucket, or on the driver, by name: rows, and how often each counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewmill.catalog import RelationInfo
from viewmill.engines.local.pending import PendingData
from viewmill.engines.spark.message import read
from viewmill.engines.spark.routing import with_counts, without_counts
from viewmill.engines.spark.work import Deployed
from viewmill.numbers import numbers

_COUNT = " count"


@dataclass(frozen=True, slots=True)
class Arrival:
    """Without counts, every row counts once."""

    rows: pa.RecordBatch
    counts: NDArray[np.int64] | None = None

    def pending(self, info: RelationInfo) -> PendingData:
        """As the batch of a relation that has some of the columns."""
        rows = self.rows.select(list(info.names))
        return PendingData(info, rows, 1 if self.counts is None else self.counts)

    def net(self) -> Arrival:
        """Each row once, and none that does not count."""
        if self.counts is None or not len(self.counts) or (self.counts > 0).all() or (self.counts < 0).all():
            return self
        names = self.rows.schema.names
        table = pa.Table.from_batches([self.rows]).append_column(_COUNT, pa.array(self.counts))
        found = table.group_by(names).aggregate([(_COUNT, "sum")])
        found = found.filter(pc.not_equal(found.column(f"{_COUNT}_sum"), 0)).combine_chunks()
        columns = [found.column(name).combine_chunks() for name in names]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.rows.schema)
        return Arrival(rows, numbers(found.column(f"{_COUNT}_sum").combine_chunks()))

    def message(self, info: RelationInfo) -> pa.RecordBatch:
        """As it is sent on."""
        rows = self.rows.select(list(info.names))
        return rows if self.counts is None else with_counts(rows, self.counts)


Arrivals = dict[str, Arrival]


def from_messages(deployed: Deployed, table: pa.Table) -> Arrivals:
    """What waits for a later block is net there, so that it is net everywhere: an `Exists` of the batch must hold for
    the same rows wherever it is asked.
    """
    arrivals: Arrivals = {}
    for name, batch in read(deployed.format, table).items():
        arrival = Arrival(*without_counts(batch)) if name in deployed.counted else Arrival(batch)
        arrivals[name] = arrival.net() if name in deployed.awaited else arrival
    return arrivals
