"""Spark's types: which one an operation gives, and which one two types have in common.

    decimal(15,2) * decimal(15,2) : decimal(31,4)        int / int : double        sum(decimal(15,2)) : decimal(25,2)

The rules are those of Spark 4 in ANSI mode, with `spark.sql.decimalOperations.allowPrecisionLoss` on: a decimal
result of more than 38 digits gives up fraction digits, but keeps at least six of them.
"""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from viewmill.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_BITS,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VOID,
    Type,
    as_decimal,
    decimal,
)

_MINIMUM_ADJUSTED_SCALE = 6
_DEFAULT_DECIMAL = decimal(10, 0)

_KINDS = exp.DType
_FROM_SQLGLOT = {
    _KINDS.BOOLEAN: BOOLEAN,
    _KINDS.TINYINT: TINYINT,
    _KINDS.SMALLINT: SMALLINT,
    _KINDS.INT: INT,
    _KINDS.BIGINT: BIGINT,
    _KINDS.FLOAT: FLOAT,
    _KINDS.DOUBLE: DOUBLE,
    _KINDS.CHAR: STRING,
    _KINDS.NCHAR: STRING,
    _KINDS.VARCHAR: STRING,
    _KINDS.NVARCHAR: STRING,
    _KINDS.TEXT: STRING,
    _KINDS.BINARY: BINARY,
    _KINDS.VARBINARY: BINARY,
    _KINDS.DATE: DATE,
    _KINDS.DATE32: DATE,
    _KINDS.TIMESTAMP: TIMESTAMP,
    _KINDS.TIMESTAMPTZ: TIMESTAMP,
    _KINDS.TIMESTAMPLTZ: TIMESTAMP,
    _KINDS.TIMESTAMPNTZ: TIMESTAMP,
    _KINDS.DATETIME: TIMESTAMP,
}


def from_sqlglot(said: exp.DataType) -> Type | None:
    """The type of a column or cast, None if we do not have it."""
    if said.this == _KINDS.DECIMAL:
        sizes = [int(size.name) for size in said.expressions]
        if not sizes:
            return _DEFAULT_DECIMAL
        precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        return decimal(precision, scale) if 0 <= scale <= precision <= MAX_PRECISION and precision > 0 else None
    return _FROM_SQLGLOT.get(said.this) if not said.args.get("nested") else None


# --- decimals


def bounded(precision: int, scale: int) -> Type:
    """Cut to 38 digits, fraction and all (Spark's `DecimalType.bounded`)."""
    return decimal(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def adjusted(precision: int, scale: int) -> Type:
    """Cut to 38 digits at the cost of the fraction, of which six digits stay (Spark's `adjustPrecisionScale`)."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _MINIMUM_ADJUSTED_SCALE)))


def wider_decimal(left: Type, right: Type) -> Type:
    """A decimal that holds both; over 38 digits the fraction gives way."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale <= MAX_PRECISION:
        return decimal(whole + scale, scale)
    return decimal(MAX_PRECISION, max(0, MAX_PRECISION - whole))


def decimal_result(op: str, left: Type, right: Type) -> tuple[Type, bool]:
    """The type of a decimal operation, and whether every result fits it exactly."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    match op:
        case "+" | "-":
            scale = max(s1, s2)
            precision = max(p1 - s1, p2 - s2) + scale + 1
        case "*":
            precision, scale = p1 + p2 + 1, s1 + s2
        case "/":
            scale = max(_MINIMUM_ADJUSTED_SCALE, s1 + p2 + 1)
            precision = p1 - s1 + s2 + scale
        case _:  # % and pmod
            scale = max(s1, s2)
            precision = min(p1 - s1, p2 - s2) + scale
    return adjusted(precision, scale), op != "/" and precision <= MAX_PRECISION


def decimal_of(number: Type) -> Type:
    """The decimal type in which Spark takes numbers of a type (its `DecimalType.forType`)."""
    if number.is_floating:
        return decimal(14, 7) if number == FLOAT else decimal(30, 15)
    return number if number.is_decimal else as_decimal(number)


def drops_digits(op: str, left: Type, right: Type) -> bool:
    """Whether the type of a decimal operation has fewer fraction digits than its exact result."""
    exact = left.scale + right.scale if op == "*" else max(left.scale, right.scale)
    return op == "/" or decimal_result(op, left, right)[0].scale < exact


def literal_type(value: Decimal) -> Type:
    """`0.05` is decimal(2,2), `24` as a decimal is decimal(2,0)."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return decimal(max(len(digits) + max(0, exponent), scale), scale)


def integer_type(value: int) -> Type:
    """The type of an integer literal: int, bigint, or a decimal where neither holds it."""
    for candidate in (INT, BIGINT):
        if -(2 ** (INTEGER_BITS[candidate.name] - 1)) <= value < 2 ** (INTEGER_BITS[candidate.name] - 1):
            return candidate
    return literal_type(Decimal(value))


# --- common types

_PRECEDENCE = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)


def common_type(left: Type, right: Type) -> Type | None:
    """The type both sides are converted to in a comparison, CASE, COALESCE, IN or UNION; None if there is none."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if left == STRING or right == STRING:
        return _common_with_string(right if left == STRING else left)
    if left.is_numeric and right.is_numeric:
        return _common_numeric(left, right)
    if {left, right} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    return None


def _common_with_string(other: Type) -> Type:
    if other.is_integer:
        return BIGINT
    return DOUBLE if other.is_numeric else other


def _common_numeric(left: Type, right: Type) -> Type:
    if left.is_decimal or right.is_decimal:
        if left.is_floating or right.is_floating:
            return DOUBLE
        return wider_decimal(*(side if side.is_decimal else as_decimal(side) for side in (left, right)))
    wider = max(left, right, key=_PRECEDENCE.index)
    # A float has too few digits for an integer, so Spark takes the double.
    return DOUBLE if wider == FLOAT and left != right else wider


def common_type_of(types: list[Type]) -> Type | None:
    result: Type | None = VOID
    for type_ in types:
        result = common_type(result, type_) if result is not None else None
    return result


# --- aggregates


def sum_type(arg: Type) -> Type:
    if arg.is_decimal:
        return bounded(arg.precision + 10, arg.scale)
    return BIGINT if arg.is_integer else DOUBLE


def average_type(arg: Type) -> Type:
    return bounded(arg.precision + 4, arg.scale + 4) if arg.is_decimal else DOUBLE


# --- casts


def can_cast(source: Type, target: Type) -> bool:
    """Whether `CAST(source AS target)` is a sentence of Spark's ANSI SQL (values may still not fit)."""
    if source in (VOID, STRING) or source == target or target == STRING:
        return True
    if source.is_numeric:
        return target.is_numeric or target == BOOLEAN or target == TIMESTAMP and source.is_numeric
    if source == BOOLEAN:
        return target.is_numeric
    if source in (DATE, TIMESTAMP):
        return target in (DATE, TIMESTAMP) or source == TIMESTAMP and target.is_numeric
    return False


def can_store(source: Type, target: Type) -> bool:
    """Whether INSERT and UPDATE may put such a value into such a column: what converts without changing its nature."""
    if source in (VOID, target) or source.is_numeric and target.is_numeric:
        return True
    return source in (DATE, TIMESTAMP) and target in (DATE, TIMESTAMP) or target == STRING and source != BINARY
