"""Arrays in a stream of bytes, checked: what a snapshot of a bucket is written with.

    a line that says what it is, and the version
    a frame with a JSON text that tells what follows: anything, and how long the arrays are
    the arrays, each in as many frames as it takes

A frame is a checksum, how many bytes follow, how many they stand for, and these bytes, compressed. Words are made
narrow before that (`narrow.py`). Nothing is looked for in a file: it is written, and read, from its start to its end,
so any stream will do. A file that was cut off, that has something behind its end, or in which a bit differs is refused.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewmill.engines.local.narrow import Ints, narrowed, widened
from viewmill.errors import DataError, InternalError

_WHAT = b"viewmill bucket "
_VERSION = 2
_FRAME = struct.Struct("<IQQ")
_PIECE = 2**24
"""Bytes in a frame, at most, before they are compressed."""
_ROWS = 2**15
"""Rows of words in a frame: few enough that they stay in a processor's cache while they are made narrow."""
_LONGEST = 2**31
_WORDS = np.dtype(np.int64).str


class Damaged(DataError):
    """What is read is not what was written."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the snapshot {name} {reason}", hint="use another one, or make the view anew")


@dataclass(frozen=True, slots=True)
class Later:
    """So many rows of so many words, which come some at a time when they are written."""

    rows: int
    width: int
    pieces: Callable[[int], Iterable[Ints]]


def write_arrays(file: BinaryIO, told: dict[str, Any], arrays: Sequence[NDArray[Any] | Later]) -> None:
    """Write something that JSON can tell, and arrays: of one dimension, or rows of words."""
    file.write(_WHAT + b"%d\n" % _VERSION)
    codec = pa.Codec("zstd", compression_level=1)
    shapes = [_shape(each) for each in arrays]
    _write_frame(file, codec, json.dumps({"told": told, "arrays": shapes}).encode())
    for each, (kind, rows, _) in zip(arrays, shapes, strict=True):
        written = 0
        for count, data in _pieces(each):
            _write_frame(file, codec, data)
            written += count
        if written != rows:
            raise InternalError(f"{written} rows of {kind} to be written as {rows}")


def _shape(array: NDArray[Any] | Later) -> tuple[str, int, int]:
    """What is in it, how many rows, and how many in a row: 0 if there are no rows, but numbers."""
    if isinstance(array, Later):
        return _WORDS, array.rows, array.width
    return array.dtype.str, len(array), 0 if array.ndim == 1 else array.shape[1]


def _pieces(array: NDArray[Any] | Later) -> Iterator[tuple[int, bytes | memoryview]]:
    """What is in a frame, and how many rows that are."""
    if isinstance(array, Later):
        for rows in array.pieces(_ROWS):
            yield len(rows), narrowed(rows)
        return
    words, step = array.dtype.str == _WORDS, _ROWS if array.dtype.str == _WORDS else _PIECE // array.itemsize
    for start in range(0, len(array), step):
        piece = array[start : start + step]
        yield (
            len(piece),
            narrowed(piece.reshape(len(piece), -1)) if words else np.ascontiguousarray(piece).data.cast("B"),
        )


def read_arrays(file: BinaryIO, name: str) -> tuple[dict[str, Any], Iterator[NDArray[Any]]]:
    """What was told, and the arrays, to be read one after the other and to the end."""
    first = file.readline(len(_WHAT) + 20)
    if not first.startswith(_WHAT) or not first.endswith(b"\n"):
        raise Damaged(name, "is not a snapshot of a bucket" if len(first) > len(_WHAT) else "is cut off")
    if first[len(_WHAT) :].strip() != b"%d" % _VERSION:
        raise DataError(
            f"the snapshot {name} has a format that this version of viewmill does not know",
            hint="use the version it was written with",
        )
    codec = pa.Codec("zstd")
    known = json.loads(bytes(_read_frame(file, codec, name)))
    return known["told"], _arrays(file, codec, name, known["arrays"])


def _arrays(file: BinaryIO, codec: pa.Codec, name: str, shapes: list[tuple[str, int, int]]) -> Iterator[NDArray[Any]]:
    for kind, rows, width in shapes:
        array, at = np.empty((rows, width) if width else rows, np.dtype(kind)), 0
        while at < rows:
            piece = _piece(_read_frame(file, codec, name), kind, width)
            if piece is None or not 0 < len(piece) <= rows - at:
                raise Damaged(name, "has parts that do not belong together")
            array[at : at + len(piece)] = piece
            at += len(piece)
        yield array
    if file.read(1):
        raise Damaged(name, "has something behind its end")


def _piece(data: pa.Buffer, kind: str, width: int) -> NDArray[Any] | None:
    if kind != _WORDS:
        return np.frombuffer(data, np.dtype(kind))
    rows = widened(memoryview(data), width or 1)
    return rows if rows is None or width else rows[:, 0]


def _write_frame(file: BinaryIO, codec: pa.Codec, data: bytes | memoryview) -> None:
    packed = codec.compress(data, asbytes=True)
    file.write(_FRAME.pack(_checksum(len(packed), len(data), packed), len(packed), len(data)))
    file.write(packed)


def _read_frame(file: BinaryIO, codec: pa.Codec, name: str) -> pa.Buffer:
    checksum, size, whole = _FRAME.unpack(_read(file, _FRAME.size, name))
    if size > _LONGEST or whole > _LONGEST:
        raise Damaged(name, "is not as it was written: a length is wrong")
    packed = _read(file, size, name)
    if _checksum(size, whole, packed) != checksum:
        raise Damaged(name, "is not as it was written: a checksum differs")
    return codec.decompress(packed, whole)


def _checksum(size: int, whole: int, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(struct.pack("<QQ", size, whole)))


def _read(file: BinaryIO, size: int, name: str) -> bytes:
    data = b""
    while len(data) < size:
        more = file.read(size - len(data))
        if not more:
            raise Damaged(name, "is cut off")
        data = data + more if data else more
    return data
