"""A Spark DataFrame as the rows of a relation: names, types and NULLs checked, values converted exactly (but for
doubles as floats, which are rounded) or not at all.

    frame (id bigint, day date) for orders(id int not null, day date)
      id     cast to int, and an error in the job where the value is another afterwards
      day    as it is

What the types alone can tell is refused here and now; what depends on the values is an error in the job that has the
rows (`failure.py` gives it back as a `DataError`). Only columns that something reads are looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.engines.spark.failure import raised
from viewmill.errors import DataError, InternalError
from viewmill.types import INTEGER_BITS, Type, as_decimal, decimal
from viewmill.wording import nearest, quoted, titled

_PLAIN: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "void": T.NullType(),
}
_INFINITY = float("inf")
_NAMES = {type(spark): name for name, spark in _PLAIN.items()}
_NAMES |= {T.VarcharType: "string", T.CharType: "string", T.TimestampNTZType: "timestamp"}


def spark_type(type_: Type) -> T.DataType:
    return T.DecimalType(type_.precision, type_.scale) if type_.is_decimal else _PLAIN[type_.name]


def our_type(spark: T.DataType) -> Type | None:
    """The type of ours that has the same values; None if there is none."""
    if isinstance(spark, T.DecimalType):
        return decimal(spark.precision, spark.scale)
    name = _NAMES.get(type(spark))
    return None if name is None else Type(name)


@dataclass(frozen=True, slots=True)
class Fault:
    """A condition, and what is wrong where it holds: a NULL, or a value that does not fit."""

    where: Column
    message: str
    is_null: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """The columns of a relation in a DataFrame, by name, and what may be wrong with some.

    They hold for every DataFrame with such columns.
    """

    columns: dict[str, Column]
    types: dict[str, Type]
    faults: dict[str, tuple[Fault, ...]]

    def guarded(self, value: Column, names: Iterable[str], *, seen: Collection[str] = ()) -> Column:
        """`value`, or an error in the job if there is something wrong with a column of that name.

        NULLs in columns that are `seen` as columns of Arrow are found there (`check_nulls`).
        """
        for name in names:
            for fault in self.faults.get(name, ()):
                if not (fault.is_null and name in seen):
                    value = F.when(fault.where, raised(fault.message)).otherwise(value)
        return value


def checked(schema: T.StructType, info: RelationInfo) -> Checked:
    """The columns of `info`, in whatever order and case they are."""
    fields = _by_name(schema, info)
    _check_names(fields, info)
    columns, faults = {}, {}
    for column in info.columns:
        field = fields[column.name]
        columns[column.name], faults[column.name] = _converted(exactly(field.name), field, column, info)
    types = {column.name: column.type for column in info.columns}
    return Checked(columns, types, faults)


def exactly(name: str) -> Column:
    """The column of this name, whatever is in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name for a column beside others."""
    names = {other.lower() for other in taken}
    while name in names:
        name += "_"
    return name


def _by_name(schema: T.StructType, info: RelationInfo) -> dict[str, T.StructField]:
    fields: dict[str, T.StructField] = {}
    for field in schema.fields:
        name = field.name.lower()
        if name in fields:
            raise DataError(f"column {quoted(name)} is given twice for {titled(info)}")
        fields[name] = field
    return fields


def _check_names(fields: dict[str, T.StructField], info: RelationInfo) -> None:
    for name in fields:
        if info.column(name) is None:
            raise DataError(
                f"{titled(info)} has no column {quoted(name)}", hint=nearest(name, info.names, "the columns are")
            )
    missing = [name for name in info.names if name not in fields]
    if missing:
        raise DataError(
            f"a DataFrame for {titled(info)} lacks {'column' if len(missing) == 1 else 'columns'} {quoted(missing)}",
            hint="select every column of the table; lit(None) is NULL",
        )


def _converted(
    given: Column, field: T.StructField, column: ColumnInfo, info: RelationInfo
) -> tuple[Column, tuple[Fault, ...]]:
    source = our_type(field.dataType)
    if source is None or not _is_convertible(source, column.type):
        raise DataError(
            f"column {quoted(column.name)} of {titled(info)} is {column.type}, "
            f"and the DataFrame has {field.dataType.simpleString()}",
            hint=f'cast it: df.withColumn("{column.name}", col("{column.name}").cast("{column.type}"))',
        )
    faults: list[Fault] = []
    if field.nullable and not column.nullable:
        faults.append(Fault(given.isNull(), null_in(column, info), is_null=True))
    if field.dataType == spark_type(column.type):
        return given, tuple(faults)
    if is_lossless(source, column.type):
        return given.cast(spark_type(column.type)), tuple(faults)
    tried = given.try_cast(spark_type(column.type))
    if source.is_floating:  # a double as a float is rounded: that is its nature
        other = (F.abs(tried) == _INFINITY) & (F.abs(given) != _INFINITY)
    else:
        other = given.isNotNull() & ~tried.eqNullSafe(given)
    message = f"a value in column {quoted(column.name)} of {titled(info)} does not fit {column.type}"
    faults.append(Fault(other, message, is_null=False))
    return tried, tuple(faults)


def null_in(column: ColumnInfo, info: RelationInfo) -> str:
    """What is wrong where a column is NULL that may not be."""
    return f"NULL in column {quoted(column.name)} of {titled(info)}, which is NOT NULL"


def _is_convertible(source: Type, target: Type) -> bool:
    """Whether some values of one type are values of the other, and the others can be told."""
    return (
        source == target
        or source.name == "void"
        or (source.is_exact and target.is_exact)
        or (source.is_floating and target.is_floating)
        or (source.is_integer and target.is_floating)
    )


def is_lossless(source: Type, target: Type) -> bool:
    """Whether every value of one type is a value of the other."""
    if source == target or source.name == "void":
        return True
    if source.is_floating and target.is_floating:
        return target.name == "double"
    if source.is_integer and target.is_integer:
        return INTEGER_BITS[source.name] <= INTEGER_BITS[target.name]
    if source.is_integer and target.is_floating:
        return INTEGER_BITS[source.name] <= (32 if target.name == "double" else 16)
    digits = as_decimal(source) if source.is_integer else source
    if digits.is_decimal and target.is_decimal:
        whole, other = digits.precision - digits.scale, target.precision - target.scale
        return digits.scale <= target.scale and whole <= other
    if digits.is_decimal and target.is_integer:
        return digits.scale == 0 and digits.precision < as_decimal(target).precision
    if source.is_exact:
        return False
    raise InternalError(f"{source} is not converted to {target}")
