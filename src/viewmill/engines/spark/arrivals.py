"""What arrived in a bucket, or on the driver, by name: rows, and how often each counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewmill.catalog import RelationInfo
from viewmill.engines.local.pending import PendingData
from viewmill.engines.spark.counted import with_counts, without_counts
from viewmill.engines.spark.message import read
from viewmill.engines.spark.work import Deployed


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
        return rows if self.counts is None else with_counts(rows, self.counts)


Arrivals = dict[str, Arrival]


def from_messages(deployed: Deployed, table: pa.Table) -> Arrivals:
    arrivals: Arrivals = {}
    for name, batch in read(deployed.format, table).items():
        arrivals[name] = Arrival(*without_counts(batch)) if name in deployed.counted else Arrival(batch)
    return arrivals
