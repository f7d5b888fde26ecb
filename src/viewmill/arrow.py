"""Data out: rows with Spark types become an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from viewmill.catalog import ColumnInfo
from viewmill.errors import DataError, InternalError
from viewmill.types import Type
from viewmill.wording import quoted

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "void": pa.null(),
}


def arrow_type(type_: Type) -> pa.DataType:
    if type_.is_decimal:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.name not in _PLAIN:
        raise InternalError(f"no Arrow type for {type_}")
    return _PLAIN[type_.name]


def arrow_schema(columns: Sequence[ColumnInfo]) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column.type), column.nullable) for column in columns])


def with_moments(schema: pa.Schema) -> pa.Schema:
    """With timestamps as Spark has them: moments, which sessions show in their zones. Here, they are in UTC."""
    fields = [
        field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field for field in schema
    ]
    return pa.schema(fields)


def arrow_table(columns: Sequence[ColumnInfo], rows: Iterable[tuple[object, ...]]) -> pa.Table:
    schema = arrow_schema(columns)
    kept = list(rows)
    arrays = [_array(field, [row[i] for row in kept]) for i, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(field: pa.Field, values: list[object]) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise DataError(f"a value of column {quoted(field.name)} does not fit {field.type}: {error}") from None
