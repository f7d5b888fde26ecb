"""Rows in few bytes, on their way: a number as what it adds to the least of its column, in as many bytes as that takes.

    price decimal(15,2): 901.00, 1040.50, 17.25     16 bytes each
    least 1725 and 88375, 102325, 0                  4 bytes each

Whatever a batch sends is copied half a dozen times before a bucket has it, by Python, by Spark and to the log, and
compressed twice. To make rows narrow and wide again takes less time than to copy the rest once.

Law: `restored(compacted(batch), batch.num_rows, batch.schema) == batch`, NULLs included.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewmill.engines.local.narrow import bytes_for
from viewmill.numbers import as_column, flags

Words = NDArray[np.int64]

AS_IT_IS = -1
"""Instead of the bytes of a number: the column travels unchanged. With 0, all rows have the least."""
_KINDS = {1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32(), 8: pa.int64()}
_FEW = 256
"""With fewer rows, there is nothing to be gained."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Rows as they travel. `forms` has, for every column, the bytes of a number and the least one; or nothing, if the
    columns of `batch` are those of the rows.
    """

    forms: Words
    batch: pa.RecordBatch


def compacted(batch: pa.RecordBatch) -> Compact:
    narrow = [_narrow(column) for column in batch.columns] if batch.num_rows >= _FEW else []
    forms = np.array([(size, least) for size, least, _ in narrow], "<i8").reshape(len(narrow), 2)
    if (forms[:, 0] == AS_IT_IS).all():
        return Compact(forms[:0], batch)
    sent = [column for _, _, column in narrow if column is not None]
    return Compact(forms, pa.RecordBatch.from_arrays(sent, names=[str(place) for place in range(len(sent))]))


def sent_schema(forms: Words, schema: pa.Schema) -> pa.Schema:
    """Of the batch that travels, if that of the rows is `schema`."""
    return _sent_schema(tuple(forms[:, 0].tolist()), schema) if len(forms) else schema


@lru_cache(maxsize=1024)
def _sent_schema(sizes: tuple[int, ...], schema: pa.Schema) -> pa.Schema:
    kinds = [_KINDS.get(size, kind) for size, kind in zip(sizes, schema.types, strict=True) if size]
    return pa.schema([(str(place), kind) for place, kind in enumerate(kinds)])


def restored(compact: Compact, rows: int, schema: pa.Schema) -> pa.RecordBatch:
    if not len(compact.forms):
        return compact.batch
    sent, arrays = iter(compact.batch.columns), []
    for (size, least), kind in zip(compact.forms.tolist(), schema.types, strict=True):
        if size == AS_IT_IS:
            arrays.append(next(sent))
        elif size:
            column = next(sent)
            arrays.append(_wide(_numbers(column).astype(np.int64) + least, kind, column.buffers()[0]))
        else:
            arrays.append(_wide(np.full(rows, least, np.int64), kind, None))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _narrow(column: pa.Array) -> tuple[int, int, pa.Array | None]:
    """The bytes of a number and the least of them, and the column that travels, if one does."""
    words = _words(column)
    if words is None:
        return AS_IT_IS, 0, column
    valid = flags(column.is_valid()) if column.null_count else None
    if valid is not None:  # what lies where a NULL is may be anything
        words = np.where(valid, words, words[valid.argmax()])
    least, most = int(words.min()), int(words.max())
    size = bytes_for(most - least)
    if not size and valid is None:
        return 0, least, None
    size = max(size, 1)
    if size >= column.type.byte_width:
        return AS_IT_IS, 0, column
    least = least if size < 8 else 0
    kind = _KINDS[size]
    validity = as_column(valid).buffers()[1] if valid is not None else None
    narrow = pa.py_buffer((words - least).astype(kind.to_pandas_dtype()))
    return size, least, pa.Array.from_buffers(kind, len(column), [validity, narrow])


def _words(column: pa.Array) -> Words | None:
    """The numbers of a column, with anything where it is NULL; None if they are none, or need more than a word."""
    kind = column.type
    if pa.types.is_decimal128(kind):
        low, high = _numbers(column).reshape(-1, 2).T
        fits: NDArray[np.bool_] = high == low >> 63
        if not fits.all() and not (column.null_count and fits[flags(column.is_valid())].all()):
            return None
        return low
    if pa.types.is_signed_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return _numbers(column).astype(np.int64, copy=False)
    return None


def _numbers(column: pa.Array) -> NDArray[Any]:
    """What lies in memory, where a NULL is, too; of a decimal, two words."""
    kind, count = column.type, len(column)
    if pa.types.is_decimal128(kind):
        return np.frombuffer(column.buffers()[1], "<i8", 2 * count, 16 * column.offset)
    stored = f"<{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.byte_width}"
    return np.frombuffer(column.buffers()[1], stored, count, kind.byte_width * column.offset)


def _wide(words: Words, kind: pa.DataType, validity: pa.Buffer | None) -> pa.Array:
    """Words as a column of numbers, NULLs included."""
    if pa.types.is_decimal128(kind):
        data = np.column_stack((words, words >> 63))
    else:
        data = words.astype(f"<i{kind.byte_width}", copy=False)
    return pa.Array.from_buffers(kind, len(words), [validity, pa.py_buffer(data)])
