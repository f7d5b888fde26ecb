"""Rows in parts: each row belongs to one, by what it is and by nothing else.

    part 1 of 3, part 2 of 3, part 3 of 3        every row once, about as many in each, of every bucket

Rows that come in carry a hash of their key, which says their part. A task that is run again, in whatever order it finds
its rows, sends every row to the part that it was sent to before. What happens to one key is in one part, in order, and
is right or wrong there as it is in the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PART_ROWS = 2**18
"""Rows of a bucket that are taken at once when there are many: what the tasks of a job have in memory follows this."""

HASH = "h"
"""The column of rows on their way to Python by which it is known in which part each is."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part `number` (from 1) of so many."""

    number: int
    of: int

    @property
    def is_last(self) -> bool:
        return self.number == self.of

    def __str__(self) -> str:
        return f"part {self.number} of {self.of}"


WHOLE = Part(1, 1)


def part_numbers(hashes: NDArray[np.int32], buckets: int, parts: int) -> NDArray[np.int64]:
    """The parts of rows with these hashes, from 0.

    Rows of one bucket may have hashes that are the same modulo the number of buckets: the digits above decide.
    """
    return np.mod(hashes.astype(np.int64), buckets * parts) // buckets


def apart(hashes: NDArray[np.int32], counts: NDArray[np.int64], buckets: int) -> NDArray[np.int32]:
    """Hashes for rows that occur so often, one for each time: the copies of a row are in one part after another.

    That is for rows which are only inserted, of which those that are alike may be many.
    """
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    copies = np.arange(len(starts)) - starts
    return (np.repeat(hashes, counts) + buckets * copies).astype(np.int32)  # which may wrap around


def parts(rows: int) -> tuple[Part, ...]:
    """As many as it takes if a bucket has so many rows."""
    number = max(1, -(-rows // PART_ROWS))
    return tuple(Part(i + 1, number) for i in range(number))
