"""A slice index: all records whose key has given values in given columns.

The index on columns (0, 2) of a pool with keys (a, b, c) answers "every record with this a and this c" in time that
follows the number of such records. Compiled code does that (`chains.py`, `lookup.py`); here are the arrays, and the
words of the pool's control block that say where they are.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from viewmill.engines.local import layout
from viewmill.engines.local.kernels import copy_slots, spread_slots
from viewmill.engines.local.memory import Memory, Shared
from viewmill.engines.local.tables import SMALLEST_TABLE, load_limit, table_size

Ints: TypeAlias = NDArray[np.int64]


def address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)


class SliceIndex:
    """The arrays of one slice. `words` is its part of the control block."""

    def __init__(self, columns: tuple[int, ...], words: Ints, capacity: int, memory: Memory) -> None:
        self.columns = columns
        self.words = words
        self._memory = memory
        self._positions: Ints = memory.array((1 + len(columns),), np.int64)
        self._positions[:] = (len(columns), *columns)
        self.heads: Ints
        self.links: NDArray[np.int32]
        self.start_again(capacity)

    @classmethod
    def held(cls, words: Ints, capacity: int, memory: Shared) -> SliceIndex:
        """The slice that these words tell of."""
        index = object.__new__(cls)
        index.words, index._memory = words, memory
        index._positions = positions_at(int(words[layout.COLUMNS]), memory)
        index.columns = tuple(index._positions[1:].tolist())
        index.heads = memory.at(int(words[layout.HEADS]), (int(words[layout.HEAD_ROOM]),), np.int64)
        index.links = memory.at(int(words[layout.LINKS]), (capacity, 2), np.int32)
        return index

    def start_again(self, capacity: int) -> None:
        """An index without records, for a pool of this capacity."""
        self.heads = self._memory.array((SMALLEST_TABLE,), np.int64)
        self.links = self._memory.array((capacity, 2), np.int32)
        self._publish()

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self._positions, self.heads, self.links

    def grow_records(self, capacity: int) -> None:
        """Follow the pool to a new capacity."""
        try:
            self.links = self._memory.longer(self.links, capacity)
        finally:
            self._publish()

    def reserve(self, chains: int) -> None:
        """Make room for so many sub-keys."""
        if chains > load_limit(len(self.heads)):
            old = self.heads
            self.heads = wider(self._memory, old, int(self.words[layout.CHAIN_MASK]) + 1, chains)
            self._publish()

    def _publish(self) -> None:
        words = self.words
        words[layout.COLUMNS] = address(self._positions)
        words[layout.LINKS] = address(self.links)
        if (words[layout.HEADS], words[layout.HEAD_ROOM]) != (address(self.heads), len(self.heads)):
            words[layout.HEADS] = address(self.heads)
            words[layout.HEAD_ROOM] = len(self.heads)
            words[layout.CHAIN_MASK] = len(self.heads) - 1
            words[layout.CHAIN_LIMIT] = load_limit(len(self.heads))


def positions_at(where: int, memory: Shared) -> Ints:
    """The positions of a sub-key's columns, their number first."""
    count = int(memory.at(where, (1,), np.int64)[0])
    return memory.at(where, (1 + count,), np.int64)


def expect_wider(memory: Memory, table: Ints, entries: int, more: int) -> None:
    """Have memory made ready for a table of twice the size: the fuller it is, the more of it."""
    size = len(table)
    share = min((entries + more) / load_limit(size), 1.0)
    memory.expect(table, size, int(2 * size * share))


def wider(memory: Memory, old: Ints, used: int, entries: int) -> Ints:
    """A table for so many entries, with those of the old one's part in use, which is given up."""
    size = table_size(entries)
    same = memory.in_place(old, size) if used == len(old) < size else None
    if same is not None:
        if spread_slots(address(same), used, size - 1):
            return same
        old, used = same, size
    new: Ints = memory.array((size,), np.int64)
    copy_slots(address(old), used, address(new), len(new) - 1)
    memory.release(old)
    return new
