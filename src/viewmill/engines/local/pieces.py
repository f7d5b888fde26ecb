"""The rows of a store, some at a time, and of these the columns that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

PIECE = 2**16
"""Rows of a piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows, and how often each occurs. `column` gives the values of a column at some of them."""

    counts: NDArray[np.int64]
    column: Callable[[int, NDArray[np.int64]], pa.Array]

    def columns(self, numbers: tuple[int, ...]) -> list[pa.Array]:
        """Some columns of all rows."""
        every = np.arange(len(self.counts))
        return [self.column(number, every) for number in numbers]

    def repeated(self, counts: NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
        """All columns of rows, each as often as its count says."""
        places = np.repeat(np.arange(len(counts)), counts)
        return pa.RecordBatch.from_arrays([self.column(i, places) for i in range(len(schema))], schema=schema)
