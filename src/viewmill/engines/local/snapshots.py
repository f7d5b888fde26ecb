"""What a bucket holds, and nothing else: its strings, and the rows of its pools.

Indexes are told by what they are of, and made again, so a snapshot is a fraction of the file of a bucket, does not
depend on how pools lie in memory, and is read by any process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.frames import Damaged, Later, read_arrays, write_arrays
from viewmill.engines.local.held import Found, HeldEngine
from viewmill.engines.local.memory import Memory
from viewmill.engines.local.ordered import Order
from viewmill.engines.local.pools import Pool


def save_engine(file: BinaryIO, engine: HeldEngine, told: dict[str, Any]) -> None:
    """Write the strings and the pools of an engine, and what else is to be told."""
    pools = [[name, pool.width, pool.doubles, pool.slices, pool.orders] for name, pool in engine.pools.items()]
    rows = [_rows(pool) for pool in engine.pools.values()]
    wide = [] if engine.wide is None else [np.frombuffer(engine.wide.dump(), np.uint8)]
    write_arrays(file, {**told, "pools": pools, "wide": len(wide)}, [*engine.dictionary.dump(), *rows, *wide])


def _rows(pool: Pool) -> Later:
    """Keys with their weights, copied some at a time: there may not be room for all of them twice."""
    return Later(len(pool), pool.width + pool.lanes, pool.records)


class Snapshot:
    """One that is being read."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.told, self._arrays = read_arrays(file, name)

    def load(self, memory: Memory, lanes: Mapping[str, tuple[str, int, int]]) -> Found:
        """All of it, once; `lanes` are those of the stores that are wanted."""
        arrays = self._arrays
        try:
            dictionary = Dictionary(memory)
            dictionary.load(next(arrays), next(arrays), next(arrays))
            pools = {}
            for name, width, doubles, slices, orders in self.told["pools"]:
                rows = next(arrays)
                pool = pools[name] = Pool(width, tuple(doubles), memory=memory)
                pool.fill(rows[:, :width], rows[:, width:])
                for columns in slices:
                    pool.add_slice(tuple(columns))
                for within, column, double in orders:
                    pool.add_order(Order(tuple(within), column, double))
            wide = next(arrays).tobytes() if self.told["wide"] else None
        except StopIteration:
            raise Damaged(self.name, "has fewer parts than it tells") from None
        if next(arrays, None) is not None:
            raise Damaged(self.name, "has more parts than it tells")
        return Found(dictionary, pools, lanes, wide)
