"""Pages before they are written to: while one thread works, another touches what it will soon need.

A store that grows spends much of its time waiting for memory. Large pages, which make random reads quicker, come slowly
where the system is a virtual machine that gave them back to its host: 0.3 GB/s on one that was measured, against 2 GB/s
for small ones and 5 GB/s for large ones that it still had.

A word of each page is exchanged for 0 if it is 0: that is a write, after which the page is there, and changes nothing,
whatever others write meanwhile. (To ask the system for pages, by MADV_POPULATE_WRITE, holds up all who ask it for other
memory.) Nobody waits for it; with one processor, pages come when they are first written, as ever.
"""

from __future__ import annotations

import mmap
import os
import threading
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np

from viewmill.engines.local.libraries import Library
from viewmill.engines.local.raw import Int
from viewmill.engines.local.wordcode import WORD, instruction

LARGE_PAGE = 2**21
_PAGE = 4096

PAGES = Library("pages")
_Wanted = tuple[mmap.mmap, int, int]


class Region(mmap.mmap):
    """Anonymous memory. Up to `ready`, its pages are there, or soon will be."""

    ready: int = 0

    def expect(self, used: int, upto: int) -> None:
        """Bytes from `used` on and up to there will be written soon."""
        start, stop = max(self.ready, used), min(-(-upto // LARGE_PAGE) * LARGE_PAGE, len(self))
        if start < stop and _is_worth_it():
            self.ready = stop
            _touching().put((self, start, stop))


@instruction
def _exchange_zeros(builder: Any, address: Any) -> Any:
    pointer = builder.inttoptr(address, WORD.as_pointer())
    builder.cmpxchg(pointer, WORD(0), WORD(0), "monotonic")
    return WORD(0)


@PAGES.export
def _touch(start: Int, stop: Int) -> Int:
    for at in range(start, stop, _PAGE):
        _exchange_zeros(at)
    return 0


def _touch_all(wanted: SimpleQueue[_Wanted]) -> None:
    while True:
        region, start, stop = wanted.get()
        base = np.frombuffer(region, np.uint8).ctypes.data
        _touch(base + (start & -_PAGE), base + stop)
        del region


@cache
def _is_worth_it() -> bool:
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) > 1


@cache
def _touching() -> SimpleQueue[_Wanted]:
    """What is wanted, and a thread of this process that touches it."""
    assert _touch.address  # so that it is compiled here, and not beside other code
    wanted: SimpleQueue[_Wanted] = SimpleQueue()
    threading.Thread(target=_touch_all, args=(wanted,), name="viewmill pages", daemon=True).start()
    return wanted


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_touching.cache_clear)  # threads stay behind
