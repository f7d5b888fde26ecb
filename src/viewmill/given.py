"""Columns as the caller gave them: as Python values, and as Arrow where that says the same.

Law: where `arrow()` is an array whose values all fit the column's type in the plain way (no text for a date, no NaN for
a NULL), its values and `values()` fit as the same ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.errors import DataError
from viewmill.wording import quoted, titled


class GivenColumn(Protocol):
    def values(self) -> list[object]:
        """One value for each row."""

    def arrow(self) -> pa.ChunkedArray | pa.Array | None:
        """The same as Arrow has it; None if it has not."""


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    column: pa.ChunkedArray
    name: str
    info: RelationInfo

    def values(self) -> list[object]:
        column = self.column
        # Python has no nanoseconds: they must be zero.
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            try:
                column = column.cast(pa.timestamp("us", column.type.tz))
            except pa.ArrowInvalid:
                raise DataError(
                    f"a timestamp in column {quoted(self.name)} of {titled(self.info)} has nanoseconds",
                    hint="timestamps have microseconds; round them before passing them in",
                ) from None
        try:
            values: list[object] = column.to_pylist()
        except (OverflowError, ValueError) as error:  # Python's years end with 9999
            raise DataError(
                f"a value in column {quoted(self.name)} of {titled(self.info)} cannot be read: {error}",
                hint="dates are from 0001-01-01 to 9999-12-31; leave out what is beyond, or make it NULL",
            ) from None
        return values

    def arrow(self) -> pa.ChunkedArray:
        return self.column


@dataclass(frozen=True, slots=True)
class PandasColumn:
    """pandas writes a missing value as NaN, NaT or NA. Only in a floating column is NaN a number of its own."""

    series: Any
    column: ColumnInfo | None
    pandas: Any

    def values(self) -> list[object]:
        return [self._value(item) for item in self.series.tolist()]

    def _value(self, item: object) -> object:
        if self._keeps_nan and isinstance(item, float) and math.isnan(item):
            return item
        return None if self.pandas.api.types.is_scalar(item) and self.pandas.isna(item) else item

    @property
    def _keeps_nan(self) -> bool:
        return self.column is not None and self.column.type.is_floating

    def arrow(self) -> pa.ChunkedArray | pa.Array | None:
        dtype = self.series.dtype
        try:
            if dtype.kind == "f" and not self.pandas.api.types.is_extension_array_dtype(dtype):
                return pa.array(self.series.to_numpy(), from_pandas=not self._keeps_nan)
            return pa.array(self.series) if self._says_its_kind(dtype) else None
        except (pa.ArrowException, ValueError, TypeError):
            return None

    def _says_its_kind(self, dtype: Any) -> bool:
        """An object column may hold anything, and only Python can tell."""
        known = self.pandas.api.types
        return bool(known.is_extension_array_dtype(dtype) or dtype.kind in "biuM") and not isinstance(
            dtype, self.pandas.CategoricalDtype | self.pandas.SparseDtype
        )
