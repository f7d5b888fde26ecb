"""One call for many pools, and one for a whole trigger."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from viewmill.engines.local.indexes import Ints, address
from viewmill.engines.local.layout import BEGIN, MERGE
from viewmill.engines.local.libraries import Library
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.raw import FULL, Int, call, peek
from viewmill.engines.local.wordcode import words

TRIGGERS = Library("triggers")


@words
def each(blocks: Int, count: Int, word: Int, polled: Int) -> Int:
    """Call the function whose address is in a word of every block. All their flags together."""
    flags = 0
    for i in range(count):
        block = peek(blocks, i)
        flags |= call(peek(block, word), block, polled)
    return flags


# Words of a schedule: what a trigger does, in this order
TEMPORARY = 0  # address of blocks, and how many: pools that start empty
FUNCTIONS = 2  # address of pairs (function, environment), and how many
TARGETS = 4  # address of blocks, and how many: pools whose rows are merged at the end
SCHEDULE = 6


@words
def scheduled(schedule: Int, batch: Int, rows: Int, flags: Int, begin: Int, merge: Int) -> Int:
    """Run a trigger. `begin`: the last batch changed just these targets, and is over."""
    targets, count = peek(schedule, TARGETS), peek(schedule, TARGETS + 1)
    if begin != 0:
        each(targets, count, BEGIN, 0)
    each(peek(schedule, TEMPORARY), peek(schedule, TEMPORARY + 1), BEGIN, 0)
    functions = peek(schedule, FUNCTIONS)
    for i in range(peek(schedule, FUNCTIONS + 1)):
        call(peek(functions, 2 * i), peek(functions, 2 * i + 1), batch, rows, flags)
        if peek(flags, 0) != 0:
            return peek(flags, 0)
    return each(targets, count, MERGE, flags) | peek(flags, 0) if merge != 0 else 0


call_each = TRIGGERS.export(each)
run_schedule = TRIGGERS.export(scheduled)


class Group:
    """Pools that take part in the same batches."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self.pools = tuple(pools)
        self.blocks: Ints = np.array([pool.address for pool in self.pools], np.int64)
        self.address = address(self.blocks)

    def __bool__(self) -> bool:
        return bool(self.pools)

    def call(self, word: int) -> int:
        """Call a function of every pool (`layout.MERGE` and so on)."""
        return call_each(self.address, len(self.pools), word, 0) if self.pools else 0

    def call_briefly(self, word: int) -> None:
        """The same if there is little to do."""
        if self.pools:
            call_each.brief(self.address, len(self.pools), word, 0)

    def check(self, flags: int) -> None:
        """Raise why memory could not be had, if the flags say so."""
        if flags & FULL:
            failed = next((pool for pool in self.pools if pool.failure is not None), self.pools[0])
            failed.check(FULL)


class Schedule:
    """What a trigger does with a batch, in one call."""

    def __init__(self, temporary: Group, functions: Ints, targets: Group) -> None:
        """`functions`: pairs of a function's address and its environment's."""
        self._keep = temporary, functions, targets
        self._words = np.zeros(SCHEDULE, np.int64)
        for word, array, count in (
            (TEMPORARY, temporary.blocks, len(temporary.pools)),
            (FUNCTIONS, functions, len(functions) // 2),
            (TARGETS, targets.blocks, len(targets.pools)),
        ):
            self._words[word], self._words[word + 1] = address(array), count
        self.address = address(self._words)
