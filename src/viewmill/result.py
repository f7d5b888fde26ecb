"""Rows that were read: the answer to a SELECT, or a view at one version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rich.table import Table

from viewmill.arrow import arrow_table
from viewmill.catalog import ColumnInfo
from viewmill.errors import UnsupportedError
from viewmill.intake import Row
from viewmill.terminal import as_text


@dataclass(frozen=True, slots=True)
class Result:
    """Columns, rows in order, and the version they were read at. A statement that answers nothing has no columns."""

    columns: tuple[ColumnInfo, ...]
    rows: tuple[Row, ...]
    version: int

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_arrow(self) -> pa.Table:
        return arrow_table(self.columns, self.rows)

    def to_pandas(self) -> Any:
        """A pandas DataFrame; decimals and dates stay Python objects, since pandas has no exact types for them."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise UnsupportedError(
                "pandas is not installed", hint="pip install pandas, or use to_arrow() instead"
            ) from None
        return self.to_arrow().to_pandas()

    def to_dicts(self) -> list[dict[str, object]]:
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def __rich__(self) -> Table:
        table = Table(header_style="bold")
        for column in self.columns:
            table.add_column(column.name, justify="right" if column.type.is_numeric else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*("NULL" if value is None else str(value) for value in row))
        return table

    def __str__(self) -> str:
        return as_text(self.__rich__()) if self.columns else ""
