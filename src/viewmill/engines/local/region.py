"""Memory that is a file: arrays of one bucket, which any process can map.

A region is a file of large nominal size, nearly all of which are holes. It starts with words of a header; behind them
lie *spans*, powers of two of bytes, each with one array that may grow until it fills the span. Where the array of a
large span ends, the file is a hole, so room to grow costs addresses and no disk.

Spans are handed out from the `TOP` on; those given up are zeros again, in a list for every size. Disk is asked for
before memory is touched, so a full disk is an error and not the end of the process. If the file is memory itself, there
is room as long as enough is left to others (`room.py`).

Processes map a region where they like. What has addresses in it is told by how much they have moved.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from viewmill.engines.local.large_pages import collapse, mapped
from viewmill.engines.local.memory import LARGE
from viewmill.engines.local.room import free_memory, is_memory

NOMINAL = 2**36
"""Bytes of a region, holes included."""
HEADER = 2**14
"""Bytes before the first span."""

# Words of the header that the region itself needs; the others are for its users
TOP = 8  # spans are handed out from here on
FREE = 16  # for each power of two, the first free span, or 0
_POWERS = 40
FIRST_OTHER = FREE + _POWERS

_EDGE = 64  # bytes of a span before its array, which is aligned to them
_POWER, _NEXT = 0, 1  # words there: the size, and the next free span of that size
_SPARE = 8  # how many times as long as a large array its span is
_SMALLEST = 7
_PUNCH = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE and FALLOC_FL_KEEP_SIZE


class RegionFull(MemoryError):
    """There is no more room for arrays."""


class Region:
    """The `Memory` protocol over one file. One process at a time changes it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Map an open file. The descriptor is ours from now on."""
        self.path = path
        self._descriptor = descriptor
        self._bytes = mapped(descriptor, NOMINAL)
        self.base = int(self._bytes.ctypes.data)
        self.header: NDArray[np.int64] = self._bytes[:HEADER].view(np.int64)
        self._released: list[NDArray[Any]] = []
        self._is_memory = is_memory(path)
        self._has_large_pages = self._is_memory

    @classmethod
    def create(cls, path: Path) -> Region:
        """An empty region, in a file that was not there."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, NOMINAL)
            _back(descriptor, 0, HEADER)
            region = cls(path, descriptor)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        region.header[TOP] = HEADER
        return region

    @classmethod
    def open(cls, path: Path) -> Region | None:
        """A region that is there; None if the file is too short for one."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != NOMINAL:
                os.close(descriptor)
                return None
            return cls(path, descriptor)
        except OSError:
            os.close(descriptor)
            raise

    def close(self) -> None:
        """Give up the file. Memory goes with the last array that somebody holds."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def is_at_its_path(self) -> bool:
        """Whether the file is still the one that its path names."""
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        ours = os.fstat(self._descriptor)
        return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)

    @property
    def disk(self) -> int:
        """Bytes of disk that the file takes."""
        return os.fstat(self._descriptor).st_blocks * 512

    # --- arrays

    def at(self, address: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """The array of this shape at an address of ours."""
        start = address - self.base
        return self._bytes[start : start + _size(shape, dtype)].view(dtype).reshape(shape)

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        size = _size(shape, dtype)
        if size == 0:  # it is nowhere
            return np.zeros(shape, dtype)
        span = self._span(_power(_EDGE + (size if size < LARGE else _SPARE * size)))
        try:
            self._back(span + _EDGE, size)
        except OSError:
            _punch(self._descriptor, span + _EDGE, self._end(span, size) - span - _EDGE)
            self._give_up(span)
            raise
        return self.at(self.base + span + _EDGE, shape, dtype)

    def longer(self, array: NDArray[Any], length: int) -> NDArray[Any]:
        shape = (length, *array.shape[1:])
        if array.nbytes == 0:
            return self.array(shape, array.dtype)
        start, size = self._start(array), _size(shape, array.dtype)
        if _EDGE + size <= 1 << int(self._edge(start - _EDGE)[_POWER]):
            self._back(start + array.nbytes, size - array.nbytes)
            return self.at(self.base + start, shape, array.dtype)
        new = self.array(shape, array.dtype)
        new[: len(array)] = array
        self.release(array)
        return new

    def in_place(self, array: NDArray[Any], length: int) -> NDArray[Any] | None:
        """Never: whoever takes over from a process that was killed wants to find what was there."""
        return None

    def expect(self, array: NDArray[Any], used: int, length: int) -> None:
        """What is in a file is there for others, too, and is not as large as somebody expects."""

    def release(self, array: NDArray[Any]) -> None:
        """Its span is given up by `settle`: until then, whoever has not heard of it finds what was there."""
        if array.nbytes:
            self._released.append(array)

    def settle(self) -> None:
        """Give up the spans of all arrays that were released."""
        for array in self._released:
            start = self._start(array)
            size = self._end(start - _EDGE, array.nbytes) - start
            if array.nbytes < LARGE or not _punch(self._descriptor, start, size):
                self._bytes[start : start + array.nbytes] = 0
            self._give_up(start - _EDGE)
        self._released = []

    def _back(self, start: int, size: int) -> None:
        """Have disk, or memory, for a part of the file. A large part of memory is of large pages, if there are any."""
        if self._is_memory and size >= LARGE and size > free_memory(self.path.parent):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        if self._has_large_pages and size >= LARGE:
            self._has_large_pages = collapse(self._descriptor, self.base, start, size)
        _back(self._descriptor, start, size)

    def _end(self, span: int, size: int) -> int:
        """Where the pages of an array in a span end: a large page may go on behind it, in zeros of the same span."""
        end, last = span + _EDGE + size, span + (1 << int(self._edge(span)[_POWER]))
        return min(-(-end // LARGE) * LARGE, last) if size >= LARGE else end

    def _start(self, array: NDArray[Any]) -> int:
        return int(array.ctypes.data) - self.base

    def _edge(self, span: int) -> NDArray[np.int64]:
        return self._bytes[span : span + _EDGE].view(np.int64)

    def _span(self, power: int) -> int:
        """A span that is all zeros."""
        header = self.header
        span = int(header[FREE + power])
        if span:
            edge = self._edge(span)
            header[FREE + power], edge[_NEXT] = edge[_NEXT], 0
            return span
        span = int(header[TOP])
        if span + (1 << power) > NOMINAL:
            raise RegionFull(f"{self.path} has no room for {1 << power} more bytes")
        _back(self._descriptor, span, _EDGE)
        header[TOP] = span + (1 << power)
        self._edge(span)[_POWER] = power
        return span

    def _give_up(self, span: int) -> None:
        edge = self._edge(span)
        power = int(edge[_POWER])
        edge[_NEXT], self.header[FREE + power] = self.header[FREE + power], span


def _size(shape: tuple[int, ...], dtype: DTypeLike) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _power(size: int) -> int:
    return max(_SMALLEST, (size - 1).bit_length())


def _back(descriptor: int, start: int, size: int) -> None:
    """Have disk for a part of the file, or an error."""
    if size <= 0 or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, start, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise


def _punch(descriptor: int, start: int, size: int) -> bool:
    """Make a part of the file a hole. False if that cannot be done here."""
    fallocate = _fallocate()
    return fallocate is not None and fallocate(descriptor, _PUNCH, start, size) == 0


@cache
def _fallocate() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None), "fallocate", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    found: Callable[..., int] = function
    return found
