"""Pages before they are written to: while one thread works, another asks the system for what it will soon need.

A store that grows spends much of its time waiting for memory. Large pages, which make random reads quicker, come slowly
where the system is a virtual machine that gave them back to its host: 0.3 GB/s on one that was measured, against 2 GB/s
for small ones and 5 GB/s for large ones that it still had.

Nobody waits for this. Where the system cannot do it, or has one processor, pages come when they are first written, as
ever.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from functools import cache
from queue import SimpleQueue

import numpy as np

LARGE_PAGE = 2**21
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, of Linux 5.14
_PIECE = 4 * LARGE_PAGE  # bytes asked for at a time

_Wanted = tuple[mmap.mmap, int, int]


class Region(mmap.mmap):
    """Anonymous memory. Up to `ready`, its pages are there, or have been asked for."""

    ready: int = 0

    def expect(self, used: int, upto: int) -> None:
        """Bytes from `used` on and up to there will be written soon."""
        start, stop = max(self.ready, used), min(-(-upto // LARGE_PAGE) * LARGE_PAGE, len(self))
        if start < stop and _is_possible():
            self.ready = stop
            _asking().put((self, start, stop))


def _ask(wanted: SimpleQueue[_Wanted]) -> None:
    madvise = ctypes.CDLL(None).madvise  # unlike that of `mmap`, it lets other threads go on
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    while True:
        region, start, stop = wanted.get()
        base = np.frombuffer(region, np.uint8).ctypes.data
        for at in range(start & -mmap.PAGESIZE, stop, _PIECE):
            if madvise(base + at, min(_PIECE, stop - at), _POPULATE_WRITE):
                break  # an older system, or no memory: who writes will see
        del region


@cache
def _is_possible() -> bool:
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


@cache
def _asking() -> SimpleQueue[_Wanted]:
    """What is wanted, and a thread of this process that asks for it."""
    wanted: SimpleQueue[_Wanted] = SimpleQueue()
    threading.Thread(target=_ask, args=(wanted,), name="viewmill pages", daemon=True).start()
    return wanted


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_asking.cache_clear)  # threads stay behind
