"""Functions by name: which arguments they take, what they give.

    substring : string, int [, int] -> string          round : number [, int literal] -> number

A `Signature` converts the arguments as Spark would and computes the result's type. Names are those of
`algebra.functions`; `calls.py` finds the name for a node of the syntax tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from viewmill.errors import BindError
from viewmill.sql import operators
from viewmill.sql.bound import BoundExpr, Literal
from viewmill.sql.operators import call, convert, within
from viewmill.sql.types import decimal_of
from viewmill.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    VOID,
    Type,
    decimal,
)

Parameter: TypeAlias = OneOf["string", "int", "double", "number", "date", "timestamp", "moment"]
ResultRule: TypeAlias = Callable[[tuple[BoundExpr, ...]], Type]


@dataclass(frozen=True, slots=True)
class Signature:
    """`params` in order; the last `optional` of them may be left out, and the last repeats if `variadic`."""

    params: tuple[Parameter, ...]
    result: Type | ResultRule
    optional: int = 0
    variadic: bool = False
    nullable: bool | None = None  # None: where an argument is


def bind_function(name: str, args: tuple[BoundExpr, ...]) -> BoundExpr:
    """`name(args)`; the name is known."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(args)
    signature = SIGNATURES[name]
    _check_count(name, signature, len(args))
    params = signature.params + signature.params[-1:] * (len(args) - len(signature.params))
    converted = tuple(_argument(name, arg, param) for arg, param in zip(args, params, strict=False))
    result = signature.result if isinstance(signature.result, Type) else signature.result(converted)
    value = call(name, *converted, type=result, nullable=signature.nullable)
    return within(value) if result.is_integer and _may_overflow(name, converted) else value


def _may_overflow(name: str, args: tuple[BoundExpr, ...]) -> bool:
    """Of an integer they give one of the same type, and among the tinyints -128 has no abs and 127 no tens."""
    return name == "abs" or name in ("round", "bround") and _constant_scale(args) < 0


def _check_count(name: str, signature: Signature, count: int) -> None:
    most = len(signature.params)
    least = most - signature.optional
    if count < least or (count > most and not signature.variadic):
        wanted = f"at least {least}" if signature.variadic else str(most) if least == most else f"{least} to {most}"
        raise BindError(f"{name} takes {wanted} argument{'s' * (wanted != '1')}, not {count}")


_TARGETS = {"string": STRING, "int": INT, "double": DOUBLE, "date": DATE, "timestamp": TIMESTAMP}


def _argument(name: str, arg: BoundExpr, param: Parameter) -> BoundExpr:
    """The argument in the parameter's type. Only conversions that Spark makes by itself are made."""
    fits: bool
    match param:
        case "string":
            fits = arg.type != BINARY
        case "int":
            fits = arg.type.is_integer or arg.type == VOID
            if fits and not arg.type == VOID:
                return arg
        case "double":
            fits = arg.type.is_numeric or arg.type in (STRING, VOID)
        case "number":
            fits = arg.type.is_numeric or arg.type == VOID
            if fits:
                return convert(arg, DOUBLE) if arg.type == VOID else arg
        case "date" | "timestamp":
            fits = arg.type in (DATE, TIMESTAMP, STRING, VOID)
        case "moment":
            fits = arg.type in (DATE, TIMESTAMP, STRING, VOID)
            if arg.type in (DATE, TIMESTAMP):
                return arg
            return convert(arg, DATE) if fits else _mismatch(name, arg, "date or timestamp")
    return convert(arg, _TARGETS[param]) if fits else _mismatch(name, arg, param)


def _mismatch(name: str, arg: BoundExpr, wanted: str) -> BoundExpr:
    article = "an" if wanted[0] in "aeiou" else "a"
    raise BindError(f"{name} takes {article} {wanted}, not {arg.type}", hint=f"cast the argument to {wanted}")


# --- result types


def _same(args: tuple[BoundExpr, ...]) -> Type:
    return args[0].type


def _rounded(args: tuple[BoundExpr, ...]) -> Type:
    """Spark's RoundBase: rounding can carry into one more digit before the point."""
    type_, scale = args[0].type, _constant_scale(args)
    if not type_.is_decimal:
        return type_
    whole = type_.precision - type_.scale + 1
    if scale < 0:
        return decimal(min(max(whole, 1 - scale), MAX_PRECISION), 0)
    kept = min(type_.scale, scale)
    return decimal(min(whole + kept, MAX_PRECISION), kept)


def _constant_scale(args: tuple[BoundExpr, ...]) -> int:
    if len(args) == 1:
        return 0
    scale = args[1]
    if not isinstance(scale, Literal) or not isinstance(scale.value, int):
        raise BindError("the number of digits to round to must be a constant")
    return scale.value


def _whole(args: tuple[BoundExpr, ...]) -> Type:
    """CEIL and FLOOR: of a decimal a decimal without fraction, otherwise a bigint."""
    type_ = args[0].type
    if len(args) == 2:
        return _rounded(args)
    if not type_.is_decimal:
        return BIGINT
    return type_ if type_.scale == 0 else decimal(min(type_.precision - type_.scale + 1, MAX_PRECISION), 0)


