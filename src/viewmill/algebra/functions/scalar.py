"""The value of a scalar expression, computed the obvious way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from viewmill.algebra.functions.casts import cast
from viewmill.algebra.functions.registry import FUNCTIONS
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.errors import InternalError


def evaluate_scalar(scalar: Scalar, env: Mapping[str, object]) -> object:
    """The value where variables have the values in `env`.

    What SQL does not need is not computed, so that it cannot fail: branches of `case` not taken, and the arguments
    behind the first that decides, which for `coalesce` is not NULL, for `and` false and for `or` true.
    """
    match scalar:
        case Var(name):
            if name not in env:
                raise InternalError(f"variable {name} has no value")
            return env[name]
        case Const(value):
            return value
        case Cast(arg, type_):
            return cast(evaluate_scalar(arg, env), type_)
        case Call("case", args):
            return _case(args, env)
        case Call("coalesce", args):
            return _until(lambda value: value is not None, args, env)[-1]
        case Call("and", args):
            return FUNCTIONS["and"](*_until(lambda value: value is False, args, env))
        case Call("or", args):
            return FUNCTIONS["or"](*_until(lambda value: value is True, args, env))
        case Call(op, args):
            if op not in FUNCTIONS:
                raise InternalError(f"there is no function {op}")
            return FUNCTIONS[op](*(evaluate_scalar(arg, env) for arg in args))
        case _:
            assert_never(scalar)


def _case(args: tuple[Scalar, ...], env: Mapping[str, object]) -> object:
    for when, then in zip(args[:-1:2], args[1::2], strict=True):
        if evaluate_scalar(when, env) is True:
            return evaluate_scalar(then, env)
    return evaluate_scalar(args[-1], env)


def _until(decided: Callable[[object], bool], args: tuple[Scalar, ...], env: Mapping[str, object]) -> list[object]:
    """The values of the arguments up to the first that decides the result."""
    values: list[object] = []
    for arg in args:
        values.append(evaluate_scalar(arg, env))
        if decided(values[-1]):
            break
    return values
