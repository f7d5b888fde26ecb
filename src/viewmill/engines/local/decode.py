"""Columns of codes as Arrow columns, and rows of codes as rows of values. See `scalars.py` for what a code is.

Law: `decode_columns` has the values that `decode` gives, with the Arrow types that `arrow.py` says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewmill.arrow import arrow_type
from viewmill.engines.local.columns import code_limits
from viewmill.engines.local.dictionary import Dictionary, Ints, validity
from viewmill.engines.local.scalars import NULL
from viewmill.engines.local.values import decode
from viewmill.errors import DataError
from viewmill.types import Type

Row = tuple[object, ...]


def decode_columns(
    codes: Ints | Sequence[Ints], types: Sequence[Type], dictionary: Dictionary
) -> list[pa.Array | pa.ChunkedArray]:
    """Arrow columns of the codes, given as rows (an array of two dimensions) or as a list of columns."""
    columns = codes.T if isinstance(codes, np.ndarray) else codes
    return [decode_column(column, type_, dictionary) for column, type_ in zip(columns, types, strict=True)]


def decode_column(codes: Ints, type_: Type, dictionary: Dictionary) -> pa.Array | pa.ChunkedArray:
    """One Arrow column. Strings of more than 2 GiB in all come in chunks."""
    kind = arrow_type(type_)
    codes = np.ascontiguousarray(codes, np.int64)
    match type_.name:
        case "string" | "binary":
            return dictionary.values(codes, type_)
        case "void":
            return pa.nulls(len(codes), kind)
        case "boolean":
            return _array(kind, codes, np.packbits(codes == 1, bitorder="little"))
        case "double":
            return _array(kind, codes, codes)
        case "float":
            with np.errstate(over="ignore"):
                return _array(kind, codes, codes.view(np.float64).astype(np.float32))
        case "decimal":
            _check_limits(codes, type_, dictionary)
            return _array(kind, codes, np.stack((codes, codes >> 63), axis=1))
        case "date":
            return _array(kind, codes, codes.astype(np.int32))
        case "timestamp":
            return _array(kind, codes, codes)
        case _:
            _check_limits(codes, type_, dictionary)
            return _array(kind, codes, codes.astype(f"int{kind.bit_width}"))


def _array(kind: pa.DataType, codes: Ints, data: NDArray[np.generic]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(codes), [validity(codes), pa.py_buffer(data)])


def _check_limits(codes: Ints, type_: Type, dictionary: Dictionary) -> None:
    low, high = code_limits(type_)
    outside = ((codes < low) | (codes > high)) & (codes != NULL)
    if outside.any():
        raise DataError(f"the number {decode(int(codes[outside.argmax()]), type_, dictionary)} does not fit {type_}")


def decode_rows(codes: Ints | Sequence[Ints], types: Sequence[Type], dictionary: Dictionary) -> list[Row]:
    """Rows of Python values. For few rows, this is quicker than by way of Arrow."""
    if not types:
        return [()] * len(codes) if isinstance(codes, np.ndarray) else []
    columns = codes.T if isinstance(codes, np.ndarray) else codes
    values = [decode_values(column, type_, dictionary) for column, type_ in zip(columns, types, strict=True)]
    return list(zip(*values, strict=True))


def decode_values(codes: Ints, type_: Type, dictionary: Dictionary) -> list[object]:
    """As `decode`, for a column."""
    numbers: list[int] = codes.tolist()
    if NULL not in numbers and type_.is_integer:
        return list(numbers)
    if len(numbers) > _FEW and type_.name in ("string", "binary"):
        strings: list[object] = dictionary.values(codes, type_).to_pylist()
        return strings
    return [decode(code, type_, dictionary) for code in numbers]


_FEW = 8  # strings that are quicker found one by one
