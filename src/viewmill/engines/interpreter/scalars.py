"""Scalars as functions of the variables that are known. What SQL does not need is not computed, so it cannot fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from viewmill.algebra.functions import FUNCTIONS, cast
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var

Env: TypeAlias = dict[str, object]


def compile_scalar(scalar: Scalar) -> Callable[[Env], object]:
    match scalar:
        case Var(name):
            return lambda env: env[name]
        case Const(value):
            return lambda env: value
        case Cast(arg, type_):
            inner = compile_scalar(arg)
            return lambda env: cast(inner(env), type_)
        case Call(op, args):
            return _call(op, [compile_scalar(arg) for arg in args])
        case _:
            assert_never(scalar)


def _call(op: str, args: list[Callable[[Env], object]]) -> Callable[[Env], object]:
    if op == "case":
        *pairs, otherwise = args
        branches = list(zip(pairs[::2], pairs[1::2], strict=True))
        return lambda env: _case(branches, otherwise, env)
    if op == "coalesce":
        return lambda env: next((value for arg in args if (value := arg(env)) is not None), None)
    function = FUNCTIONS[op]
    if op in ("and", "or"):
        decisive = op == "or"

        def junction(env: Env) -> object:
            values = []
            for arg in args:
                values.append(arg(env))
                if values[-1] is decisive:
                    return decisive
            return function(*values)

        return junction
    if len(args) == 2:
        left, right = args
        return lambda env: function(left(env), right(env))
    return lambda env: function(*(arg(env) for arg in args))


def _case(
    branches: list[tuple[Callable[[Env], object], Callable[[Env], object]]],
    otherwise: Callable[[Env], object],
    env: Env,
) -> object:
    for holds, value in branches:
        if holds(env) is True:
            return value(env)
    return otherwise(env)
