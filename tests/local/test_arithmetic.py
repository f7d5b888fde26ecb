"""Compiled arithmetic on codes is Python's arithmetic, or a flag."""

from __future__ import annotations

import math
import struct
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from viewmill.algebra.functions import EXACT
from viewmill.engines.local.generated import compiled
from viewmill.engines.local.raw import OVERFLOW, ZERO_DIVISOR

MOST = 2**63 - 1
codes = st.one_of(st.integers(-MOST, MOST), st.integers(-1000, 1000), st.sampled_from([MOST, -MOST, 2**62, 2**32, -1]))


def run(expression: str, *args: int) -> tuple[int, int]:
    """The word that an expression over a, b, c has in generated code, and the flags."""
    names = "\n".join(f"    {name} = peek(env, {i})" for i, name in enumerate("abc"[: len(args)]))
    source = f"def run(env, batch, rows, flags):\n{names}\n    poke(env, {len(args)}, {expression})\n"
    env, flags = np.array([*args, 0], np.int64), np.zeros(1, np.int64)
    compiled(source)(env.ctypes.data, 0, 0, flags.ctypes.data)
    return int(env[-1]), int(flags[0])


def value(expression: str, *args: int) -> int:
    found, flags = run(expression, *args)
    assert flags == 0
    return found


def code(number: float) -> int:
    return struct.unpack("<q", struct.pack("<d", number))[0]


@given(a=codes, b=codes)
@example(a=2**62, b=4)
@example(a=2**40, b=2**40)
@example(a=-1, b=MOST)
@example(a=-MOST, b=-1)
def test_ring(a, b):
    """The codes are those from -MOST to MOST; the least int64 is NULL."""
    for name, truth in (("add", a + b), ("subtract", a - b), ("multiply", a * b)):
        found, flags = run(f"{name}(a, b, flags)", a, b)
        assert (found, flags) == (truth, 0) if abs(truth) <= MOST else flags == OVERFLOW


@given(a=st.integers(-(10**12), 10**12), b=st.integers(-(10**6), 10**6).filter(bool), digits=st.integers(-4, 6))
def test_quotient_is_exact_and_rounded_half_up(a, b, digits):
    exact = EXACT.divide(Decimal(a).scaleb(digits, EXACT), Decimal(b))
    truth = int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP, context=EXACT))
    assert value("quotient(a, b, c, flags)", a, b, digits) == truth


@given(a=codes, places=st.integers(1, 12))
def test_round_off(a, places):
    exact = Decimal(a).scaleb(-places, EXACT)
    truth = int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP, context=EXACT))
    assert value("round_off(a, b)", a, 10**places) == truth


@given(a=codes, b=codes.filter(bool))
@example(a=-MOST, b=-1)
@example(a=-7, b=2)
def test_whole_division_goes_towards_zero(a, b):
    whole = abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)
    assert value("whole_quotient(a, b, flags)", a, b) == whole
    assert value("remainder(a, b, flags)", a, b) == a - whole * b


def test_division_by_zero():
    for call in ("quotient(a, b, 2, flags)", "whole_quotient(a, b, flags)", "remainder(a, b, flags)"):
        assert run(call, 1, 0)[1] == ZERO_DIVISOR
    assert run("bits(divide(double(a), double(b), flags))", code(1.0), code(0.0))[1] == ZERO_DIVISOR


@given(a=codes, limit=st.integers(1, MOST))
def test_within(a, limit):
    assert run("within(a, b, flags)", a, limit) == (a, 0 if -limit < a < limit else OVERFLOW)
    assert run("within_bits(a, b, flags)", a, limit) == (a, 0 if -limit <= a < limit else OVERFLOW)


@given(number=st.floats())
def test_doubles_survive_as_codes_with_one_zero_and_one_nan(number):
    found = value("bits(double(a))", code(number))
    assert found == (0x7FF8000000000000 if math.isnan(number) else code(number + 0.0))


@given(a=st.floats(), b=st.floats())
@example(a=math.nan, b=math.nan)
@example(a=math.nan, b=math.inf)
def test_nan_is_the_greatest_number_and_equals_itself(a, b):
    rank = [(math.isnan(x), 0.0 if math.isnan(x) else x) for x in (a, b)]
    assert value("below(double(a), double(b))", code(a), code(b)) == (rank[0] < rank[1])
    assert value("same(double(a), double(b))", code(a), code(b)) == (rank[0] == rank[1])


@given(day=st.dates())
@example(day=date(1, 1, 1))
@example(day=date(2000, 2, 29))
def test_calendar(day):
    days = (day - date(1970, 1, 1)).days
    parts = tuple(value(f"{part}_of(a)", days) for part in ("year", "month", "day"))
    assert parts == day.timetuple()[:3]
    assert value("quarter_of(a)", days) == (day.month - 1) // 3 + 1
    assert date(1970, 1, 1) + timedelta(days=days) == day
