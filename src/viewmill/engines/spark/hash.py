"""Which bucket a row belongs to: one function, three ways to compute it (Hot Dog, section 4.1: hash partitioning).

    bucket_column(columns, n)      in Spark, on the rows of a batch
    bucket_array(arrays, n)        over Arrow columns, on what leaves a bucket
    bucket_of(values, n)           of Python values, one row at a time: the plain form that tests compare with

A value becomes a word of 64 bits, and the words of a row, NULLs left out, go one after another through Spark's own
`hash` (Murmur3 with 32 bits and seed 42); the bucket is the result modulo the number of buckets.

| value                          | word                                             |
| ------------------------------ | ------------------------------------------------ |
| boolean, integers, dates       | the number (0 and 1; days since 1970)            |
| timestamp                      | microseconds since 1970, in UTC                  |
| float, double, decimal         | the bits of the nearest double; -0.0 is 0.0      |
| string, binary                 | the CRC-32 of its (UTF-8) bytes                  |

Law: what is equal in SQL and of one kind (integers, decimals of any scale, ...) is in the same bucket, in all three
forms. No step can overflow, which ANSI mode would make an error.

State is found by this function: to change it is to change the format of every checkpoint.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

from viewmill.errors import InternalError
from viewmill.types import Type

Words = NDArray[np.int64]

_SEED = 42
_NAN_BITS = 0x7FF8000000000000
_EPOCH = datetime(1970, 1, 1)
_DAY_ZERO = date(1970, 1, 1)


# --- in Spark


def bucket_column(columns: Sequence[tuple[Column, Type]], buckets: int) -> Column:
    """The bucket of a row as a Spark expression. With no columns it is a constant."""
    return F.pmod(hash_column(columns), F.lit(buckets))


def hash_column(columns: Sequence[tuple[Column, Type]]) -> Column:
    """What that is modulo the number of buckets: an integer of 32 bits."""
    words = [_word_column(column, type_) for column, type_ in columns]
    return F.hash(*words) if words else F.lit(_SEED)


def _word_column(column: Column, type_: Type) -> Column:
    match type_.name:
        case "boolean" | "tinyint" | "smallint" | "int" | "bigint":
            return column.cast("bigint")
        case "date":
            return F.unix_date(column).cast("bigint")
        case "timestamp":
            return F.unix_micros(column)
        case "float" | "double" | "decimal":
            return column.cast("double")  # whose `hash` takes the bits, and one zero and one NaN
        case "string" | "binary":
            return F.crc32(column.cast("binary"))
        case _:
            raise InternalError(f"no bucket by a column of type {type_}")


# --- over Arrow columns


def bucket_array(columns: Sequence[pa.Array], buckets: int, rows: int) -> NDArray[np.int32]:
    """The bucket of each of `rows` rows."""
    return np.mod(hash_array(columns, rows), np.int32(buckets))


def hash_array(columns: Sequence[pa.Array], rows: int) -> NDArray[np.int32]:
    """What that is modulo the number of buckets."""
    hashes = np.full(rows, _SEED, np.uint32)
    for column in columns:
        words, known = _word_array(column)
        mixed = _murmur_long(words, hashes)
        hashes = mixed if known is None else np.where(known, mixed, hashes)
    return hashes.view(np.int32)


def _word_array(column: pa.Array) -> tuple[Words, NDArray[np.bool_] | None]:
    """A word for every value, and where it is not NULL if there are NULLs (whose words mean nothing)."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    known = None if column.null_count == 0 else np.asarray(column.is_valid())
    return _words(column), known


def _words(column: pa.Array) -> Words:
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if pa.types.is_boolean(kind):
        return _numbers(column.cast(pa.int8())).astype(np.int64)
    if pa.types.is_date32(kind):
        return _numbers(column.cast(pa.int32())).astype(np.int64)
    if pa.types.is_timestamp(kind):
        return _numbers(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()))
    if pa.types.is_signed_integer(kind):
        return _numbers(column).astype(np.int64, copy=False)
    if pa.types.is_decimal128(kind):
        return _double_words(_decimals(column))
    if pa.types.is_floating(kind):
        return _double_words(_numbers(column).astype(np.float64))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _crc_words(column)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _crc_words(column.cast(pa.binary() if pa.types.is_large_binary(kind) else pa.string()))
    raise InternalError(f"no bucket by a column of Arrow type {kind}")


def _numbers(column: pa.Array) -> NDArray[Any]:
    """The buffer of a column of fixed width; what stands at NULLs is undefined."""
    array: NDArray[Any] = np.frombuffer(column.buffers()[1] or b"", column.type.to_pandas_dtype())
    return array[column.offset : column.offset + len(column)]


