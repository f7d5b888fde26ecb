"""Rows of a batch, each of which counts some number of times, and how they travel: the count is a last column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewmill.distribute.nodes import WEIGHT
from viewmill.numbers import as_column, numbers

Rows = tuple[pa.RecordBatch, NDArray[np.int64]]
"""Rows, and how often each counts."""


def with_counts(rows: pa.RecordBatch, counts: NDArray[np.int64]) -> pa.RecordBatch:
    """Rows with their counts in a column, as they travel."""
    count = pa.field(WEIGHT, pa.int64(), nullable=False)
    return pa.RecordBatch.from_arrays([*rows.columns, as_column(counts)], schema=rows.schema.append(count))


def without_counts(batch: pa.RecordBatch) -> Rows:
    """The other way."""
    last = batch.num_columns - 1
    rows = batch.select(list(range(last))) if last else empty_rows(batch.num_rows)
    return rows, numbers(batch.column(last))


def empty_rows(number: int) -> pa.RecordBatch:
    """Rows without columns, which have only their number."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * number, pa.struct([])))
