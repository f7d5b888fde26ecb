"""Arrow columns as columns of codes, without a copy where they are codes already.

    int64, decimal128, double without NULLs       stay where they are; of a decimal, every other word is the code
    int32, date32, timestamps, NULLs, ...         one pass over the column
    text for dates, numbers with many digits, ... value by value

Law: `encode_column(array, type_, d)` has the codes `encode(fit(v, type_), type_, d)` of the array's values, or raises
what that raises. The first two ways are taken only for columns in which every value is plain (see `column_loops.py`);
for all others the last one decides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewmill.engines.local import column_loops as loops
from viewmill.engines.local.dictionary import Dictionary, Ints, address
from viewmill.engines.local.scalars import NULL
from viewmill.engines.local.values import LEAST, MOST, encode
from viewmill.numbers import flags, numbers
from viewmill.types import INTEGER_BITS, Type
from viewmill.values import Misfit, fit

Doubles: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class Column(NamedTuple):
    """Codes at an address, one every `stride` words, for as long as `keep` is kept."""

    address: int
    stride: int
    keep: object

    def codes(self, rows: int) -> Ints:
        """The codes as an array."""
        if rows == 0:
            return np.empty(0, np.int64)
        words = (ctypes.c_int64 * ((rows - 1) * self.stride + 1)).from_address(self.address)
        codes = np.frombuffer(memoryview(words).cast("B"), np.int64)
        return codes[:: self.stride].copy() if self.stride else np.repeat(codes, rows)


class Encoder(Protocol):
    """Codes of columns of one Arrow type for one SQL type."""

    def __call__(self, array: pa.Array, dictionary: Dictionary) -> Column | None:
        """None: not every value is plain."""


def encode_column(array: pa.Array | pa.ChunkedArray, type_: Type, dictionary: Dictionary) -> Column:
    """The codes of a column. A value that does not fit its type is a `Misfit`, one of over 64 bits is `TooWide`."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            parts = [(encode_column(chunk, type_, dictionary), len(chunk)) for chunk in array.chunks]
            return _column(np.concatenate([np.empty(0, np.int64), *(part.codes(rows) for part, rows in parts)]))
        array = array.chunk(0)
    encoder = encoder_for(array.type, type_)
    column = encoder(array, dictionary) if encoder is not None else None
    return column if column is not None else encode_values(_python_values(array), type_, dictionary)


def encode_values(values: list[object], type_: Type, dictionary: Dictionary) -> Column:
    """The codes of values one by one."""
    codes = (encode(fit(value, type_), type_, dictionary) for value in values)
    return _column(np.fromiter(codes, np.int64, len(values)))


def _python_values(array: pa.Array) -> list[object]:
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        try:
            array = array.cast(pa.timestamp("us", array.type.tz))
        except pa.ArrowInvalid:
            raise Misfit("has nanoseconds, which timestamp cannot hold") from None
    values: list[object] = array.to_pylist()
    return values


# --- which way


@lru_cache(maxsize=1000)
def encoder_for(kind: pa.DataType, type_: Type) -> Encoder | None:
    """How plain columns of an Arrow type are encoded; None if they are taken value by value."""
    is_ = pa.types
    if is_.is_null(kind):
        return _all_null
    if is_.is_dictionary(kind):
        values = encoder_for(kind.value_type, type_)
        return _Indexed(values) if values is not None else None
    match type_.name:
        case "tinyint" | "smallint" | "int" | "bigint" | "decimal":
            return _exact_encoder(kind, type_)
        case "double" | "float":
            return _floating_encoder(kind, type_)
        case "boolean":
            return _booleans if is_.is_boolean(kind) else None
        case "string":
            return _strings if is_text(kind) else None
        case "binary":
            return _strings if is_binary(kind) else None
        case "date" | "timestamp":
            return _moment_encoder(kind, type_)
        case _:
            return None


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(
        is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind) or is_.is_fixed_size_binary(kind)
    )


def _exact_encoder(kind: pa.DataType, type_: Type) -> Encoder | None:
    low, high = code_limits(type_)
    if pa.types.is_integer(kind):
        return _exact(kind, 0, type_.scale, low, high)
    if pa.types.is_decimal(kind):
        return _exact(kind, kind.scale, type_.scale, low, high)
    if (pa.types.is_float32(kind) or pa.types.is_float64(kind)) and type_.scale <= _EXACT_POWER:
        return _Converted(_doubles_of, _ExactFromDoubles(type_.scale, low, high))
    return None


def code_limits(type_: Type) -> tuple[int, int]:
    """The least and the greatest code of an exact type. The least int64 is NULL."""
    if type_.is_integer:
        bound = 1 << (INTEGER_BITS[type_.name] - 1)
        return max(-bound, LEAST), bound - 1
    most = min(10**type_.precision - 1, MOST)
    return -most, most


