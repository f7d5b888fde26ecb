"""Operators over bound expressions: implicit conversions made explicit, types computed, constants folded.

    compare("<", decimal(15,2) column, 24)      ->  column < 24.00          both sides decimal(15,2)
    arithmetic("/", int, int)                   ->  cast(a as double) / cast(b as double)
    arithmetic("*", int, int)                   ->  cast(a * b as int)      integers have no width: the cast overflows

Errors here carry no place: whoever binds the syntax tree adds it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeGuard

from viewmill.algebra import functions
from viewmill.algebra.scalars import Call as ScalarCall
from viewmill.algebra.scalars import Const
from viewmill.errors import BindError, DataError
from viewmill.sql.bound import BoundExpr, Call, Cast, Literal
from viewmill.sql.types import can_cast, common_type, common_type_of, decimal_result, literal_type
from viewmill.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, VOID, Type, as_decimal

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)
NULL = Literal(None, VOID)


def call(op: str, *args: BoundExpr, type: Type, nullable: bool | None = None) -> BoundExpr:
    """`op(args)`, computed now if every argument is constant. Nullable where an argument is, unless said otherwise."""
    if all(isinstance(arg, Literal) for arg in args):
        constants = tuple(Const(arg.value) for arg in args if isinstance(arg, Literal))
        try:
            return Literal(functions.evaluate_scalar(ScalarCall(op, constants), {}), type, is_computed=True)
        except DataError:
            pass  # 1 / 0 fails when it is computed, and it may never be
    return Call(op, args, type, any(arg.nullable for arg in args) if nullable is None else nullable)


def convert(expr: BoundExpr, target: Type) -> BoundExpr:
    """CAST(expr AS target); the expression itself if it has that type."""
    if expr.type == target:
        return expr
    if not can_cast(expr.type, target):
        raise BindError(f"cannot cast {expr.type} to {target}")
    if isinstance(expr, Literal):
        try:
            return Literal(functions.cast(expr.value, target), target, is_computed=True)
        except DataError as error:
            raise BindError(error.message) from None
    return Cast(expr, target)


def condition(expr: BoundExpr, what: str) -> BoundExpr:
    """A boolean. Spark takes nothing else for a condition, but for NULL."""
    if expr.type == VOID:
        return convert(expr, BOOLEAN)
    if expr.type != BOOLEAN:
        raise BindError(f"{what} must be boolean, not {expr.type}")
    return expr


# --- logic


def all_of(*args: BoundExpr) -> BoundExpr:
    return _connect("and", args)


def any_of(*args: BoundExpr) -> BoundExpr:
    return _connect("or", args)


def _connect(op: str, args: tuple[BoundExpr, ...]) -> BoundExpr:
    flat: list[BoundExpr] = []
    for arg in args:
        arg = condition(arg, f"an argument of {op.upper()}")
        flat.extend(arg.args if isinstance(arg, Call) and arg.op == op else (arg,))
    return flat[0] if len(flat) == 1 else call(op, *flat, type=BOOLEAN)


def negate(expr: BoundExpr) -> BoundExpr:
    expr = condition(expr, "the argument of NOT")
    if isinstance(expr, Call) and expr.op == "not":
        return expr.args[0]
    return call("not", expr, type=BOOLEAN)


def is_null(expr: BoundExpr) -> BoundExpr:
    if not expr.nullable:
        return FALSE
    return call("is_null", expr, type=BOOLEAN, nullable=False)


def is_true(expr: BoundExpr, wanted: bool) -> BoundExpr:
    """`expr IS TRUE`, `expr IS FALSE`: never NULL."""
    test = condition(expr, "the argument of IS TRUE")
    return call("<=>", test, Literal(wanted, BOOLEAN), type=BOOLEAN, nullable=False)


# --- comparison


def compare(op: str, left: BoundExpr, right: BoundExpr) -> BoundExpr:
    left, right = same_type((left, right), f'"{op}"')
    return call(op, left, right, type=BOOLEAN, nullable=False if op == "<=>" else None)


def between(value: BoundExpr, low: BoundExpr, high: BoundExpr) -> BoundExpr:
    return all_of(compare(">=", value, low), compare("<=", value, high))


def same_type(args: tuple[BoundExpr, ...], what: str) -> tuple[BoundExpr, ...]:
    """Every argument in their common type.

    Integers of different widths stay as they are: they compare as numbers, and a join of an int with a bigint column
    remains visibly an equality of two columns.
    """
    if all(arg.type.is_integer for arg in args):
        return args
    common = common_type_of([_comparison_type(arg, args) for arg in args])
    if common is None:
        types = " and ".join(dict.fromkeys(str(arg.type) for arg in args))
        raise BindError(f"{what} cannot combine {types}", hint="cast one side to the type of the other")
    return tuple(convert(arg, common) for arg in args)


def _comparison_type(arg: BoundExpr, args: tuple[BoundExpr, ...]) -> Type:
    """An integer literal beside a decimal is a decimal of just its digits, so that it widens nothing."""
    if _is_written_integer(arg):
        if any(other.type.is_decimal for other in args):
            return _digits(arg)
    return arg.type


def _is_written_integer(arg: BoundExpr) -> TypeGuard[Literal]:
    return isinstance(arg, Literal) and arg.type.is_integer and arg.value is not None and not arg.is_computed


def _digits(arg: Literal) -> Type:
    assert isinstance(arg.value, int)
    return literal_type(Decimal(arg.value))


def unified(args: tuple[BoundExpr, ...], what: str) -> tuple[tuple[BoundExpr, ...], Type]:
    """The arguments in their common type, and that type: for CASE, COALESCE, UNION and VALUES."""
    common = common_type_of([arg.type for arg in args])
    if common is None:
        types = " and ".join(dict.fromkeys(str(arg.type) for arg in args))
        raise BindError(f"{what} cannot combine {types}", hint="cast them to one type")
    return tuple(convert(arg, common) for arg in args), common


def is_in(needle: BoundExpr, items: tuple[BoundExpr, ...]) -> BoundExpr:
    if len(items) == 1:
        return compare("=", needle, items[0])
    return call("in", *same_type((needle, *items), "IN"), type=BOOLEAN)


# --- arithmetic


def arithmetic(op: str, left: BoundExpr, right: BoundExpr) -> BoundExpr:
    """`+ - * / % pmod div` over numbers, and over dates with whole days."""
    if DATE in (left.type, right.type) and op in ("+", "-"):
        return _date_arithmetic(op, left, right)
    left, right = (
        convert(arg, other.type) if arg.type == VOID else arg for arg, other in ((left, right), (right, left))
    )
    if left.type == VOID:
        left, right = convert(left, INT), convert(right, INT)
    left, right = _read(left, right), _read(right, left)
    if not (left.type.is_numeric and right.type.is_numeric):
        raise BindError(f'"{op}" cannot combine {left.type} and {right.type}', hint=_number_hint(left, right))
    if op == "div":
        return _integral_division(left, right)
    if left.type.is_floating or right.type.is_floating:
        floating = DOUBLE if op == "/" else common_type(left.type, right.type)
        assert floating is not None
        return call(op, convert(left, floating), convert(right, floating), type=floating)
    if left.type.is_decimal or right.type.is_decimal:
        return _decimal_arithmetic(op, left, right)
    if op == "/":
        return call(op, convert(left, DOUBLE), convert(right, DOUBLE), type=DOUBLE)
    wider = common_type(left.type, right.type)
    assert wider is not None
    value = call(op, left, right, type=wider)
    return value if op in ("%", "pmod") else within(value)


def within(value: BoundExpr) -> BoundExpr:
    """The result of an operator that is exact by itself, in a type that it may not fit: that rounds or overflows."""
    if not isinstance(value, Literal):
        return Cast(value, value.type)
    try:
        return Literal(functions.cast(value.value, value.type), value.type, is_computed=True)
    except DataError as error:
        raise BindError(error.message) from None


def _read(arg: BoundExpr, other: BoundExpr) -> BoundExpr:
    """Text beside an integer is read as a bigint, beside any other number as a double."""
    if arg.type != STRING or not (other.type.is_numeric or other.type == STRING):
        return arg
    return convert(arg, BIGINT if other.type.is_integer else DOUBLE)


def _number_hint(left: BoundExpr, right: BoundExpr) -> str:
    if TIMESTAMP in (left.type, right.type):
        return "add an interval to a timestamp, or use datediff(end, start)"
    return "cast both sides to numbers"


def _decimal_arithmetic(op: str, left: BoundExpr, right: BoundExpr) -> BoundExpr:
    left, right = _decimal_operand(left), _decimal_operand(right)
    result, is_exact = decimal_result(op, left.type, right.type)
    value = call(op, left, right, type=result)
    return value if is_exact else within(value)


def _decimal_operand(arg: BoundExpr) -> BoundExpr:
    if arg.type.is_decimal:
        return arg
    if _is_written_integer(arg):
        return convert(arg, _digits(arg))
    return convert(arg, as_decimal(arg.type))


def _integral_division(left: BoundExpr, right: BoundExpr) -> BoundExpr:
    if left.type.is_floating or right.type.is_floating:
        raise BindError(f'"div" cannot combine {left.type} and {right.type}', hint='use "/" and floor')
    if left.type.is_decimal or right.type.is_decimal:
        left, right = _decimal_operand(left), _decimal_operand(right)
    value = call("div", left, right, type=BIGINT)
    # Of narrower integers the quotient always fits.
    return within(value) if left.type.is_decimal or left.type == BIGINT else value


def _date_arithmetic(op: str, left: BoundExpr, right: BoundExpr) -> BoundExpr:
    if op == "+" and right.type == DATE:
        left, right = right, left
    if left.type == DATE and right.type.is_integer:
        return call("date_add", left, right if op == "+" else call("neg", right, type=right.type), type=DATE)
    hint = "use datediff(end, start) for the number of days" if op == "-" else "add an interval or a number of days"
    raise BindError(f'"{op}" cannot combine {left.type} and {right.type}', hint=hint)


def minus(arg: BoundExpr) -> BoundExpr:
    if not arg.type.is_numeric and arg.type != VOID:
        raise BindError(f'"-" cannot be applied to {arg.type}', hint="cast it to a number")
    value = call("neg", arg, type=INT if arg.type == VOID else arg.type)
    return within(value) if value.type.is_integer else value


_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_DAYS = {"WEEK": 7, "DAY": 1}
_MICROSECONDS = {
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}


def shift(moment: BoundExpr, amount: BoundExpr, unit: str) -> BoundExpr:
    """`moment + amount units` for a date or timestamp. Hours and less make a timestamp of a date."""
    if moment.type == STRING or moment.type == VOID:
        moment = convert(moment, TIMESTAMP if unit in _MICROSECONDS else DATE)
    if moment.type not in (DATE, TIMESTAMP):
        raise BindError(f"cannot add an interval to {moment.type}", hint="add it to a date or timestamp")
    if not (amount.type.is_integer or amount.type == VOID):
        raise BindError(f"an interval is a whole number of units, not {amount.type}")
    for op, sizes in (("add_months", _MONTHS), ("date_add", _DAYS)):
        if unit in sizes:
            return call(op, moment, _times(amount, sizes[unit]), type=moment.type)
    if unit not in _MICROSECONDS:
        raise BindError(f"unknown unit {unit.lower()} of an interval", hint="use year, month, week, day, hour, ...")
    return call("timestamp_add", convert(moment, TIMESTAMP), _times(amount, _MICROSECONDS[unit]), type=TIMESTAMP)


def _times(amount: BoundExpr, size: int) -> BoundExpr:
    # Whatever is too many months, days or microseconds is out of the calendar as well.
    return amount if size == 1 else call("*", amount, Literal(size, BIGINT), type=BIGINT)


# --- choice


def case(branches: tuple[tuple[BoundExpr, BoundExpr], ...], otherwise: BoundExpr) -> BoundExpr:
    conditions = tuple(condition(when, "a CASE condition") for when, _ in branches)
    values, type_ = unified((*(then for _, then in branches), otherwise), "CASE")
    args = tuple(arg for pair in zip(conditions, values, strict=False) for arg in pair)
    return call("case", *args, values[-1], type=type_, nullable=any(value.nullable for value in values))


def coalesce(args: tuple[BoundExpr, ...]) -> BoundExpr:
    values, type_ = unified(args, "COALESCE")
    needed: list[BoundExpr] = []
    for value in values:
        needed.append(value)
        if not value.nullable:
            break  # what follows is never asked for
    known = [value for value in needed if not (isinstance(value, Literal) and value.value is None)] or needed[:1]
    if len(known) == 1:
        return known[0]
    return call("coalesce", *known, type=type_, nullable=all(value.nullable for value in known))
