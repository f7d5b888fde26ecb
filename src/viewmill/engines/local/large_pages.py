"""Large pages for files that are memory.

A look-up in a store of gigabytes is a random read, and most of its time goes to finding the page. Files in memory have
pages of 4 KB, unless whoever mounted the folder wants large ones. Linux makes one large page of all that is in its
place when it is asked to (MADV_COLLAPSE, since 6.1), whatever the folder says, if the file and the memory it is mapped
to both have a large page's boundary there: that is how `mapped` maps a file.

To ask is all there is. Where the system knows of no such thing, or has no large page left, the small ones stay.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import cache

import numpy as np
from numpy.typing import NDArray

from viewmill.engines.local.memory import LARGE, reserved

_COLLAPSE = 25  # MADV_COLLAPSE
_FIXED = 0x10  # MAP_FIXED
_FAILED = ctypes.c_void_p(-1).value


def mapped(descriptor: int, size: int) -> NDArray[np.uint8]:
    """A file of this size, at a boundary of large pages if possible. It stays as long as somebody holds the array.

    More addresses than that are taken, and the file put over a part of them. They are given back together.
    """
    system = _system()
    taken = reserved(size + LARGE) if system is not None else None
    if system is not None and taken is not None:
        whole = np.frombuffer(taken, np.uint8)
        before = -int(whole.ctypes.data) % LARGE
        at, access = int(whole.ctypes.data) + before, mmap.PROT_READ | mmap.PROT_WRITE
        if system.mmap(at, size, access, mmap.MAP_SHARED | _FIXED, descriptor, 0) != _FAILED:
            return whole[before : before + size]
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)


def collapse(descriptor: int, base: int, start: int, size: int) -> bool:
    """Have large pages for a part of a file that is mapped at `base`; what is around it, in the same pages, too.

    False if there are none to be had. What has no memory yet has zeros. A page of which nothing is there is left alone
    by the system: so each gets a small one first.
    """
    system, first, end = _system(), start // LARGE * LARGE, -(-(start + size) // LARGE) * LARGE
    if system is None or base % LARGE:
        return False
    try:
        for page in range(first, end, LARGE):
            os.posix_fallocate(descriptor, page, mmap.PAGESIZE)
    except OSError:  # whoever wants all of it is told
        return False
    return bool(system.madvise(base + first, end - first, _COLLAPSE) == 0)


@cache
def _system() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = (*(ctypes.c_void_p, ctypes.c_size_t), *(ctypes.c_int,) * 3, ctypes.c_int64)
    system.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return system
