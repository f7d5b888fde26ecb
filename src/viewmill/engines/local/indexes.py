"""A slice index: all records whose key has given values in given columns.

The index on columns (0, 2) of a pool with keys (a, b, c) answers "every record with this a and this c" in time that
follows the number of such records. Sub-keys are hashed to the first record of a doubly linked chain; the chains run
through two arrays as long as the pool, so linking and unlinking a record moves no memory.
"""

from __future__ import annotations

import numpy as np

from viewmill.engines.local import kernels
from viewmill.engines.local.kernels import Arrays, Slice
from viewmill.engines.local.memory import Memory

SMALLEST_TABLE = 16


def load_limit(size: int) -> int:
    """How many entries a hash table of this size may hold: five eighths keep probes short."""
    return size * 5 // 8


def table_size(entries: int) -> int:
    """The smallest power of two that may hold so many entries."""
    size = SMALLEST_TABLE
    while load_limit(size) < entries:
        size *= 2
    return size


class SliceIndex:
    def __init__(self, columns: tuple[int, ...], capacity: int, memory: Memory) -> None:
        self.columns = columns
        self._memory = memory
        self.arrays = Slice(
            columns=memory.array((len(columns),), np.int64),
            heads=memory.array((SMALLEST_TABLE,), np.int64),
            nexts=memory.array((capacity,), np.int64),
            prevs=memory.array((capacity,), np.int64),
            counts=memory.array((3,), np.int64),
        )
        self.arrays.columns[:] = columns
        self.arrays.counts[kernels.CHAIN_LIMIT] = load_limit(SMALLEST_TABLE)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def grow_records(self, capacity: int) -> None:
        """Follow the pool to a new capacity."""
        old = self.arrays
        nexts = self._memory.array((capacity,), np.int64)
        prevs = self._memory.array((capacity,), np.int64)
        nexts[: len(old.nexts)] = old.nexts
        prevs[: len(old.prevs)] = old.prevs
        self.arrays = old._replace(nexts=nexts, prevs=prevs)
        self._memory.release(old.nexts)
        self._memory.release(old.prevs)

    def reserve(self, chains: int) -> None:
        """Make room for so many more sub-keys."""
        old = self.arrays
        entries = int(old.counts[kernels.CHAINS]) + chains
        if entries <= old.counts[kernels.CHAIN_LIMIT]:
            return
        heads = self._memory.array((table_size(entries),), np.int64)
        kernels.copy_slots(old.heads, heads)
        old.counts[kernels.CHAIN_LIMIT] = load_limit(len(heads))
        self.arrays = old._replace(heads=heads)
        self._memory.release(old.heads)

    def link_new(self, pool: Arrays) -> None:
        """Index what the pool inserted since the last call, growing as needed."""
        while not kernels.link_new(pool, self.arrays):
            self.reserve(int(self.arrays.counts[kernels.CHAINS]) + 1)
