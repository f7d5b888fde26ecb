"""Scalar formulas that the translation writes again and again."""

from __future__ import annotations

from collections.abc import Iterable

from viewmill.algebra.scalars import FALSE, NULL, TRUE, Call, Const, Scalar, Var


def is_zero(var: str) -> Scalar:
    return Call("=", (Var(var), Const(0)))


def is_positive(var: str) -> Scalar:
    return Call(">", (Var(var), Const(0)))


def equals(left: Scalar, right: Scalar) -> Scalar:
    return Call("=", (left, right))


def is_null(scalar: Scalar) -> Scalar:
    return Call("is_null", (scalar,))


def negation(scalar: Scalar) -> Scalar:
    return Call("not", (scalar,))


def is_not_null(scalar: Scalar) -> Scalar:
    return negation(is_null(scalar))


def null_if(condition: Scalar, otherwise: Scalar) -> Scalar:
    """NULL where the condition is true; there, `otherwise` is not computed."""
    return Call("case", (condition, NULL, otherwise))


def conjuncts(scalar: Scalar) -> tuple[Scalar, ...]:
    match scalar:
        case Call("and", args):
            return tuple(part for arg in args for part in conjuncts(arg))
        case Const(True):
            return ()
        case _:
            return (scalar,)


def conjunction(parts: Iterable[Scalar]) -> Scalar:
    flat = tuple(dict.fromkeys(piece for part in parts for piece in conjuncts(part)))
    if not flat:
        return TRUE
    return flat[0] if len(flat) == 1 else Call("and", flat)


def disjuncts(scalar: Scalar) -> tuple[Scalar, ...]:
    match scalar:
        case Call("or", args):
            return tuple(part for arg in args for part in disjuncts(arg))
        case Const(False):
            return ()
        case _:
            return (scalar,)


def disjunction(parts: Iterable[Scalar]) -> Scalar:
    """OR, with what all branches have in common taken out.

        (A and B) or (A and C)  =>  A and (B or C)

    In three-valued logic too one side is true exactly when the other is (false and NULL may be exchanged). A join
    condition repeated in every branch, as in TPC-H Q19, so becomes a condition of its own.
    """
    flat = tuple(dict.fromkeys(piece for part in parts for piece in disjuncts(part)))
    if not flat:
        return FALSE
    branches = [conjuncts(branch) for branch in flat]
    shared = [part for part in branches[0] if all(part in branch for branch in branches)]
    rests = [conjunction(part for part in branch if part not in shared) for branch in branches]
    if TRUE in rests:  # this branch has nothing of its own, so it holds whenever another one does
        return conjunction(shared)
    return conjunction((*shared, rests[0] if len(rests) == 1 else Call("or", tuple(rests))))