SIGNATURES: dict[str, Signature] = {
    # strings
    "upper": Signature(("string",), STRING),
    "lower": Signature(("string",), STRING),
    "length": Signature(("string",), INT),
    "trim": Signature(("string", "string"), STRING, optional=1),
    "ltrim": Signature(("string", "string"), STRING, optional=1),
    "rtrim": Signature(("string", "string"), STRING, optional=1),
    "substring": Signature(("string", "int", "int"), STRING, optional=1),
    "left": Signature(("string", "int"), STRING),
    "right": Signature(("string", "int"), STRING),
    "replace": Signature(("string", "string", "string"), STRING, optional=1),
    "instr": Signature(("string", "string"), INT),
    "lpad": Signature(("string", "int", "string"), STRING, optional=1),
    "rpad": Signature(("string", "int", "string"), STRING, optional=1),
    "reverse": Signature(("string",), STRING),
    "repeat": Signature(("string", "int"), STRING),
    "split_part": Signature(("string", "string", "int"), STRING),
    "startswith": Signature(("string", "string"), BOOLEAN),
    "endswith": Signature(("string", "string"), BOOLEAN),
    "contains": Signature(("string", "string"), BOOLEAN),
    "initcap": Signature(("string",), STRING),
    "ascii": Signature(("string",), INT),
    "translate": Signature(("string", "string", "string"), STRING),
    "like": Signature(("string", "string", "string"), BOOLEAN, optional=1),
    "ilike": Signature(("string", "string", "string"), BOOLEAN, optional=1),
    "rlike": Signature(("string", "string"), BOOLEAN),
    "concat": Signature(("string",), STRING, variadic=True),
    # numbers
    "abs": Signature(("number",), _same),
    "ceil": Signature(("number", "int"), _whole, optional=1),
    "floor": Signature(("number", "int"), _whole, optional=1),
    "round": Signature(("number", "int"), _rounded, optional=1),
    "bround": Signature(("number", "int"), _rounded, optional=1),
    "sign": Signature(("double",), DOUBLE),
    "sqrt": Signature(("double",), DOUBLE),
    "power": Signature(("double", "double"), DOUBLE),
    "exp": Signature(("double",), DOUBLE),
    "ln": Signature(("double",), DOUBLE, nullable=True),  # NULL where there is no logarithm
    "log10": Signature(("double",), DOUBLE, nullable=True),
    "log2": Signature(("double",), DOUBLE, nullable=True),
    # dates
    "year": Signature(("moment",), INT),
    "month": Signature(("moment",), INT),
    "day": Signature(("moment",), INT),
    "quarter": Signature(("moment",), INT),
    "dayofweek": Signature(("moment",), INT),
    "dayofyear": Signature(("moment",), INT),
    "weekofyear": Signature(("moment",), INT),
    "hour": Signature(("timestamp",), INT),
    "minute": Signature(("timestamp",), INT),
    "second": Signature(("timestamp",), INT),
    "add_months": Signature(("date", "int"), DATE),
    "date_add": Signature(("date", "int"), DATE),
    "datediff": Signature(("date", "date"), INT),
    "trunc": Signature(("date", "string"), DATE, nullable=True),
    "date_trunc": Signature(("string", "timestamp"), TIMESTAMP, nullable=True),
    "last_day": Signature(("date",), DATE),
    "months_between": Signature(("moment", "moment"), DOUBLE),
    "unix_date": Signature(("date",), INT),
}


# --- functions whose meaning is another expression, or whose arguments share a type


def _extreme(name: str) -> Callable[[tuple[BoundExpr, ...]], BoundExpr]:
    def bind(args: tuple[BoundExpr, ...]) -> BoundExpr:
        if len(args) < 2:
            raise BindError(f"{name} takes at least 2 arguments, not {len(args)}")
        values, type_ = operators.unified(args, name)
        return call(name, *values, type=type_, nullable=all(value.nullable for value in values))

    return bind


def _concat_ws(args: tuple[BoundExpr, ...]) -> BoundExpr:
    if not args:
        raise BindError("concat_ws takes at least 1 argument, not 0")
    strings = tuple(_argument("concat_ws", arg, "string") for arg in args)
    return call("concat_ws", *strings, type=STRING, nullable=strings[0].nullable)


def _pmod(args: tuple[BoundExpr, ...]) -> BoundExpr:
    if len(args) != 2:
        raise BindError(f"pmod takes 2 arguments, not {len(args)}")
    return operators.arithmetic("pmod", *args)


def _weekday(args: tuple[BoundExpr, ...]) -> BoundExpr:
    """Monday is 0."""
    sunday_first = bind_function("dayofweek", args)
    return call("%", call("+", sunday_first, Literal(5, INT), type=INT), Literal(7, INT), type=INT)


def _is_null(args: tuple[BoundExpr, ...]) -> BoundExpr:
    if len(args) != 1:
        raise BindError(f"isnull takes 1 argument, not {len(args)}")
    return operators.is_null(args[0])


def _is_not_null(args: tuple[BoundExpr, ...]) -> BoundExpr:
    return operators.negate(_is_null(args))


def _integral(name: str) -> Callable[[tuple[BoundExpr, ...]], BoundExpr]:
    """CEIL and FLOOR of an integer are that integer, as a bigint; to a number of digits they are made of decimals."""

    def bind(args: tuple[BoundExpr, ...]) -> BoundExpr:
        if len(args) == 1 and args[0].type.is_integer:
            return convert(args[0], BIGINT)
        if len(args) == 2 and args[0].type.is_numeric:
            args = (convert(args[0], decimal_of(args[0].type)), args[1])
        signature = SIGNATURES[name]
        _check_count(name, signature, len(args))
        converted = tuple(_argument(name, *pair) for pair in zip(args, signature.params, strict=False))
        return call(name, *converted, type=_whole(converted))

    return bind


_SPECIAL: dict[str, Callable[[tuple[BoundExpr, ...]], BoundExpr]] = {
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "concat_ws": _concat_ws,
    "pmod": _pmod,
    "weekday": _weekday,
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    "ceil": _integral("ceil"),
    "floor": _integral("floor"),
}

NAMES: frozenset[str] = frozenset(SIGNATURES) | frozenset(_SPECIAL)
