"""One region, mapped twice: what two processes do in turn, done by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from viewmill.engines.local.pools import Pool
from viewmill.engines.local.region import Region


class TwoMaps:
    """A pool in a file, handed over from one map to the other."""

    def __init__(self, path: Path) -> None:
        self.region = Region.create(path)
        other = Region.open(path)
        assert other is not None and other.base != self.region.base
        self._other = other
        self._away: Pool | None = None

    def handed(self, pool: Pool) -> Pool:
        """The pool as the other map has it."""
        here, there = self.region, self._other
        here.settle()
        away = self._away
        if away is None:
            at = pool.address - here.base + there.base
            away = Pool.held(there.at(at, pool.arrays.block.shape, np.int64), there)
        away.take_over(there.base - here.base)
        self.region, self._other, self._away = there, here, pool
        return away
