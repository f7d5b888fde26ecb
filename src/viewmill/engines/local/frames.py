"""Arrays in a stream of bytes, checked: what a snapshot of a bucket is written with.

    a line that says what it is, and the version
    a frame with a JSON text that tells what follows: anything, and how long the arrays are
    the arrays, each in as many frames as it takes

A frame is a checksum, how many bytes follow, how many they stand for, and these bytes, compressed. Nothing is looked
for in a file: it is written, and read, from its start to its end, so any stream will do. A file that was cut off, that
has something behind its end, or in which a bit differs is refused.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewmill.errors import DataError, InternalError

_WHAT = b"viewmill bucket "
_VERSION = 1
_FRAME = struct.Struct("<IQQ")
_PIECE = 2**24
"""Bytes in a frame, at most, before they are compressed."""
_LONGEST = 2**31
_WORDS = np.dtype(np.int64).str


class Damaged(DataError):
    """What is read is not what was written."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the snapshot {name} {reason}", hint="use another one, or make the view anew")


@dataclass(frozen=True, slots=True)
class Later:
    """An array of so many words that is made when it is written, and is gone afterwards."""

    length: int
    make: Callable[[], NDArray[np.int64]]


def write_arrays(file: BinaryIO, told: dict[str, Any], arrays: Sequence[NDArray[Any] | Later]) -> None:
    """Write something that JSON can tell, and arrays."""
    file.write(_WHAT + b"%d\n" % _VERSION)
    codec = pa.Codec("zstd", compression_level=1)
    lengths = [(_WORDS, each.length) if isinstance(each, Later) else (each.dtype.str, each.size) for each in arrays]
    _write_frame(file, codec, json.dumps({"told": told, "arrays": lengths}).encode())
    for each, (kind, length) in zip(arrays, lengths, strict=True):
        array = _flat(each.make() if isinstance(each, Later) else each)
        if array.dtype.str != kind or len(array) != length:
            raise InternalError(f"{len(array)} of {array.dtype.str} to be written as {length} of {kind}")
        data = array.view(np.uint8).data
        for start in range(0, len(data), _PIECE):
            _write_frame(file, codec, data[start : start + _PIECE])


def read_arrays(file: BinaryIO, name: str) -> tuple[dict[str, Any], Iterator[NDArray[Any]]]:
    """What was told, and the arrays, each of one dimension, to be read one after the other and to the end."""
    first = file.readline(len(_WHAT) + 20)
    if not first.startswith(_WHAT) or not first.endswith(b"\n"):
        raise Damaged(name, "is not a snapshot of a bucket" if len(first) > len(_WHAT) else "is cut off")
    if first[len(_WHAT) :].strip() != b"%d" % _VERSION:
        raise DataError(
            f"the snapshot {name} has a format that this version of viewmill does not know",
            hint="use the version it was written with, or a later one",
        )
    codec = pa.Codec("zstd")
    known = json.loads(bytes(_read_frame(file, codec, name)))
    return known["told"], _arrays(file, codec, name, known["arrays"])


def _arrays(file: BinaryIO, codec: pa.Codec, name: str, lengths: list[tuple[str, int]]) -> Iterator[NDArray[Any]]:
    for kind, length in lengths:
        array = np.empty(length, np.dtype(kind))
        data, at = array.view(np.uint8), 0
        while at < len(data):
            piece = _read_frame(file, codec, name)
            if not 0 < len(piece) <= len(data) - at:
                raise Damaged(name, "has parts that do not belong together")
            data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
        yield array
    if file.read(1):
        raise Damaged(name, "has something behind its end")


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).reshape(-1)


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
