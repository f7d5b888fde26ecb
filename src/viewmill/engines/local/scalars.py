"""Scalars as Python source over 64-bit codes, to be compiled.

Every variable is an int64 code: integers and booleans as they are, decimals without their point, dates as days,
timestamps as microseconds, strings as numbers of a dictionary, doubles by their bits; NULL is the least int64. An
expression is lowered to a pair: source for the value (int64, or float64 for doubles) and source for "is NULL", or None
where it cannot be. Three-valued logic is lowered as "is true" and "is false".

What depends on one string variable alone (`p_name like '%green%'`, `substring(c_phone, 1, 2)`) is computed once for
each distinct string, outside, and looked up here in a table. What cannot be lowered is refused with `CannotLower`.

Arithmetic reports what does not fit to the word `flags`, and goes on (see `raw.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal

from viewmill.algebra import scalars
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.typing import common_type, scalar_type
from viewmill.engines.local.magnitudes import Range, fits, range_of, sum_of_many
from viewmill.types import BINARY, BOOLEAN, DOUBLE, INTEGER_BITS, STRING, VOID, Type, as_decimal

NULL = -(2**63)
"""The code of NULL, in keys and in variables."""

_EPOCH = date(1970, 1, 1)
_EPOCH_MOMENT = datetime(1970, 1, 1)
_COMPARE = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_EXACT_POWER = 22  # the powers of ten that are doubles
_CALENDAR = ("year", "month", "day", "quarter")


class CannotLower(Exception):
    """The compiled engine has no code for this; the message says for what."""


@dataclass(slots=True)
class Tables:
    """What generated code looks up: constants that are strings, and functions of one string."""

    constants: list[str | bytes] = field(default_factory=list)
    compares: bool = False  # strings are compared by their bytes, in the dictionary
    fails: bool = False  # something may be an error, not only too large for 64 bits
    fails_if_large: bool = False  # that is so if some store is large
    functions: list[tuple[Scalar, Type]] = field(default_factory=list)

    def constant(self, text: str | bytes) -> str:
        if text not in self.constants:
            self.constants.append(text)
        return f"text{self.constants.index(text)}"

    def function(self, scalar: Scalar, var: str, type_: Type) -> str:
        form = scalars.substitute(scalar, {var: Var("text")})
        if (form, type_) not in self.functions:
            self.functions.append((form, type_))
        return f"table{self.functions.index((form, type_))}"


@dataclass(slots=True)
class Lowered:
    """Source for the value and for whether it is NULL."""

    value: str
    null: str | None
    type: Type


@dataclass(slots=True)
class ScalarLowering:
    """Lowers scalars over variables with known types; `names` are those of the variables in the source."""

    types: Mapping[str, Type]
    tables: Tables
    not_null: set[str] = field(default_factory=set)
    ranges: dict[str, Range | None] = field(default_factory=dict)
    ranges_if_small: dict[str, Range | None] = field(default_factory=dict)  # the same, if no store is large

    def name(self, var: str) -> str:
        return "v_" + "".join(c if c == "_" or (c.isalnum() and c.isascii()) else f"_{ord(c):x}x" for c in var)

    # --- codes

    def code(self, scalar: Scalar, type_: Type) -> str:
        """Source for the code of a value as `type_`, NULL included."""
        if isinstance(scalar, Var) and same_form(self.types.get(scalar.name, VOID), type_):
            return self.name(scalar.name)
        low = self.to(self.lower(scalar), type_, exactly=True)
        coded = f"bits({low.value})" if type_.is_floating else f"int64({low.value})"
        return coded if low.null is None else f"(NULL if {low.null} else {coded})"

    def weight(self, scalar: Scalar, type_: Type) -> Lowered:
        return self.to(self.lower(scalar), type_)

    # --- conditions

    def is_true(self, scalar: Scalar) -> str:
        match scalar:
            case Call("and", args):
                return _all(self.is_true(arg) for arg in args)
            case Call("or", args):
                return _any(self.is_true(arg) for arg in args)
            case Call("not", (arg,)):
                return self.is_false(arg)
            case Call("coalesce", (arg, Const(False))):
                return self.is_true(arg)
            case _:
                low = self.lower(scalar)
                return f"({low.value} != 0)" if low.null is None else f"(not {low.null} and {low.value} != 0)"

    def is_false(self, scalar: Scalar) -> str:
        match scalar:
            case Call("and", args):
                return _any(self.is_false(arg) for arg in args)
            case Call("or", args):
                return _all(self.is_false(arg) for arg in args)
            case Call("not", (arg,)):
                return self.is_true(arg)
            case Call("coalesce", (arg, Const(False))):
                return f"(not {self.is_true(arg)})"
            case _:
                low = self.lower(scalar)
                return f"({low.value} == 0)" if low.null is None else f"(not {low.null} and {low.value} == 0)"

    # --- values

    def lower(self, scalar: Scalar) -> Lowered:
        type_ = scalar_type(scalar, self.types)
        looked_up = self._looked_up(scalar, type_)
        if looked_up is not None:
            return looked_up
        match scalar:
            case Var(name):
                return self._variable(name, type_)
            case Const(value):
                return self._constant(value, type_)
            case Cast(Call("/" | "mean", (left, right)) as arg, target) if target.is_decimal:
                self._doubt(arg, target)
                return self._quotient(left, right, target)
            case Cast(arg, target):
                self._doubt(arg, target)
                return self._cast(self.lower(arg), target, computed=isinstance(arg, Call))
            case Call("+" | "-" | "*" as op, (left, right)):
                return self._arithmetic(op, left, right, type_)
            case Call("/" | "mean" as op, (left, right)) if type_.is_floating:
                a, b = self.to(self.lower(left), type_), self.to(self.lower(right), type_)
                self.tables.fails = self.tables.fails or (op == "/" and not _is_no_zero(right))
                return Lowered(f"divide({a.value}, {b.value}, flags)", _either(a.null, b.null), type_)
            case Call("div", (left, right)) if self._integers(left, right):
                return self._integer_call("whole_quotient", left, right, type_)
            case Call("%", (left, right)) if self._integers(left, right):
                return self._integer_call("remainder", left, right, type_)
            case Call("neg", (arg,)):
                low = self.lower(arg)
                value = f"(-{low.value})" if type_.is_floating else f"subtract(int64(0), {low.value}, flags)"
                return Lowered(value, low.null, type_)
            case Call("abs", (arg,)):
                low = self.lower(arg)
                return Lowered(f"abs({low.value})", low.null, type_)
            case Call("<=>", (left, right)):
                return self._same_or_both_null(left, right)
            case Call(op, (left, right)) if op in _COMPARE:
                return self._comparison(op, left, right)
            case Call("is_null", (arg,)):
                null = self.lower(arg).null
                return Lowered(f"({null})" if null else "False", None, BOOLEAN)
            case Call("in", (arg, *items)):
                return self.lower(Call("or", tuple(Call("=", (arg, item)) for item in items)))
            case Call("and" | "or" | "not", _):
                true, false = self.is_true(scalar), self.is_false(scalar)
                return Lowered(true, f"(not {true} and not {false})", BOOLEAN)
            case Call("case", args):
                return self._case(args, type_)
            case Call("coalesce", args):
                return self._coalesce(args, type_)
            case Call(op, (arg,)) if op in _CALENDAR and scalar_type(arg, self.types).name == "date":
                low = self.lower(arg)
                return Lowered(f"{op}_of({low.value})", low.null, type_)
            case Call("date_add", (start, days)) if type_.name == "date":
                a, b = self.lower(start), self.lower(days)
                self.tables.fails = True
                return Lowered(f"a_date({a.value} + {b.value}, flags)", _either(a.null, b.null), type_)
            case _:
                op = scalar.op if isinstance(scalar, Call) else type(scalar).__name__
                raise CannotLower(f"the function {op} on these arguments")

    def _variable(self, name: str, type_: Type) -> Lowered:
        source = self.name(name)
        null = None if name in self.not_null else f"{source} == NULL"
        return Lowered(f"double({source})" if type_.is_floating else source, null, type_)

    def _constant(self, value: object, type_: Type) -> Lowered:
        match value:
            case None:
                return Lowered("0", "True", type_)
            case bool() | int():
                return Lowered(_integer(int(value)), None, type_)
            case float() if not math.isfinite(value):
                raise CannotLower(f"the constant {value}")
            case float():
                return Lowered(f"float64({value!r})", None, type_)
            case Decimal():
                return Lowered(_integer(int(value.scaleb(type_.scale))), None, type_)
            case str():
                return Lowered(self.tables.constant(value), None, type_)
            case bytes():
                return Lowered(self.tables.constant(value), None, type_)
            case datetime():
                return Lowered(_integer((value - _EPOCH_MOMENT) // timedelta(microseconds=1)), None, type_)
            case date():
                return Lowered(str((value - _EPOCH).days), None, type_)
            case _:
                raise CannotLower(f"the constant {value!r}")

    def _looked_up(self, scalar: Scalar, type_: Type) -> Lowered | None:
        """A function of one string variable: a table has it for every string."""
        if not isinstance(scalar, Call) or scalar.op in ("is_null", "and", "or", "not", "=", "<>", "in", "coalesce"):
            return None
        used = scalars.variables(scalar)
        if len(used) != 1 or self.types.get(next(iter(used))) != STRING:
            return None
        var = next(iter(used))
        table = self.tables.function(scalar, var, type_)
        self.tables.fails = self.tables.fails or scalars.can_fail(scalar)
        source = f"look_up({table}, {self.name(var)}, flags)"
        return Lowered(f"double({source})" if type_.is_floating else source, f"{source} == NULL", type_)

    def _arithmetic(self, op: str, left: Scalar, right: Scalar, type_: Type) -> Lowered:
        a, b = self.lower(left), self.lower(right)
        null = _either(a.null, b.null)
        if type_.is_floating:
            return Lowered(f"({self.to(a, type_).value} {op} {self.to(b, type_).value})", null, type_)
        if not type_.is_exact:
            raise CannotLower(f"{op} of {a.type} and {b.type}")
        if op != "*":
            a, b = self.to(a, type_), self.to(b, type_)
        function = {"+": "add", "-": "subtract", "*": "multiply"}[op]
        return Lowered(f"{function}({a.value}, {b.value}, flags)", null, type_)

    def _comparison(self, op: str, left: Scalar, right: Scalar) -> Lowered:
        a, b = self.lower(left), self.lower(right)
        wide = common_type((a.type, b.type))
        null = _either(a.null, b.null)
        if wide in (STRING, BINARY) and op not in ("=", "<>"):
            self.tables.compares = True
            return Lowered(f"(compare_texts(dictionary, {a.value}, {b.value}) {_COMPARE[op]} 0)", null, BOOLEAN)
        a, b = self.to(a, wide), self.to(b, wide)
        if wide.is_floating:
            return Lowered(_double_comparison(op, a.value, b.value), null, BOOLEAN)
        return Lowered(f"({a.value} {_COMPARE[op]} {b.value})", null, BOOLEAN)

    def _integers(self, *args: Scalar) -> bool:
        return all(scalar_type(arg, self.types).is_integer for arg in args)

    def _integer_call(self, function: str, left: Scalar, right: Scalar, type_: Type) -> Lowered:
        a, b = self.lower(left), self.lower(right)
        self.tables.fails = True
        return Lowered(f"{function}({a.value}, {b.value}, flags)", _either(a.null, b.null), type_)

    def _same_or_both_null(self, left: Scalar, right: Scalar) -> Lowered:
        equal = self._comparison("=", left, right)
        a, b = self.lower(left).null or "False", self.lower(right).null or "False"
        return Lowered(f"(({a}) and ({b}) or not ({a} or {b}) and {equal.value})", None, BOOLEAN)

    def _case(self, args: tuple[Scalar, ...], type_: Type) -> Lowered:
        *pairs, otherwise = args
        last = self.to(self.lower(otherwise), type_)
        value, null = last.value, last.null or "False"
        for when, then in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
            condition, low = self.is_true(when), self.to(self.lower(then), type_)
            value = f"({low.value} if {condition} else {value})"
            null = f"(({low.null or 'False'}) if {condition} else {null})"
        return Lowered(value, null, type_)

    def _coalesce(self, args: tuple[Scalar, ...], type_: Type) -> Lowered:
        last = self.to(self.lower(args[-1]), type_)
        value, null = last.value, last.null
        for arg in reversed(args[:-1]):
            low = self.to(self.lower(arg), type_)
            if low.null is None:
                value, null = low.value, None
            else:
                value = f"({value} if {low.null} else {low.value})"
                null = f"({low.null} and {null})" if null else None
        return Lowered(value, null, type_)

    def _quotient(self, left: Scalar, right: Scalar, target: Type) -> Lowered:
        """`cast(a / b as decimal(p,s))`: exact, rounded half up once."""
        a, b = self.lower(left), self.lower(right)
        if not (a.type.is_exact and b.type.is_exact):
            raise CannotLower("the quotient of doubles as a decimal")
        digits = target.scale + b.type.scale - a.type.scale
        return Lowered(f"quotient({a.value}, {b.value}, {digits}, flags)", _either(a.null, b.null), target)

    def _doubt(self, arg: Scalar, target: Type) -> None:
        """Whether a cast may be an error; what only does not fit 64 bits is none, and is interpreted."""
        exact = target.is_exact and scalar_type(arg, self.types).is_exact
        if not exact or fits(arg, target, self.types, self.ranges):
            return
        if fits(arg, target, self.types, self.ranges_if_small):
            self.tables.fails_if_large = True
        else:
            self.tables.fails = True

    def know(self, var: str, scalar: Scalar) -> None:
        """A variable is computed by this."""
        self.ranges[var] = range_of(scalar, self.types, self.ranges)
        self.ranges_if_small[var] = range_of(scalar, self.types, self.ranges_if_small)

    def know_sum(self, var: str, words: Type | None) -> None:
        """A variable is a sum over many records, which may be anything: of `words` of one store, if it is no more."""
        self.ranges[var] = None
        self.ranges_if_small[var] = None if words is None else sum_of_many(words)

    def _cast(self, low: Lowered, target: Type, *, computed: bool) -> Lowered:
        """`computed` values may be out of the range of their own type."""
        if low.type == VOID or (low.type == target and not (computed and target.is_integer)):
            return Lowered("0.0" if low.type == VOID and target.is_floating else low.value, low.null, target)
        if target.is_decimal and low.type.is_exact:
            moved = self.to(low, target)
            rounds = low.type.scale > target.scale  # up to a number of one more digit, perhaps
            if target.precision > 18 or _digits(low.type) + rounds <= target.precision - target.scale:
                return Lowered(moved.value, low.null, target)
            return Lowered(f"within({moved.value}, {10**target.precision}, flags)", low.null, target)
        if target.name == "double" and low.type.is_numeric:
            return self.to(low, target)
        if target.is_integer and low.type.is_integer:
            bits = INTEGER_BITS[target.name]
            if bits == 64 or (bits >= INTEGER_BITS[low.type.name] and not computed):
                return Lowered(low.value, low.null, target)
            return Lowered(f"within_bits({low.value}, {2 ** (bits - 1)}, flags)", low.null, target)
        raise CannotLower(f"the cast from {low.type} to {target}")

    def as_double(self, value: str, type_: Type) -> str:
        return self.to(Lowered(value, None, type_), DOUBLE).value

    def to(self, low: Lowered, type_: Type, *, exactly: bool = False) -> Lowered:
        """The value in the form of another type of its kind; `exactly`, if no digit can be lost."""
        if low.type == VOID or same_form(low.type, type_):
            return low if not type_.is_floating or low.type != VOID else Lowered("0.0", "True", type_)
        if type_.is_floating and low.type.is_exact:
            return Lowered(self._double(low), low.null, type_)
        if type_.is_exact and low.type.is_exact:
            shift = type_.scale - low.type.scale
            if shift < 0 and exactly:
                raise CannotLower(f"the comparison of a {low.type} with a {type_}")
            if shift < 0:
                return Lowered(f"round_off({low.value}, {_integer(10**-shift)})", low.null, type_)
            return Lowered(f"multiply({low.value}, {_integer(10**shift)}, flags)", low.null, type_)
        raise CannotLower(f"{low.type} as {type_}")

    def _double(self, low: Lowered) -> str:
        """An exact number as the double nearest to it: digits that a double has not would be rounded twice."""
        if low.type.scale == 0:
            return f"float64({low.value})"
        if low.type.scale > _EXACT_POWER:
            raise CannotLower(f"a {low.type} as a double")
        digits = f"within({low.value}, int64({2**53}), flags)"
        return f"(float64({digits}) / {float(10**low.type.scale)!r})"


def same_form(left: Type, right: Type) -> bool:
    """Kept in the same way: the same kind of number, with the point in the same place."""
    if left.is_exact and right.is_exact:
        return left.scale == right.scale
    return left == right or (left.is_floating and right.is_floating)


def _is_no_zero(scalar: Scalar) -> bool:
    match scalar:
        case Const(int() | float() | Decimal() as number) | Cast(Const(int() | float() | Decimal() as number), _):
            return bool(number)
        case _:
            return False


def _digits(type_: Type) -> int:
    """Digits before the point that a value of the type may have."""
    return as_decimal(type_).precision if type_.is_integer else type_.precision - type_.scale


def _double_comparison(op: str, a: str, b: str) -> str:
    """NaN equals itself and is greater than every other number."""
    match op:
        case "=":
            return f"same({a}, {b})"
        case "<>":
            return f"(not same({a}, {b}))"
        case "<":
            return f"below({a}, {b})"
        case ">":
            return f"below({b}, {a})"
        case "<=":
            return f"(not below({b}, {a}))"
        case _:
            return f"(not below({a}, {b}))"


def _integer(value: int) -> str:
    if not -(2**63) < value < 2**63:
        raise CannotLower(f"the constant {value}, which has more than 64 bits")
    return f"int64({value})"


def _either(left: str | None, right: str | None) -> str | None:
    if left is None or right is None:
        return left or right
    return f"({left} or {right})"


def _all(conditions: Iterable[str]) -> str:
    return "(" + " and ".join(conditions) + ")"


def _any(conditions: Iterable[str]) -> str:
    return "(" + " or ".join(conditions) + ")"
