"""The types of variables and weights, found from the catalog and the operations.

    weight_type(Sum[a](R(a, p) * p), ...)  ==  decimal(38,2)     where p is decimal(15,2)
    weight_type(Sum[a](R(a, p)), ...)      ==  bigint            a count

Scalars carry no types of their own: whoever built them put a `Cast` where SQL converts, so types follow from the
operations. They say how values are kept (which kind, and how many digits after the point), not how SQL declares
them: a sum has all the digits there are, and the view's output casts it to Spark's type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import assert_never

from viewmill.algebra.nodes import (
    After,
    AggSum,
    DeltaRelation,
    Exists,
    Expr,
    Extreme,
    Lift,
    Product,
    Relation,
    Sum,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
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

FieldType = Callable[[str, str], Type]
"""The type of a field: `(relation, field) -> Type`."""

Types = Mapping[str, Type]


SourceWeight = Callable[[Relation | DeltaRelation], Type]
"""The type of the weights of what an atom reads: a count for relations, whatever it sums up for a store."""


def _count(_atom: Relation | DeltaRelation) -> Type:
    return BIGINT


def variable_types(
    expr: Expr, field_type: FieldType, given: Types | None = None, source_weight: SourceWeight = _count
) -> dict[str, Type]:
    """The types of all variables an expression produces or has inside, `given` those from outside."""
    known = dict(given or {})
    _collect(expr, field_type, source_weight, known)
    return known


def weight_type(
    expr: Expr, field_type: FieldType, given: Types | None = None, source_weight: SourceWeight = _count
) -> Type:
    """The type of an expression's weights."""
    return _weight(expr, source_weight, variable_types(expr, field_type, given, source_weight))


def _collect(expr: Expr, field_type: FieldType, source_weight: SourceWeight, known: dict[str, Type]) -> None:
    match expr:
        case Relation(name, fields, vars_) | DeltaRelation(name, fields, vars_):
            known.update((var, field_type(name, field)) for field, var in zip(fields, vars_, strict=True))
        case Lift(var, Value(scalar)):
            known[var] = common_type((scalar_type(scalar, known), known.get(var, VOID)))
        case Lift(var, body):
            _collect(body, field_type, source_weight, known)
            known[var] = _weight(body, source_weight, known)
        case Extreme(var, _, of, body):
            _collect(body, field_type, source_weight, known)
            known[var] = known.get(of, VOID)
        case Product(factors):
            # An assignment may stand before what it needs, and a column of rows says more than a NULL assigned to it.
            for _ in range(2):
                for factor in factors:
                    _collect(factor, field_type, source_weight, known)
        case Sum(terms):
            for term in terms:
                _collect(term, field_type, source_weight, known)
        case Exists(body) | AggSum(_, body) | After(body) | TopK(_, _, _, body):
            _collect(body, field_type, source_weight, known)
        case Value() | Test():
            pass
        case _:
            assert_never(expr)


def _weight(expr: Expr, source_weight: SourceWeight, known: Types) -> Type:
    match expr:
        case Value(scalar):
            return scalar_type(scalar, known)
        case Relation() | DeltaRelation():
            return source_weight(expr)
        case Test() | Lift() | Extreme() | Exists():
            return BIGINT
        case Product(factors):
            return reduce(times, (_weight(factor, source_weight, known) for factor in factors))
        case Sum(terms):
            return common_type(_weight(term, source_weight, known) for term in terms)
        case AggSum(_, body) | After(body) | TopK(_, _, _, body):
            return _weight(body, source_weight, known)
        case _:
            assert_never(expr)


def scalar_type(scalar: Scalar, known: Types) -> Type:
    match scalar:
        case Var(name):
            return known.get(name, VOID)
        case Const(value):
            return _constant_type(value)
        case Cast(_, type_):
            return type_
        case Call(op, args):
            return _call_type(op, tuple(scalar_type(arg, known) for arg in args))
        case _:
            assert_never(scalar)


def _constant_type(value: object) -> Type:
    match value:
        case None:
            return VOID
        case bool():
            return BOOLEAN
        case int():
            return BIGINT
        case float():
            return DOUBLE
        case Decimal():
            exponent = value.as_tuple().exponent
            return decimal(MAX_PRECISION, -exponent if isinstance(exponent, int) and exponent < 0 else 0)
        case str():
            return STRING
        case bytes():
            return BINARY
        case datetime():
            return TIMESTAMP
        case date():
            return DATE
        case _:
            return VOID


_BOOLEAN = frozenset("= <> < <= > >= <=> and or not is_null in like ilike rlike startswith endswith contains".split())
_INTEGER = frozenset(
    "div length instr ascii year month day quarter dayofweek dayofyear weekofyear hour minute second datediff"
    " unix_date".split()
)
_DOUBLE = frozenset("sqrt power exp ln log10 log2 months_between".split())
_DATE = frozenset("trunc last_day to_date".split())
_TIMESTAMP = frozenset("date_trunc timestamp_add".split())
_FIRST = frozenset("neg abs sign round bround date_add add_months".split())


def _call_type(op: str, args: tuple[Type, ...]) -> Type:
    match op:
        case "+" | "-" | "%" | "pmod" | "coalesce" | "greatest" | "least":
            return common_type(args)
        case "*":
            return reduce(times, args)
        case "/" | "mean":
            return DOUBLE if any(arg.is_floating for arg in args) else decimal(MAX_PRECISION, MAX_PRECISION)
        case "ceil" | "floor":
            return BIGINT if args[0].is_floating and len(args) == 1 else args[0]
        case "case":
            return common_type((*args[1::2], args[-1]))
        case "assert_single":
            return args[1]
        case _ if op in _FIRST:
            return args[0]
        case _:
            kinds = ((_BOOLEAN, BOOLEAN), (_INTEGER, INT), (_DOUBLE, DOUBLE), (_DATE, DATE), (_TIMESTAMP, TIMESTAMP))
            return next((type_ for ops, type_ in kinds if op in ops), STRING)


def times(left: Type, right: Type) -> Type:
    """The type of a product: integers count, decimals add their digits after the point, doubles win."""
    if left.is_floating or right.is_floating:
        return DOUBLE
    if left.is_decimal or right.is_decimal:
        return decimal(MAX_PRECISION, min(MAX_PRECISION, left.scale + right.scale))
    return BIGINT if left.is_integer or right.is_integer else left


def common_type(types: Iterable[Type]) -> Type:
    """One type that keeps the values of all: NULL gives way, doubles win, decimals keep the most digits."""
    distinct = {type_ for type_ in types if type_ != VOID}
    if len(distinct) <= 1:
        return next(iter(distinct), VOID)
    if any(type_.is_floating for type_ in distinct):
        return DOUBLE
    if any(type_.is_decimal for type_ in distinct):
        return decimal(MAX_PRECISION, max(type_.scale for type_ in distinct))
    return BIGINT if all(type_.is_integer for type_ in distinct) else next(iter(distinct))
