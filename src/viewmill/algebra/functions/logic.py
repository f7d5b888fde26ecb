"""Comparison and three-valued logic: NULL is "unknown".

NaN equals NaN and is greater than every other number, as in Spark. Strings compare by code point, which is the order of
their UTF-8 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from viewmill.errors import DataError


def is_nan(a: object) -> bool:
    return isinstance(a, float) and math.isnan(a)


def equal(a: Any, b: Any) -> bool:
    return bool(a == b) or (is_nan(a) and is_nan(b))


def less(a: Any, b: Any) -> bool:
    if is_nan(a):
        return False
    return is_nan(b) or bool(a < b)


def same(a: object, b: object) -> bool:
    """`<=>`: NULL is NULL and nothing else."""
    if a is None or b is None:
        return a is b
    return equal(a, b)


def all_of(*args: object) -> bool | None:
    """`and`: false if any is false, else NULL if any is NULL."""
    if any(arg is False for arg in args):
        return False
    return None if any(arg is None for arg in args) else True


def any_of(*args: object) -> bool | None:
    """`or`: true if any is true, else NULL if any is NULL."""
    if any(arg is True for arg in args):
        return True
    return None if any(arg is None for arg in args) else False


def member(needle: object, *items: object) -> bool | None:
    """`needle = item or needle = item ...`"""
    return any_of(*(None if needle is None or item is None else equal(needle, item) for item in items))


def coalesce(*args: object) -> object:
    return next((arg for arg in args if arg is not None), None)


def case(*args: object) -> object:
    """`case(condition, value, condition, value, ..., otherwise)`, with every branch computed already."""
    conditions, values = args[:-1:2], args[1::2]
    return next((value for when, value in zip(conditions, values, strict=True) if when is True), args[-1])


def greatest(*args: object) -> object:
    return _best(args, lambda a, b: b if less(a, b) else a)


def least(*args: object) -> object:
    return _best(args, lambda a, b: b if less(b, a) else a)


def _best(args: Iterable[object], better: Callable[[object, object], object]) -> object:
    """NULLs do not take part."""
    known = [arg for arg in args if arg is not None]
    return reduce(better, known) if known else None


def assert_single(count: int, value: object) -> object:
    """The value of a scalar subquery of `count` rows."""
    if count > 1:
        raise DataError("scalar subquery returned more than one row")
    return value


STRICT: dict[str, Callable[..., object]] = {
    "=": equal,
    "<>": lambda a, b: not equal(a, b),
    "<": less,
    "<=": lambda a, b: not less(b, a),
    ">": lambda a, b: less(b, a),
    ">=": lambda a, b: not less(a, b),
    "not": lambda a: not a,
}

NULL_AWARE: dict[str, Callable[..., object]] = {
    "<=>": same,
    "and": all_of,
    "or": any_of,
    "is_null": lambda a: a is None,
    "in": member,
    "coalesce": coalesce,
    "case": case,
    "greatest": greatest,
    "least": least,
    "assert_single": assert_single,
}