def _exact(kind: pa.DataType, scale: int, wanted: int, low: int, high: int) -> Encoder | None:
    """Numbers with `scale` digits behind the point, as codes with `wanted` digits there."""
    if abs(wanted - scale) > 18:
        return None
    times, per = 10 ** max(wanted - scale, 0), 10 ** max(scale - wanted, 0)
    return _scaled(kind, times, per, low, high)


def _scaled(kind: pa.DataType, times: int, per: int, low: int, high: int) -> Encoder | None:
    """Codes `number * times / per` from `low` to `high`."""
    # What that asks of the numbers.
    least, most = max(-(-low // times) * per, LEAST), min(high // times * per, MOST)
    is_ = pa.types
    words = Numbers(loops.WORDS, least, most, times, per)
    if is_.is_int64(kind) or is_.is_timestamp(kind) or is_.is_decimal64(kind):
        return words
    if is_.is_decimal128(kind):
        return Numbers(loops.DECIMALS, least, most, times, per)
    if (is_.is_int32(kind) or is_.is_date32(kind) or is_.is_decimal32(kind)) and per == 1:
        return Numbers(loops.HALVES, least, most, times)
    if is_.is_decimal32(kind):
        return _Cast(pa.decimal64(kind.precision, kind.scale), words)
    return _Cast(pa.int64(), words) if is_.is_integer(kind) else None


def _floating_encoder(kind: pa.DataType, type_: Type) -> Encoder | None:
    narrow = type_.name == "float"
    if pa.types.is_float64(kind) and not narrow:
        return Numbers(loops.DOUBLES)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _Converted(_doubles_of, _as_floating(narrow))
    if pa.types.is_integer(kind):
        return _Converted(_int_doubles, _as_floating(narrow))
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= _EXACT_POWER:
        return _Converted(_decimal_doubles, _as_floating(narrow))
    return None


_SECONDS_A_DAY = 86_400
_MICROS = 1_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": _MICROS, "ns": 1_000_000_000}
_DAYS = tuple((day - date(1970, 1, 1)).days for day in (date.min, date.max))
_MOMENTS = (_DAYS[0] * _SECONDS_A_DAY * _MICROS, (_DAYS[1] + 1) * _SECONDS_A_DAY * _MICROS - 1)


def _moment_encoder(kind: pa.DataType, type_: Type) -> Encoder | None:
    if pa.types.is_date32(kind):
        if type_.name == "date":
            return _scaled(kind, 1, 1, *_DAYS)
        return _scaled(kind, _SECONDS_A_DAY * _MICROS, 1, *_MOMENTS)
    if not pa.types.is_timestamp(kind):
        return None
    per_second = _PER_SECOND[kind.unit]
    # Near both ends of the calendar, the local time of a zone may be outside.
    margin = 0 if kind.tz is None else 1
    if type_.name == "date":
        return _scaled(kind, 1, _SECONDS_A_DAY * per_second, _DAYS[0] + margin, _DAYS[1] - margin)
    low, high = (_MOMENTS[0] + margin * _SECONDS_A_DAY * _MICROS, _MOMENTS[1] - margin * _SECONDS_A_DAY * _MICROS)
    return _scaled(kind, max(_MICROS // per_second, 1), max(per_second // _MICROS, 1), low, high)


# --- numbers where they are, or in one pass


@dataclass(frozen=True, slots=True)
class Numbers:
    """What one compiled loop encodes; see the words of a plan in `column_loops.py`."""

    form: int
    low: int = 0
    high: int = 0
    times: int = 1
    per: int = 1

    def __call__(self, array: pa.Array, dictionary: Dictionary) -> Column | None:
        rows = len(array)
        plan = np.array((0, 0, 0, self.form, self.low, self.high, self.times, self.per), np.int64)
        batch = pa.RecordBatch.from_arrays([array], [""])
        memory = exported(batch, 1, 1)
        if not loops.encode_batch(memory.address, 1, rows, 0, address(plan), 1, 0):
            return None
        where, stride = np.frombuffer(memory, np.int64, 2).tolist()
        return Column(where, stride, (batch, memory))


def exported(batch: pa.RecordBatch, width: int, encoded: int) -> pa.Buffer:
    """Memory for `encode_batch`, which is to be called: for a relation of `width` columns, so many of them encoded."""
    head = loops.head(width)
    memory = pa.allocate_buffer(8 * (head + loops.STRUCT + batch.num_rows * encoded))
    batch._export_to_c(memory.address + 8 * head)
    return memory


@dataclass(frozen=True, slots=True)
class _Cast:
    """By way of another Arrow type, if all values fit that."""

    kind: pa.DataType
    then: Encoder

    def __call__(self, array: pa.Array, dictionary: Dictionary) -> Column | None:
        try:
            return self.then(array.cast(self.kind), dictionary)
        except pa.ArrowInvalid:
            return None


# --- numbers of another kind, by way of doubles

_EXACT_POWER = 22  # 10**22 is the greatest power of ten that is a double
_EXACT_INTEGER = 2**53  # up to here, every integer is a double
_DIGITS = 10**15  # decimals of up to 15 digits are told apart by the nearest doubles


@dataclass(frozen=True, slots=True)
class _Converted:
    """Values as doubles (None: not all of them are), then those as codes (None: not all have one)."""

    doubles: Callable[[pa.Array, Mask], Doubles | None]
    codes: Callable[[Doubles, Mask], Ints | None]

    def __call__(self, array: pa.Array, dictionary: Dictionary) -> Column | None:
        nulls: Mask = flags(array.is_null())
        doubles = self.doubles(array, nulls)
        codes = self.codes(doubles, nulls) if doubles is not None else None
        if codes is None:
            return None
        codes[nulls] = NULL
        return _column(codes)


def _doubles_of(array: pa.Array, nulls: Mask) -> Doubles | None:
    doubles: Doubles = numbers(array.fill_null(0.0)).astype(np.float64)
    return doubles


def _int_doubles(array: pa.Array, nulls: Mask) -> Doubles | None:
    try:
        integers = numbers(array.cast(pa.int64()).fill_null(0))
    except pa.ArrowInvalid:
        return None
    inside = (-_EXACT_INTEGER <= integers) & (integers <= _EXACT_INTEGER)
    return integers.astype(np.float64) if inside.all() else None


def _decimal_doubles(array: pa.Array, nulls: Mask) -> Doubles | None:
    """The quotient of two exact doubles is the double nearest to the decimal, and its text is the decimal again."""
    words = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), array.offset * 16) if len(array) else _NONE
    lower = words[::2]
    inside = (-_DIGITS < lower) & (lower < _DIGITS) & (words[1::2] == lower >> 63)
    return lower / 10.0**array.type.scale if (inside | nulls).all() else None


_NONE: Ints = np.empty(0, np.int64)


def _as_floating(narrow: bool) -> Callable[[Doubles, Mask], Ints | None]:
    return _float_codes if narrow else lambda doubles, nulls: _double_codes(doubles)


def _double_codes(doubles: Doubles) -> Ints:
    codes = doubles.view(np.int64).copy()
    codes[doubles == 0.0] = 0
    codes[np.isnan(doubles)] = _NAN
    return codes


_NAN = 0x7FF8000000000000


def _float_codes(doubles: Doubles, nulls: Mask) -> Ints | None:
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = doubles.astype(np.float32).astype(np.float64)
    lost = np.isinf(rounded) & np.isfinite(doubles)
    return None if (lost & ~nulls).any() else _double_codes(rounded)


@dataclass(frozen=True, slots=True)
class _ExactFromDoubles:
    """Doubles as decimals that have the same shortest text.

    A double that is nearest to a decimal of at most 15 digits is so to no other such decimal, and its shortest text has
    at most as many digits: so the text is that decimal.
    """

    scale: int
    low: int
    high: int

    def __call__(self, doubles: Doubles, nulls: Mask) -> Ints | None:
        power = 10.0**self.scale
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.rint(doubles * power)
            limit = min(self.high, _DIGITS - 1)
            plain = (whole / power == doubles) & (np.abs(whole) <= limit)
            return whole.astype(np.int64) if (plain | nulls).all() else None


# --- the rest


def _booleans(array: pa.Array, dictionary: Dictionary) -> Column:
    rows, first = len(array), array.offset
    valid, data = array.buffers()
    codes = _bits(data, first, rows).astype(np.int64)
    if array.null_count:
        codes[_bits(valid, first, rows) == 0] = NULL
    return _column(codes)


def _bits(buffer: Any, first: int, rows: int) -> NDArray[np.uint8]:
    if rows == 0:
        return np.empty(0, np.uint8)
    packed = np.frombuffer(buffer, np.uint8, (first + rows + 7) // 8)
    return np.unpackbits(packed, bitorder="little")[first : first + rows]


def _strings(array: pa.Array, dictionary: Dictionary) -> Column:
    out = pa.allocate_buffer(8 * len(array))
    dictionary.codes_into(array, out.address)
    return Column(out.address, 1, out)


@dataclass(frozen=True, slots=True)
class _Indexed:
    """A dictionary of Arrow's: its values once, then their codes by index."""

    values: Encoder

    def __call__(self, array: pa.Array, dictionary: Dictionary) -> Column | None:
        values = self.values(array.dictionary, dictionary)
        if values is None:
            return None
        known = np.append(values.codes(len(array.dictionary)), NULL)
        indices = numbers(array.indices.cast(pa.int64()).fill_null(len(known) - 1))
        return _column(known[indices])


def _all_null(array: pa.Array, dictionary: Dictionary) -> Column:
    return _column(np.full(len(array), NULL, np.int64))


def _column(codes: Ints) -> Column:
    return Column(address(codes), 1, codes)
