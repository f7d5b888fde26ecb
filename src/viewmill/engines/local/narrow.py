"""Rows of words in few bytes: by column, each number as what it adds to the least one, in as many bytes as that takes.

    the number of rows; for every column its least value, and the bytes of a number: 0 (all are the least), 1, 2, 4, 8
    the numbers of one column after another

Keys, counts and codes of strings are small numbers in words of eight bytes. Taken out of them, they are a third to a
quarter as long, and a general compressor, which is what takes the time of a snapshot, has that much less to do.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_ROWS = struct.Struct("<Q")
_COLUMN = np.dtype([("least", "<i8"), ("size", "<u1")])
_KINDS: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4"), 8: np.dtype("<i8")}


def narrowed(rows: Ints) -> bytes:
    """Some rows, at least one, as bytes."""
    columns = np.ascontiguousarray(rows.T)
    about = np.zeros(len(columns), _COLUMN)
    parts = [_ROWS.pack(len(rows)), b""]
    for place, column in enumerate(columns):
        least, most = int(column.min()), int(column.max())
        size = bytes_for(most - least)
        about[place] = (0 if size == 8 else least, size)
        if size:
            parts.append((column if size == 8 else (column - least).astype(_KINDS[size])).tobytes())
    parts[1] = about.tobytes()
    return b"".join(parts)


def widened(data: memoryview, width: int) -> Ints | None:
    """The rows, if the bytes are those of some rows of such a width."""
    start = _ROWS.size + width * _COLUMN.itemsize
    if len(data) < start:
        return None
    (count,) = _ROWS.unpack_from(data)
    about = np.frombuffer(data, _COLUMN, width, _ROWS.size)
    if len(data) != start + count * int(about["size"].sum(dtype=np.int64)):
        return None
    rows = np.empty((count, width), np.int64)
    for place, (least, size) in enumerate(about.tolist()):
        rows[:, place] = least
        if size:
            rows[:, place] += np.frombuffer(data, _KINDS[size], count, start).astype(np.int64)
            start += count * size
    return rows


def bytes_for(span: int) -> int:
    """In how many bytes there is room for a number from 0 to `span`: none if that is the only one."""
    return 0 if not span else next((size for size in (1, 2, 4) if span < 1 << (8 * size)), 8)