def _double_words(doubles: NDArray[np.float64]) -> Words:
    bits = (doubles + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    return np.where(np.isnan(doubles), np.int64(_NAN_BITS), bits)


def _decimals(column: pa.Array) -> NDArray[np.float64]:
    """The nearest doubles. Both numbers of a division being exact, its result is the nearest."""
    raw = np.frombuffer(column.buffers()[1] or b"", np.int64).reshape(-1, 2)[
        column.offset : column.offset + len(column)
    ]
    low, high = raw[:, 0], raw[:, 1]
    exact = (high == low >> 63) & (np.abs(low) <= 1 << 53) & (low != np.iinfo(np.int64).min)
    if column.null_count:
        exact |= ~np.asarray(column.is_valid())
    scale = column.type.scale
    if 0 <= scale <= 22 and exact.all():
        divided: NDArray[np.float64] = low / np.float64(10**scale)
        return divided
    return np.fromiter(
        (0.0 if value is None else float(value) for value in column.to_pylist()), np.float64, len(column)
    )


def _crc_words(column: pa.Array) -> Words:
    """CRC-32 of every value, byte place by byte place over all values at once, longest values first."""
    if len(column) == 0:
        return np.zeros(0, np.int64)
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    starts, ascending = offsets[:-1][order], np.sort(lengths)
    sums = np.full(len(column), 0xFFFFFFFF, np.uint32)
    table = _crc_table()
    for place in range(int(ascending[-1])):
        count = len(column) - int(np.searchsorted(ascending, place, "right"))
        part = sums[:count]
        sums[:count] = table[(part ^ data[starts[:count] + place]) & 0xFF] ^ (part >> np.uint32(8))
    words = np.empty(len(column), np.int64)
    words[order] = sums ^ np.uint32(0xFFFFFFFF)
    return words


@lru_cache(maxsize=1)
def _crc_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(0xEDB88320) ^ (table >> np.uint32(1)), table >> np.uint32(1))
    return table.astype(np.uint32)


def _murmur_long(words: Words, seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Murmur3 of a word of 64 bits: its lower half, then its upper. Unsigned numbers of NumPy wrap around."""
    unsigned = words.view(np.uint64)
    low, high = unsigned.astype(np.uint32), (unsigned >> np.uint64(32)).astype(np.uint32)
    return _finish(_round(_round(seeds, low), high), 8)


def _murmur_int(words: NDArray[np.int32], seed: int = _SEED) -> NDArray[np.uint32]:
    return _finish(_round(np.full(len(words), seed, np.uint32), words.view(np.uint32)), 4)


def _round(hashes: NDArray[np.uint32], block: NDArray[np.uint32]) -> NDArray[np.uint32]:
    block = _rotated(block * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(hashes ^ block, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(hashes: NDArray[np.uint32], length: int) -> NDArray[np.uint32]:
    hashes = hashes ^ np.uint32(length)
    hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return hashes ^ hashes >> np.uint32(16)


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


# --- of Python values


def bucket_of(values: Sequence[object], buckets: int) -> int:
    """The bucket of one row of values (see `types.py` for what carries which type)."""
    hashed = _SEED
    for value in values:
        if value is not None:
            hashed = _murmur_slow(_word(value), hashed)
    return (hashed - (1 << 32) if hashed >> 31 else hashed) % buckets


def _word(value: object) -> int:
    match value:
        case int():
            return int(value)
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return (moment - _EPOCH) // timedelta(microseconds=1)
        case date():
            return (value - _DAY_ZERO).days
        case float() | Decimal():
            number = float(value) + 0.0
            return _NAN_BITS if math.isnan(number) else struct.unpack("<q", struct.pack("<d", number))[0]
        case str():
            return zlib.crc32(value.encode())
        case bytes():
            return zlib.crc32(value)
        case _:
            raise InternalError(f"no bucket by a {type(value).__name__}")


def _murmur_slow(word: int, seed: int) -> int:
    mask = 0xFFFFFFFF

    def rotated(number: int, bits: int) -> int:
        return (number << bits | number >> 32 - bits) & mask

    hashed = seed
    for block in (word & mask, word >> 32 & mask):
        mixed = rotated(block * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
        hashed = (rotated(hashed ^ mixed, 13) * 5 + 0xE6546B64) & mask
    hashed ^= 8
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & mask
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & mask
    return hashed ^ hashed >> 16


# --- one bucket in each partition


@lru_cache(maxsize=64)
def bucket_keys(buckets: int) -> tuple[int, ...]:
    """An integer for each bucket, such that `hashpartitioning(key, buckets)` puts bucket b into partition b.

    Spark sends a row to partition `pmod(hash(key), buckets)`: the keys are the first numbers that go where they should.
    """
    found: dict[int, int] = {}
    start, width = 0, max(1024, 4 * buckets)
    while len(found) < buckets:
        numbers = np.arange(start, start + width, dtype=np.int32)
        places = np.mod(_murmur_int(numbers).view(np.int32), np.int32(buckets))
        for place, first in zip(*np.unique(places, return_index=True), strict=True):
            found.setdefault(int(place), int(numbers[first]))
        start += width
    return tuple(found[bucket] for bucket in range(buckets))


def key_column(bucket: Column, buckets: int) -> Column:
    """The key of a bucket number, in Spark."""
    return F.element_at(F.array(*(F.lit(key) for key in bucket_keys(buckets))), bucket + F.lit(1))
