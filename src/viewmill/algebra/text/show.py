"""Expressions to text. Parentheses stand only where reading back needs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from viewmill.algebra.build import integer
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
    SortBy,
    Sum,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.text.words import quoted, show_const, show_name


def show(expr: Expr) -> str:
    match expr:
        case Relation(name, fields, vars_):
            return f"{_relation_name(name)}({_columns(fields, vars_)})"
        case DeltaRelation(name, fields, vars_):
            return f"d_{_relation_name(name)}({_columns(fields, vars_)})"
        case Value(Var() | Const() as scalar):
            return show_scalar(scalar)
        case Value(scalar):
            return f"[{show_scalar(scalar)}]"
        case Test(scalar):
            return "{" + show_scalar(scalar) + "}"
        case Lift(var, body):
            return f"({show_name(var)} := {show(body)})"
        case Extreme(var, kind, of, body):
            return f"({show_name(var)} := {kind} {show_name(of)} of {show(body)})"
        case Exists(body):
            return f"Exists({show(body)})"
        case After(body):
            return f"After({show(body)})"
        case AggSum(group, body):
            return f"Sum[{', '.join(map(show_name, group))}]({show(body)})"
        case TopK(order, limit, offset, body):
            return f"TopK[{_order(order)}; {_range(limit, offset)}]({show(body)})"
        case Product(factors):
            return _product(factors)
        case Sum(terms):
            return _term(terms[0]) + "".join(map(_next_term, terms[1:]))
        case _:
            assert_never(expr)


def _relation_name(name: str) -> str:
    return quoted(name) if name.lower().startswith("d_") else show_name(name)


def _columns(fields: Iterable[str], vars_: Iterable[str]) -> str:
    pairs = ((show_name(field), show_name(var)) for field, var in zip(fields, vars_, strict=True))
    return ", ".join(var if field == var else f"{field}: {var}" for field, var in pairs)


def _order(keys: Iterable[SortBy]) -> str:
    return ", ".join(f"{show_name(key.var)}{' desc' * key.descending}{_nulls(key)}" for key in keys)


def _nulls(key: SortBy) -> str:
    """Only where they are not at the end at which they are least."""
    return "" if key.nulls_first != key.descending else f" nulls {'first' if key.nulls_first else 'last'}"


def _range(limit: int | None, offset: int) -> str:
    count = "all" if limit is None else str(limit)
    return f"{count}, {offset}" if offset else count


def _product(factors: Iterable[Expr]) -> str:
    return " * ".join(f"({show(f)})" if isinstance(f, Sum | Product) else show(f) for f in factors)


def _term(term: Expr) -> str:
    return f"({show(term)})" if isinstance(term, Sum) else show(term)


def _next_term(term: Expr) -> str:
    if isinstance(term, Product) and integer(term.factors[0]) == -1:
        return f" - {_product(term.factors[1:])}"
    return f" + {_term(term)}"


# How tightly each form binds, loosest first. Comparisons do not chain, so their sides bind tighter than they do.
_OR, _AND, _NOT, _COMPARISON, _ADDITIVE, _MULTIPLICATIVE, _PREFIX, _PRIMARY = range(8)
_LEFT_TO_RIGHT = dict.fromkeys("+-", _ADDITIVE) | dict.fromkeys(("*", "/", "%", "div"), _MULTIPLICATIVE)
_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "<=>"))
_MATCHES = frozenset(("like", "ilike", "rlike"))


def show_scalar(scalar: Scalar) -> str:
    return _scalar(scalar)[0]


def _scalar(scalar: Scalar) -> tuple[str, int]:
    """The text, and how tightly it binds."""
    match scalar:
        case Var(name):
            return show_name(name), _PRIMARY
        case Const():
            text = show_const(scalar)
            return text, _PREFIX if text.startswith("-") else _PRIMARY
        case Cast(arg, type_):
            return f"cast({show_scalar(arg)} as {type_})", _PRIMARY
        case Call(op, args):
            return _call(op, args)
        case _:
            assert_never(scalar)


def _inside(scalar: Scalar, at_least: int) -> str:
    text, binds = _scalar(scalar)
    return text if binds >= at_least else f"({text})"


def _call(op: str, args: tuple[Scalar, ...]) -> tuple[str, int]:
    match op, args:
        case "or", (_, _, *_):
            return " or ".join(_inside(arg, _AND) for arg in args), _OR
        case "and", (_, _, *_):
            return " and ".join(_inside(arg, _NOT) for arg in args), _AND
        case "not", (arg,):
            negated = _condition(arg, " not") if isinstance(arg, Call) else None
            return (negated, _COMPARISON) if negated else (f"not {_inside(arg, _NOT)}", _NOT)
        case "neg", (arg,):
            # A minus before a number is part of the number; before another minus it would be hard to read.
            plain = not (isinstance(arg, Const) and show_const(arg)[0].isdigit())
            return ("-" + (_inside(arg, _PRIMARY) if plain else f"({show_scalar(arg)})")), _PREFIX
        case _, (left, right) if op in _LEFT_TO_RIGHT:
            binds = _LEFT_TO_RIGHT[op]
            return f"{_inside(left, binds)} {op} {_inside(right, binds + 1)}", binds
        case _, (left, right) if op in _COMPARISONS:
            return f"{_inside(left, _ADDITIVE)} {op} {_inside(right, _ADDITIVE)}", _COMPARISON
        case "case", (_, _, _, *_) if len(args) % 2:
            return _case(args), _PRIMARY
        case _:
            condition = _condition(Call(op, args), "")
            return (condition, _COMPARISON) if condition else (_function(op, args), _PRIMARY)


def _condition(call: Call, negation: str) -> str | None:
    """`a is null`, `a like b`, `a in (b, c)`, or the same with `not`; None if the call has no such form."""
    match call.op, call.args:
        case "is_null", (arg,):
            return f"{_inside(arg, _ADDITIVE)} is{negation} null"
        case op, (arg, pattern) if op in _MATCHES:
            return f"{_inside(arg, _ADDITIVE)}{negation} {op} {_inside(pattern, _ADDITIVE)}"
        case op, (arg, pattern, escape) if op in _MATCHES:
            texts = [_inside(part, _ADDITIVE) for part in (arg, pattern, escape)]
            return f"{texts[0]}{negation} {op} {texts[1]} escape {texts[2]}"
        case "in", (arg, _, *_):
            return f"{_inside(arg, _ADDITIVE)}{negation} in ({', '.join(map(show_scalar, call.args[1:]))})"
        case _:
            return None


def _case(args: tuple[Scalar, ...]) -> str:
    texts = [show_scalar(arg) for arg in args]
    branches = (f"when {when} then {then} " for when, then in zip(texts[:-1:2], texts[1::2], strict=True))
    return f"case {''.join(branches)}else {texts[-1]} end"


def _function(op: str, args: tuple[Scalar, ...]) -> str:
    return f"{show_name(op)}({', '.join(map(show_scalar, args))})"
