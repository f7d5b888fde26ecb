"""Compute what is constant.

    {1 < 2}             =>  1            {null}  =>  0
    [null]              =>  0
    {p and true}        =>  {p}          {not (not p)}  =>  {p}
    {not (a < b)}       =>  {a >= b}     both are true for the same rows, and NULL passes neither

A constant expression that would fail (1 / 0) is left for the row that needs it.
"""

from __future__ import annotations

from viewmill.algebra import scalars
from viewmill.algebra.functions import evaluate_scalar
from viewmill.algebra.nodes import ONE, ZERO, Expr, Lift, Test, Value
from viewmill.algebra.scalars import FALSE, NULL, TRUE, Call, Cast, Const, Scalar, Var
from viewmill.errors import DataError

NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def fold_constants(expr: Expr) -> Expr:
    match expr:
        case Test(scalar):
            folded = _as_condition(fold(scalar))
            if isinstance(folded, Const):
                return ONE if folded.value is True else ZERO
            return expr if folded == scalar else Test(folded)
        case Value(scalar):
            folded = fold(scalar)
            return ZERO if folded == NULL else expr if folded == scalar else Value(folded)
        case Lift(var, Value(scalar)):
            folded = fold(scalar)
            return expr if folded == scalar else Lift(var, Value(folded))
        case _:
            return expr


def _as_condition(scalar: Scalar) -> Scalar:
    """A test asks for true, so NULL is as good as false in a disjunction."""
    match scalar:
        case Call("or", args) if NULL in args:
            return _junction("or", (*(arg for arg in args if arg != NULL), FALSE))
        case _:
            return scalar


def fold(scalar: Scalar) -> Scalar:
    args = scalars.children(scalar)
    parts = tuple(map(fold, args))
    if parts != args:
        scalar = scalars.with_children(scalar, parts)
    if isinstance(scalar, Call | Cast) and parts and all(isinstance(part, Const) for part in parts):
        try:
            return Const(evaluate_scalar(scalar, {}))
        except DataError:
            return scalar
    return _logic(scalar)


def _logic(scalar: Scalar) -> Scalar:
    match scalar:
        case Call("and" | "or" as op, args):
            return _junction(op, args)
        case Call("not", (Call("not", (arg,)),)):
            return arg
        case Call("not", (Call(op, args),)) if op in NEGATED:
            return Call(NEGATED[op], args)
        case Call("=" | "<=" | ">=", (Var() as left, right)) if left == right:
            return Call("or", (Call("not", (Call("is_null", (left,)),)), NULL))
        case Call("case", (Const(True), value, *_)):
            return value
        case Call("case", (Const(), _, *rest)):
            return rest[0] if len(rest) == 1 else _logic(Call("case", tuple(rest)))
        case Call("coalesce", (Const(None), *rest)) if rest:
            return rest[0] if len(rest) == 1 else _logic(Call("coalesce", tuple(rest)))
        case _:
            return scalar


def _junction(op: str, args: tuple[Scalar, ...]) -> Scalar:
    """`p and true` is p; `p and false` is false, also where p is NULL."""
    neutral, decisive = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
    if decisive in args:
        return decisive
    flat: list[Scalar] = []
    for arg in args:
        flat.extend(arg.args if isinstance(arg, Call) and arg.op == op else (arg,))
    kept = tuple(dict.fromkeys(arg for arg in flat if arg != neutral))
    if not kept:
        return neutral
    return kept[0] if len(kept) == 1 else Call(op, kept)
