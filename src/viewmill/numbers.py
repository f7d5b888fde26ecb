"""Arrow columns as NumPy arrays, and the other way round, where they are.

Arrow's own `to_numpy` and `array` do that, too, and import pandas for it, if that is installed: half a second that the
first batch of a process, and every Python worker of Spark, would wait for.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Column: TypeAlias = pa.Array | pa.ChunkedArray


def numbers(column: Column) -> NDArray[Any]:
    """The numbers of a column that has no NULLs, to be read only."""
    array = _whole(column)
    if array.null_count:
        raise ValueError(f"{array.null_count} NULLs among {len(array)} numbers")
    kind: np.dtype[Any] = np.dtype(array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None:
        return np.empty(0, kind)
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize)


def flags(column: Column) -> NDArray[np.bool_]:
    """The booleans of a column that has no NULLs."""
    return numbers(_whole(column).cast(pa.uint8())).view(np.bool_)


def as_column(values: NDArray[Any]) -> pa.Array:
    """Numbers or booleans as a column without NULLs."""
    if values.dtype == np.bool_:
        data, kind = np.packbits(values, bitorder="little"), pa.bool_()
    else:
        data, kind = np.ascontiguousarray(values), pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


def _whole(column: Column) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
