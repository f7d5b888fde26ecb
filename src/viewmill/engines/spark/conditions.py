"""Conditions on an incoming batch, as Spark expressions, where these mean exactly the same.

    {l_shipdate > date '1995-03-15' and upper(l_comment) = 'X'}   =>   l_shipdate > DATE '1995-03-15'

They only save work: what is tested here is tested again in the bucket. So a part that Spark would see differently, or
that could fail, is left out where what remains is weaker, and otherwise the whole condition is.

Law: a row for which the test is true is one for which the Spark expression is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from math import isfinite
from typing import assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F

from viewmill.algebra.functions import evaluate_scalar
from viewmill.algebra.nodes import Expr, Test
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var, variables
from viewmill.engines.spark.columns import Checked, is_lossless, spark_type
from viewmill.errors import DataError
from viewmill.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    Type,
    as_decimal,
    decimal,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BIGINT_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class Condition:
    """True for every row that passes, and for those with something wrong in a column that it reads."""

    column: Column
    names: tuple[str, ...]


def condition(test: Expr, source: Checked) -> Condition | None:
    """None if nothing of the test can be said in Spark."""
    if not isinstance(test, Test) or not variables(test.scalar) <= source.columns.keys():
        return None
    known = {name: _Typed(source.columns[name], source.types[name]) for name in variables(test.scalar)}
    implied = _implied(test.scalar, known)
    if implied is None:
        return None
    names = tuple(sorted(known))
    wrong = [fault.where for name in names for fault in source.faults[name]]
    return Condition(reduce(Column.__or__, wrong, implied), names)


@dataclass(frozen=True, slots=True)
class _Typed:
    column: Column
    type: Type


_Known = Mapping[str, _Typed]


def _implied(scalar: Scalar, known: _Known) -> Column | None:
    """Something that is true wherever the scalar is: a conjunct may be left out, a disjunct may not."""
    match scalar:
        case Call("and", args):
            parts = [part for arg in args if (part := _implied(arg, known)) is not None]
            return reduce(Column.__and__, parts) if parts else None
        case Call("or", args):
            some = [_implied(arg, known) for arg in args]
            every = [part for part in some if part is not None]
            return reduce(Column.__or__, every) if len(every) == len(some) else None
        case _:
            exact = _exact(scalar, known)
            return None if exact is None or exact.type != BOOLEAN else exact.column


def _exact(scalar: Scalar, known: _Known) -> _Typed | None:
    """The same value for every row, without fail; None if that cannot be had."""
    match scalar:
        case Var(name):
            return known[name]
        case Const(value):
            return _constant(value)
        case Call() | Cast() if not variables(scalar):
            return _folded(scalar)
        case Cast(arg, type_):
            inner = _exact(arg, known)
            return None if inner is None else _cast(inner, type_)
        case Call(op, args):
            inner_args = [_exact(arg, known) for arg in args]
            typed = [arg for arg in inner_args if arg is not None]
            if op not in _CALLS or len(typed) < len(args):
                return None
            return _CALLS[op](typed, args)
        case _:
            assert_never(scalar)


def _folded(scalar: Scalar) -> _Typed | None:
    try:
        return _constant(evaluate_scalar(scalar, {}))
    except DataError:
        return None


def _constant(value: object) -> _Typed | None:
    """Dates and timestamps are written as numbers: Spark would read them in the zone of its session."""
    match value:
        case bool():
            return _Typed(F.lit(value), BOOLEAN)
        case int() if -_BIGINT_LIMIT <= value < _BIGINT_LIMIT:
            return _Typed(F.lit(value).cast("bigint"), BIGINT)
        case float() if isfinite(value):
            return _Typed(F.lit(value), DOUBLE)
        case str():
            return _Typed(F.lit(value), STRING)
        case datetime():
            micros = (value.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
            return _Typed(F.timestamp_micros(F.lit(micros)), TIMESTAMP)
        case date():
            return _Typed(F.date_from_unix_date(F.lit((value - _EPOCH.date()).days)), DATE)
        case Decimal() if value.is_finite():
            return _decimal(value)
        case _:
            return None


def _decimal(value: Decimal) -> _Typed | None:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > MAX_PRECISION:
        return None
    type_ = decimal(precision, scale)
    return _Typed(F.lit(f"{value:f}").cast(spark_type(type_)), type_)


def _cast(typed: _Typed, target: Type) -> _Typed | None:
    """Between numbers, where every value stays what it is."""
    numbers = typed.type.is_numeric and target.is_numeric and not (typed.type.is_decimal and not target.is_decimal)
    if typed.type != target and not (numbers and not typed.type.is_floating and is_lossless(typed.type, target)):
        return None
    return _Typed(typed.column.cast(spark_type(target)), target)


def _is_comparable(types: Sequence[Type]) -> bool:
    """Whether Spark compares the values themselves, without changing one of them first."""
    if all(type_.is_floating for type_ in types):
        return True
    if all(type_.is_exact for type_ in types):
        digits = [as_decimal(type_) if type_.is_integer else type_ for type_ in types]
        scale, whole = max(d.scale for d in digits), max(d.precision - d.scale for d in digits)
        return all(type_.is_integer for type_ in types) or whole + scale <= MAX_PRECISION
    plain = types[0].name in ("boolean", "string", "date", "timestamp")
    return plain and all(type_ == types[0] for type_ in types)


_Call = Callable[[Sequence[_Typed], Sequence[Scalar]], _Typed | None]


def _comparison(compare: Callable[[Column, Column], Column]) -> _Call:
    def call(args: Sequence[_Typed], _scalars: Sequence[Scalar]) -> _Typed | None:
        left, right = args
        return _Typed(compare(left.column, right.column), BOOLEAN) if _is_comparable((left.type, right.type)) else None

    return call


def _logic(combine: Callable[[Column, Column], Column]) -> _Call:
    def call(args: Sequence[_Typed], _scalars: Sequence[Scalar]) -> _Typed | None:
        columns = [arg.column for arg in args]
        return _Typed(reduce(combine, columns), BOOLEAN) if _all(args, BOOLEAN) else None

    return call


def _all(args: Sequence[_Typed], type_: Type) -> bool:
    return all(arg.type == type_ for arg in args)


def _not(args: Sequence[_Typed], _scalars: Sequence[Scalar]) -> _Typed | None:
    return _Typed(~args[0].column, BOOLEAN) if _all(args, BOOLEAN) else None


def _is_null(args: Sequence[_Typed], _scalars: Sequence[Scalar]) -> _Typed | None:
    return _Typed(args[0].column.isNull(), BOOLEAN)


def _in(args: Sequence[_Typed], _scalars: Sequence[Scalar]) -> _Typed | None:
    needle, *items = args
    if not _is_comparable([arg.type for arg in args]):
        return None
    return _Typed(needle.column.isin(*(item.column for item in items)), BOOLEAN)


def _like(args: Sequence[_Typed], scalars: Sequence[Scalar]) -> _Typed | None:
    """Of a pattern that is known and escapes nothing: Spark and we agree on no more."""
    match scalars:
        case (_, Const(str() as pattern)) if "\\" not in pattern and _all(args, STRING):
            return _Typed(args[0].column.like(pattern), BOOLEAN)
        case _:
            return None


def _of_strings(function: Callable[[Column, Column], Column]) -> _Call:
    def call(args: Sequence[_Typed], _scalars: Sequence[Scalar]) -> _Typed | None:
        return _Typed(function(args[0].column, args[1].column), BOOLEAN) if _all(args, STRING) else None

    return call


def _substring(args: Sequence[_Typed], scalars: Sequence[Scalar]) -> _Typed | None:
    match scalars:
        case (_, Const(int() as position), Const(int() as length)) if args[0].type == STRING:
            if -(1 << 31) < position < 1 << 31 and 0 <= length < 1 << 31:
                return _Typed(F.substring(args[0].column, position, length), STRING)
    return None


def _length(args: Sequence[_Typed], _scalars: Sequence[Scalar]) -> _Typed | None:
    return _Typed(F.char_length(args[0].column), INT) if _all(args, STRING) else None


def _of_day(function: Callable[[Column], Column]) -> _Call:
    """A field of a date. (That of a timestamp depends on the zone of the session.)"""

    def call(args: Sequence[_Typed], _scalars: Sequence[Scalar]) -> _Typed | None:
        return _Typed(function(args[0].column), INT) if _all(args, DATE) else None

    return call


_CALLS: dict[str, _Call] = {
    "=": _comparison(Column.__eq__),
    "<>": _comparison(Column.__ne__),
    "<": _comparison(Column.__lt__),
    "<=": _comparison(Column.__le__),
    ">": _comparison(Column.__gt__),
    ">=": _comparison(Column.__ge__),
    "<=>": _comparison(lambda left, right: left.eqNullSafe(right)),
    "and": _logic(Column.__and__),
    "or": _logic(Column.__or__),
    "not": _not,
    "is_null": _is_null,
    "in": _in,
    "like": _like,
    "startswith": _of_strings(lambda text, part: text.startswith(part)),
    "endswith": _of_strings(lambda text, part: text.endswith(part)),
    "contains": _of_strings(lambda text, part: text.contains(part)),
    "substring": _substring,
    "length": _length,
    "year": _of_day(F.year),
    "quarter": _of_day(F.quarter),
    "month": _of_day(F.month),
    "day": _of_day(F.day),
}
