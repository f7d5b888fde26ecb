"""SQL types, as Spark has them, and the Python values that carry them.

| type                         | value              |
| ---------------------------- | ------------------ |
| boolean                      | bool               |
| tinyint smallint int bigint  | int                |
| float double                 | float              |
| decimal(p, s)                | decimal.Decimal    |
| string                       | str                |
| binary                       | bytes              |
| date, timestamp              | date, datetime     |
| void (the type of NULL)      | None               |

NULL is `None` in every type.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class Type:
    """`decimal(15,2)`: a type name, with precision and scale for decimals only."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def is_integer(self) -> bool:
        return self.name in _INTEGER_DIGITS

    @property
    def is_decimal(self) -> bool:
        return self.name == "decimal"

    @property
    def is_floating(self) -> bool:
        return self.name in ("float", "double")

    @property
    def is_exact(self) -> bool:
        """Sums and products of such values have no rounding."""
        return self.is_integer or self.is_decimal

    @property
    def is_numeric(self) -> bool:
        return self.is_exact or self.is_floating


# Decimal digits that hold every value of the integer type (Spark's DecimalType.forType).
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

BOOLEAN = Type("boolean")
TINYINT = Type("tinyint")
SMALLINT = Type("smallint")
INT = Type("int")
BIGINT = Type("bigint")
FLOAT = Type("float")
DOUBLE = Type("double")
STRING = Type("string")
BINARY = Type("binary")
DATE = Type("date")
TIMESTAMP = Type("timestamp")
VOID = Type("void")


def decimal(precision: int, scale: int) -> Type:
    return Type("decimal", precision, scale)


def as_decimal(integer: Type) -> Type:
    """The decimal type that holds every value of an integer type."""
    return decimal(_INTEGER_DIGITS[integer.name], 0)
