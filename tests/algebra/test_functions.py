"""Scalar functions against a table of cases, and against DuckDB where it agrees with Spark.

The table, `fixtures/algebra/functions.txt`, has a case in each line: `expression ---- value`, or `---- error: message`,
and `---- duckdb` at the end where the same words mean the same there.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.algebra.functions import EXACT, FUNCTIONS, STRICT, TOTAL, add, cast, evaluate_scalar, mul
from viewmill.algebra.functions.logic import equal
from viewmill.algebra.scalars import Call, Const, Var
from viewmill.algebra.scalars import children as scalar_children
from viewmill.algebra.text import parse_scalar
from viewmill.errors import DataError, InternalError
from viewmill.types import VOID
from viewmill.types import decimal as decimal_type

TABLE = Path(__file__).parents[1] / "fixtures" / "algebra" / "functions.txt"


def lines():
    for number, line in enumerate(TABLE.read_text().splitlines(), start=1):
        if line and not line.startswith("#"):
            parts = line.split(" ---- ")
            assert len(parts) == 2 or parts[2:] == ["duckdb"], f"{TABLE.name}:{number}: malformed case {line!r}"
            yield parts


CASES = [(text, expected) for text, expected, *_ in lines()]
SHARED = [text for text, _, *rest in lines() if rest]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_value(text, expected):
    scalar = parse_scalar(text)
    if expected.startswith("error: "):
        with pytest.raises(DataError) as error:
            evaluate_scalar(scalar, {})
        assert error.value.message == expected.removeprefix("error: ")
    else:
        assert Const(evaluate_scalar(scalar, {})) == parse_scalar(expected)


@pytest.fixture(scope="module")
def duck():
    return duckdb.connect()


@pytest.mark.parametrize("text", SHARED)
def test_duckdb_agrees(text, duck):
    ours, (theirs,) = evaluate_scalar(parse_scalar(text), {}), duck.execute(f"SELECT {text}").fetchone()
    assert (ours is None) == (theirs is None)
    assert ours is None or equal(ours, theirs)


def test_every_function_has_a_case():
    def ops(scalar):
        yield from (scalar.op,) if isinstance(scalar, Call) else ()
        for child in scalar_children(scalar):
            yield from ops(child)

    assert {op for text, _ in CASES for op in ops(parse_scalar(text))} == FUNCTIONS.keys()


def test_strict_and_total_name_functions():
    assert STRICT < FUNCTIONS.keys()
    assert TOTAL < FUNCTIONS.keys()
    failing = {parse_scalar(text) for text, expected in CASES if expected.startswith("error: ")}
    assert not {scalar.op for scalar in failing if isinstance(scalar, Call)} - {"and"} & TOTAL


@pytest.mark.parametrize("op", sorted(STRICT))
def test_strict_functions_give_null_for_null(op):
    assert FUNCTIONS[op](None) is None
    assert FUNCTIONS[op](1, None) is None
    assert FUNCTIONS[op](None, "a", 1) is None


def test_decimals_do_not_depend_on_the_context_of_the_thread():
    long = Decimal("12345678901234567890.1234567890123456")
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.Inexact] = True
        assert add(long, 1) == Decimal("12345678901234567891.1234567890123456")
        assert mul(long, -2) == Decimal("-24691357802469135780.2469135780246912")
        assert FUNCTIONS["neg"](long) == long.copy_negate()
        assert FUNCTIONS["abs"](long) == long
        assert FUNCTIONS["round"](long, 3) == Decimal("12345678901234567890.123")
        assert FUNCTIONS["%"](long, 7) == EXACT.remainder(long, 7)
        assert cast(long, decimal_type(38, 4)) == Decimal("12345678901234567890.1235")
        assert cast(1.5, decimal_type(38, 4)) == Decimal("1.5000")


def test_a_decimal_that_would_lose_digits_is_an_error():
    with pytest.raises(DataError, match="more than 100 digits"):
        add(Decimal(10) ** 60, Decimal("1e-60"))


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30)))
def test_sums_of_decimals_do_not_depend_on_their_order(numbers):
    forward, backward = Decimal(0), Decimal(0)
    for number in numbers:
        forward = add(forward, number)
    for number in reversed(numbers):
        backward = add(number, backward)
    assert forward == backward


def test_weights_of_different_kinds():
    assert type(add(1, 2)) is int
    assert type(mul(2, Decimal("1.5"))) is Decimal
    assert type(mul(2, 1.5)) is float
    assert type(add(Decimal("0.5"), 1.5)) is float


@given(st.floats(), st.floats())
def test_doubles_have_one_order(a, b):
    """Of less, equal and greater exactly one holds, NaN included."""
    assert [FUNCTIONS[op](a, b) for op in ("<", "=", ">")].count(True) == 1
    assert FUNCTIONS["<="](a, b) is not FUNCTIONS[">"](a, b)
    assert FUNCTIONS["<>"](a, b) is not FUNCTIONS["="](a, b)


@given(st.floats(), st.integers(-5, 5))
def test_total_double_functions_never_fail(number, scale):
    for op in ("sign", "sqrt", "exp", "ln", "log10", "log2", "abs"):
        FUNCTIONS[op](number)
    for op in ("round", "bround"):
        FUNCTIONS[op](number, scale)
    FUNCTIONS["power"](number, float(scale))


@given(st.integers(), st.integers().filter(bool))
def test_division_and_remainder_belong_together(a, b):
    assert FUNCTIONS["div"](a, b) * b + FUNCTIONS["%"](a, b) == a
    assert abs(FUNCTIONS["%"](a, b)) < abs(b)
    assert 0 <= FUNCTIONS["pmod"](a, abs(b)) < abs(b)


def test_variables_come_from_the_environment():
    assert evaluate_scalar(parse_scalar("a * (1 - b)"), {"a": 10, "b": Decimal("0.05")}) == Decimal("9.50")


def test_what_is_unknown_is_our_fault():
    for scalar in (Var("a"), Call("frobnicate", ())):
        with pytest.raises(InternalError):
            evaluate_scalar(scalar, {})
    with pytest.raises(InternalError):
        cast(1, VOID)
    assert cast(None, VOID) is None


def test_nan_is_one_object():
    """Only so is it found again as a key."""
    for text in ("sqrt(-1e0)", "cast('nan' as double)", "double 'inf' % 2e0", "power(-8e0, 0.5e0)"):
        assert evaluate_scalar(parse_scalar(text), {}) is math.nan
