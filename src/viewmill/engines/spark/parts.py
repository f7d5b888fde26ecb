"""Rows in parts: each row belongs to one, by what it is and by nothing else.

    part 1 of 3, part 2 of 3, part 3 of 3        every row once, about as many in each, of every bucket

Whoever reads the rows, whenever and in whatever order, finds the same parts: a bucket that was lost and made again
between two of them loses no row and gives none twice. Of a row that occurs several times, parts have about as many.

A batch is cut by the keys of its rows. What happens to one key is then in one part, in order, and is right or wrong
there as it is in the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column

from viewmill.engines.spark.hash import bucket_array, bucket_column
from viewmill.types import Type

PART_ROWS = 2**18
"""Rows of a bucket that are taken at once when there are many: what the tasks of a job have in memory follows this."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part `number` (from 1) of so many."""

    number: int
    of: int

    def share(self, key: Sequence[pa.Array], counts: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
        """How many copies of each row are in this part, if rows have these keys and counts.

        Rows of one bucket may have hashes that are the same modulo the number of buckets: the digits above decide.
        """
        if self.of == 1:
            return counts
        first = bucket_array(key, buckets * self.of, len(counts)).astype(np.int64) // buckets
        later = (self.number - 1 - first) % self.of  # copies of a row go to one part after another
        share: NDArray[np.int64] = np.maximum(counts - later + self.of - 1, 0) // self.of
        return share

    def holds(self, key: Sequence[tuple[Column, Type]], buckets: int) -> Column:
        """Whether a row that comes in, which has this key, is in this part: all rows with one key are in the same."""
        first = bucket_column(key, buckets * self.of)
        return first.between((self.number - 1) * buckets, self.number * buckets - 1)

    def __str__(self) -> str:
        return f"part {self.number} of {self.of}"


WHOLE = Part(1, 1)


def parts(rows: int) -> tuple[Part, ...]:
    """As many as it takes if a bucket has so many rows."""
    number = max(1, -(-rows // PART_ROWS))
    return tuple(Part(i + 1, number) for i in range(number))
