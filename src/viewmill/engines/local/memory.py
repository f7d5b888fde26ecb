"""Where the arrays of a pool live: anonymous memory, or a file mapped into memory (`region.py`).

Arrays start as zeros. An array that grows is asked for again, longer; it may or may not be in the same place, so a pool
is the same code over both kinds.
"""

from __future__ import annotations

import math
import mmap
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from viewmill.engines.local.ahead import LARGE_PAGE, Region

LARGE = LARGE_PAGE
"""Bytes from which on an array has address space to grow into."""
_SPARE, _MUCH_SPARE = 8, 1024  # how many times as long its addresses are, and if they cost nothing
_NO_RESERVE = 0x4000 if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64") else 0
_FLAGS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0) | _NO_RESERVE


class Memory(Protocol):
    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Zeros, row by row."""

    def longer(self, array: NDArray[Any], length: int) -> NDArray[Any]:
        """An array that starts with this one, of this memory, which is not needed any more, and goes on with zeros."""

    def in_place(self, array: NDArray[Any], length: int) -> NDArray[Any] | None:
        """The same where the array is; None if there is no room, or if others may look at what is half done."""

    def expect(self, array: NDArray[Any], used: int, length: int) -> None:
        """Behind the first `used` elements, others will soon be written, and the array may grow up to this length."""

    def release(self, array: NDArray[Any]) -> None:
        """An array of this memory is not needed any more. Views that readers still hold stay readable."""


class Shared(Memory, Protocol):
    """Memory of several processes, each of which has it at other addresses."""

    def at(self, address: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """The array that is at an address."""


class Anonymous:
    """Memory of this process. The system hands out pages when they are first written.

    A large array is the start of a region many times as long, most of which is only addresses. It grows where it is:
    nothing is copied, and no page is handed out twice. (Where the system itself runs on a virtual machine, new pages
    may take ten times as long as copying to old ones.)
    """

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        size = _bytes(shape, dtype)
        region = _region((_MUCH_SPARE if _are_addresses_free() else _SPARE) * size) if size >= LARGE else None
        return np.zeros(shape, dtype) if region is None else _start_of(region, shape, dtype)

    def longer(self, array: NDArray[Any], length: int) -> NDArray[Any]:
        same = self.in_place(array, length)
        return _copied(self, array, (length, *array.shape[1:])) if same is None else same

    def in_place(self, array: NDArray[Any], length: int) -> NDArray[Any] | None:
        shape, region = (length, *array.shape[1:]), _region_of(array)
        fits = region is not None and _bytes(shape, array.dtype) <= len(region)
        return _start_of(region, shape, array.dtype) if region is not None and fits else None

    def expect(self, array: NDArray[Any], used: int, length: int) -> None:
        region = _region_of(array)
        if region is not None and len(array):
            size = array.nbytes // len(array)
            region.expect(used * size, length * size)

    def release(self, array: NDArray[Any]) -> None:
        pass


@cache
def _are_addresses_free() -> bool:
    """Whether a process may have as many as it likes, and they do not count as memory."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        never = Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    except (ImportError, OSError, ValueError):
        return False
    return limit == resource.RLIM_INFINITY and not never and bool(_NO_RESERVE)


def _bytes(shape: tuple[int, ...], dtype: DTypeLike) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _region(size: int) -> Region | None:
    """Zeros as they come from the system, or nothing if it has no such thing, or not so much."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return None
    try:
        region = Region(-1, size, flags=_FLAGS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            region.madvise(mmap.MADV_HUGEPAGE)  # random reads of many pages spend most of their time finding the page
    except OSError:
        return None
    return region


def reserved(size: int) -> mmap.mmap | None:
    """Addresses to put something else at."""
    try:
        return mmap.mmap(-1, size, flags=_FLAGS)
    except OSError:
        return None


def _region_of(array: NDArray[Any]) -> Region | None:
    """The region that an array is the start of, if any."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    return owner if isinstance(owner, Region) else None


def _start_of(region: Region, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    return np.frombuffer(region, dtype, math.prod(shape)).reshape(shape)


def _copied(memory: Memory, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    new = memory.array(shape, array.dtype)
    new[: len(array)] = array
    memory.release(array)
    return new
