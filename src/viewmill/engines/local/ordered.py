"""An ordered index: records that agree in some columns, ordered by one more, with running sums of their weights.

The index on column 2 within (0, 1) of a pool with keys (a, b, c) answers "the sum of the weights with this a, this b,
and c at most x" and "the least c with this a and this b" in time that grows with the logarithm of their number.
Compiled code does that (`ordered_loops.py`); here are the arrays, and the words of the control block that say where
they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viewmill.engines.local import layout
from viewmill.engines.local.indexes import Ints, address, positions_at, wider
from viewmill.engines.local.memory import Memory, Shared
from viewmill.engines.local.tables import SMALLEST_TABLE, load_limit

MOST_LANES = 16
"""Weights of a record in a pool that has an ordered index: a node has three bits for each."""


class Order(NamedTuple):
    """Within equal values of some columns, by one more, whose codes may be those of doubles."""

    within: tuple[int, ...]
    column: int
    double: bool = False


class OrderedIndex:
    """The arrays of one ordered index. `words` is its part of the control block."""

    def __init__(self, order: Order, words: Ints, capacity: int, lanes: int, memory: Memory) -> None:
        self.order = order
        self.words = words
        self._memory = memory
        self._positions: Ints = memory.array((1 + len(order.within),), np.int64)
        self._positions[:] = (len(order.within), *order.within)
        self.heads: Ints = memory.array((SMALLEST_TABLE,), np.int64)
        self.nodes: Ints = memory.array((capacity, layout.NODE_WORDS + lanes), np.int64)
        words[:] = 0
        words[layout.ORDER_COLUMN] = order.column
        words[layout.ORDER_DOUBLE] = order.double
        self._publish()

    @classmethod
    def held(cls, words: Ints, capacity: int, lanes: int, memory: Shared) -> OrderedIndex:
        """The ordered index that these words tell of."""
        index = object.__new__(cls)
        index.words, index._memory = words, memory
        index._positions = positions_at(int(words[layout.COLUMNS]), memory)
        within, column = tuple(index._positions[1:].tolist()), int(words[layout.ORDER_COLUMN])
        index.order = Order(within, column, bool(words[layout.ORDER_DOUBLE]))
        index.heads = memory.at(int(words[layout.HEADS]), (int(words[layout.HEAD_ROOM]),), np.int64)
        index.nodes = memory.at(int(words[layout.NODES]), (capacity, layout.NODE_WORDS + lanes), np.int64)
        return index

    @property
    def arrays(self) -> tuple[Ints, ...]:
        return self._positions, self.heads, self.nodes

    def grow_records(self, capacity: int) -> None:
        """Follow the pool to a new capacity."""
        self.nodes = self._memory.longer(self.nodes, capacity)
        self._publish()

    def reserve(self, trees: int) -> None:
        """Make room for so many sub-keys."""
        if trees > load_limit(len(self.heads)):
            self.heads = wider(self._memory, self.heads, len(self.heads), trees)
            self._publish()

    def _publish(self) -> None:
        words = self.words
        words[layout.COLUMNS] = address(self._positions)
        words[layout.NODES] = address(self.nodes)
        words[layout.HEADS] = address(self.heads)
        words[layout.HEAD_ROOM] = len(self.heads)
        words[layout.CHAIN_MASK] = len(self.heads) - 1
        words[layout.CHAIN_LIMIT] = load_limit(len(self.heads))
