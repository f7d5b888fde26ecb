"""One call for many pools."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from viewmill.engines.local.compiling import kernel
from viewmill.engines.local.indexes import Ints, address
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.raw import Int, call, peek


@kernel
def call_each(blocks: Int, count: Int, word: Int) -> Int:
    """Call the function whose address is in a word of every block. All their flags together."""
    flags = np.int64(0)
    for i in range(count):
        block = peek(blocks, i)
        flags |= call(peek(block, word), block, 0)
    return flags


class Group:
    """Pools that take part in the same batches."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self.pools = tuple(pools)
        self._blocks: Ints = np.array([pool.address for pool in self.pools], np.int64)
        self._at = address(self._blocks)

    def __bool__(self) -> bool:
        return bool(self.pools)

    def call(self, word: int) -> int:
        """Call a function of every pool (`layout.MERGE` and so on)."""
        return int(call_each(self._at, len(self.pools), word)) if self.pools else 0

    def check(self, flags: int) -> None:
        """Raise what the flags stand for: memory that could not be had, first of all."""
        for pool in self.pools:
            if pool.failure is not None:
                pool.check(flags)
