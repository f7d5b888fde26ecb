"""Data in: Arrow, pandas or plain Python rows, checked against a relation, become rows of it.

    [{"id": 1, "day": "2024-01-31"}], [(1, "2024-01-31")], a DataFrame, an Arrow table  ->  [(1, date(2024, 1, 31))]

A `Row` is a tuple in the order of the declared columns. Whatever does not fit is refused with one line that names the
table, the column and the row. Names are compared without regard to case, as in Spark SQL.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from viewmill.algebra.functions import NAN
from viewmill.arrow import arrow_type
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.errors import DataError
from viewmill.given import ArrowColumn, GivenColumn, PandasColumn
from viewmill.values import Misfit, fit
from viewmill.wording import counted, nearest, quoted, shown, titled

Row: TypeAlias = tuple[object, ...]
Given: TypeAlias = Mapping[str, object] | tuple[object, ...]
"""A row as the caller wrote it: by name (in lower case) or by position."""


def given_rows(data: object, info: RelationInfo) -> list[Given]:
    """The rows of any supported container, not yet checked but for their column names."""
    columns = given_columns(data, info)
    if columns is not None:
        lists = [column.values() for column in columns.values()]
        return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise DataError(
            f"cannot read rows for {titled(info)} from {_article(type(data).__name__)}",
            hint="pass a list of tuples, a list of dicts, a pandas DataFrame or an Arrow table",
        )
    return [_from_python(row, info) for row in data]


def is_pandas(data: object) -> bool:
    """Whether it is a DataFrame of pandas, which is not imported for that; another thread may be importing it."""
    kind = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return kind is not None and isinstance(data, kind)


def is_columnar(data: object) -> bool:
    """Whether data comes as whole columns: Arrow, pandas, or what hands itself over as Arrow."""
    if isinstance(data, pa.RecordBatch | pa.Table) or hasattr(data, "__arrow_c_stream__"):
        return True
    return is_pandas(data)


def held(data: object) -> object:
    """The data, as a table if it is a stream that can be read only once."""
    if isinstance(data, pa.Table | pa.RecordBatch) or not hasattr(data, "__arrow_c_stream__"):
        return data
    return data if is_pandas(data) else pa.table(data)


def given_columns(data: object, info: RelationInfo) -> dict[str, GivenColumn] | None:
    """The columns by name (in lower case) of a container that is made of columns; None for others."""
    if is_pandas(data):
        frame: Any = data
        names, pandas = _header(frame.columns, info), sys.modules["pandas"]
        return {name: PandasColumn(frame.iloc[:, i], info.column(name), pandas) for i, name in enumerate(names)}
    data = held(data)  # polars, DuckDB and others hand their data over as a stream
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        return None
    names = _header(data.column_names, info)
    return {name: ArrowColumn(data.column(i), name, info) for i, name in enumerate(names)}


def whole_rows(data: object, info: RelationInfo) -> list[Row]:
    """All rows of any supported container, complete: every value converted, and every column checked."""
    columns = given_columns(data, info)
    if columns is not None and len(columns) == len(info.columns):
        try:
            return list(zip(*(_fitted(columns[column.name], column) for column in info.columns), strict=True))
        except Misfit:
            pass  # the first row that is wrong says so
    return [whole_row(given, info) for given in given_rows(data, info)]


def _fitted(given: GivenColumn, column: ColumnInfo) -> list[object]:
    """The values of a whole column, converted; those of the column's own type in Arrow are as they should be."""
    array = given.arrow()
    if array is None or array.type != arrow_type(column.type):
        values = [fit(value, column.type) for value in given.values()]
    else:
        try:
            values = array.to_pylist()
        except (OverflowError, ValueError) as error:  # a date that Python does not have
            raise Misfit(str(error)) from None
        if column.type.is_floating:
            values = [NAN if value != value else value for value in values]
    if not column.nullable and None in values:
        raise Misfit("is NULL")
    return values


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


def _header(columns: Iterable[object], info: RelationInfo) -> list[str]:
    """Names of a whole container: all columns, or just the primary key (for deletes)."""
    names = [str(name).lower() for name in columns]
    _check_distinct(names, info)
    if set(names) != set(info.primary_key):
        _check_names(names, info, info.names)
    return names


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
