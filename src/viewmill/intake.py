"""Data in: Arrow, pandas or plain Python rows, checked against a relation, become rows of it.

    [{"id": 1, "day": "2024-01-31"}], [(1, "2024-01-31")], a DataFrame, an Arrow table  ->  [(1, date(2024, 1, 31))]

A `Row` is a tuple in the order of the declared columns. Whatever does not fit is refused with one line that names the
table, the column and the row. Names are compared without regard to case, as in Spark SQL.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.errors import DataError
from viewmill.values import Misfit, fit
from viewmill.wording import counted, nearest, quoted, shown, titled

Row: TypeAlias = tuple[object, ...]
Given: TypeAlias = Mapping[str, object] | tuple[object, ...]
"""A row as the caller wrote it: by name (in lower case) or by position."""


def given_rows(data: object, info: RelationInfo) -> list[Given]:
    """The rows of any supported container, not yet checked but for their column names."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _from_pandas(data, info, pandas)
    if isinstance(data, pa.RecordBatch):
        return _from_arrow(pa.Table.from_batches([data]), info)
    if isinstance(data, pa.Table):
        return _from_arrow(data, info)
    if hasattr(data, "__arrow_c_stream__"):  # polars, DuckDB and others hand their data over this way
        return _from_arrow(pa.table(data), info)
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise DataError(
            f"cannot read rows for {titled(info)} from {_article(type(data).__name__)}",
            hint="pass a list of tuples, a list of dicts, a pandas DataFrame or an Arrow table",
        )
    return [_from_python(row, info) for row in data]


def whole_row(given: Given, info: RelationInfo) -> Row:
    """A complete row, every value converted and every column checked."""
    if isinstance(given, tuple):
        values = given
    else:
        _check_names(given.keys(), info, info.names)
        values = tuple(given[name] for name in info.names)
    return tuple(_fit(value, column, info, given) for value, column in zip(values, info.columns, strict=True))


def key_alone(given: Given, info: RelationInfo) -> Row | None:
    """The primary key, if the row was given by name and has the key's columns only."""
    if isinstance(given, tuple) or not info.primary_key or set(given) != set(info.primary_key):
        return None
    if len(info.primary_key) == len(info.columns):
        return None
    columns = [column for name in info.primary_key if (column := info.column(name)) is not None]
    return tuple(_fit(given[column.name], column, info, given) for column in columns)


def _fit(value: object, column: ColumnInfo, info: RelationInfo, given: Given) -> object:
    try:
        fitted = fit(value, column.type)
    except Misfit as misfit:
        raise DataError(
            f"{shown(value)} {misfit}: column {quoted(column.name)} of {titled(info)}, row {shown(given)}",
            hint=f"{column.name} is {column.type}; convert the value before passing it in",
        ) from None
    if fitted is None and not column.nullable:
        key = column.name in info.primary_key
        raise DataError(
            f"NULL in column {quoted(column.name)} of {titled(info)}, row {shown(given)}",
            hint=f"{column.name} is {'part of the primary key' if key else 'NOT NULL'}; give it a value",
        )
    return fitted


def _from_python(row: object, info: RelationInfo) -> Given:
    if isinstance(row, Mapping):
        names = [str(name).lower() for name in row]
        _check_distinct(names, info)
        return dict(zip(names, row.values(), strict=True))
    if isinstance(row, tuple | list):
        if len(row) != len(info.columns):
            raise DataError(
                f"{titled(info)} has {counted(len(info.columns), 'column')}, "
                f"and a row has {counted(len(row), 'value')}: {shown(tuple(row))}",
                hint=f"the columns are {', '.join(info.names)}",
            )
        return tuple(row)
    raise DataError(
        f"{shown(row)} is no row for {titled(info)}",
        hint="a row is a tuple in column order or a dict by column name",
    )


def _from_arrow(table: pa.Table, info: RelationInfo) -> list[Given]:
    names = [str(name).lower() for name in table.column_names]
    _check_header(names, info)
    columns = [_arrow_values(table.column(i), name, info) for i, name in enumerate(names)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _arrow_values(column: pa.ChunkedArray, name: str, info: RelationInfo) -> list[object]:
    # Python has no nanoseconds: they must be zero.
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        try:
            column = column.cast(pa.timestamp("us", column.type.tz))
        except pa.ArrowInvalid:
            raise DataError(
                f"a timestamp in column {quoted(name)} of {titled(info)} has nanoseconds",
                hint="timestamps have microseconds; round them before passing them in",
            ) from None
    values: list[object] = column.to_pylist()
    return values


def _from_pandas(frame: Any, info: RelationInfo, pandas: Any) -> list[Given]:
    names = [str(name).lower() for name in frame.columns]
    _check_header(names, info)
    columns = [_pandas_values(frame.iloc[:, i], info.column(name), pandas) for i, name in enumerate(names)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _pandas_values(series: Any, column: ColumnInfo | None, pandas: Any) -> list[object]:
    """pandas writes a missing value as NaN, NaT or NA. Only in a floating column is NaN a number of its own."""
    keeps_nan = column is not None and column.type.is_floating

    def value(item: object) -> object:
        if keeps_nan and isinstance(item, float) and math.isnan(item):
            return item
        return None if pandas.api.types.is_scalar(item) and pandas.isna(item) else item

    return [value(item) for item in series.tolist()]


def _check_header(names: list[str], info: RelationInfo) -> None:
    """Names of a whole container: all columns, or just the primary key (for deletes)."""
    _check_distinct(names, info)
    if set(names) != set(info.primary_key):
        _check_names(names, info, info.names)


def _check_distinct(names: list[str], info: RelationInfo) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"column {quoted(name)} is given twice for {titled(info)}")


def _check_names(names: Iterable[str], info: RelationInfo, wanted: tuple[str, ...]) -> None:
    given = set(names)
    for name in sorted(given - set(wanted)):
        raise DataError(
            f"{titled(info)} has no column {quoted(name)}",
            hint=nearest(name, wanted, "the columns are"),
        )
    missing = [name for name in wanted if name not in given]
    if missing:
        raise DataError(
            f"a row for {titled(info)} lacks {'column' if len(missing) == 1 else 'columns'} {quoted(missing)}",
            hint="give every column a value; None is NULL",
        )


def _article(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"
