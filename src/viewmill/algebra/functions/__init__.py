"""Scalar operators and functions over Python values, with Spark's ANSI meaning.

    FUNCTIONS["substring"]("viewmill", 1, 4) == "view"        FUNCTIONS["+"](None, 1) is None

`types.py` says which Python value carries which SQL type. Wrong data (a division by zero, a text that is no date) is
a `DataError`; wrong types are the fault of whoever built the scalar and are not looked for. No function depends on the
decimal context of the thread: all decimals go through `EXACT`.
"""

from __future__ import annotations

from viewmill.algebra.functions.casts import cast
from viewmill.algebra.functions.logic import equal, greatest, least, less
from viewmill.algebra.functions.numbers import EXACT, NAN, Number, add, mul, neg, one_nan
from viewmill.algebra.functions.registry import FUNCTIONS, STRICT, TOTAL
from viewmill.algebra.functions.scalar import evaluate_scalar

__all__ = [
    "EXACT",
    "FUNCTIONS",
    "NAN",
    "STRICT",
    "TOTAL",
    "Number",
    "add",
    "cast",
    "equal",
    "evaluate_scalar",
    "greatest",
    "least",
    "less",
    "mul",
    "neg",
    "one_nan",
]
