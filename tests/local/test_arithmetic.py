"""Compiled arithmetic on codes is Python's arithmetic, or an error."""

from __future__ import annotations

import math
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from viewmill.algebra.functions import EXACT
from viewmill.engines.local import arithmetic

MOST = 2**63 - 1
codes = st.one_of(st.integers(-MOST, MOST), st.integers(-1000, 1000), st.sampled_from([MOST, -MOST, 2**62, 2**32, -1]))


def same_or_overflow(compiled, truth, *args):
    """The codes are those from -MOST to MOST; the least int64 is NULL."""
    if abs(truth) > MOST:
        with pytest.raises(OverflowError):
            compiled(*args)
    else:
        assert compiled(*args) == truth


@given(a=codes, b=codes)
@example(a=2**62, b=4)
@example(a=2**40, b=2**40)
@example(a=-1, b=MOST)
def test_ring(a, b):
    same_or_overflow(arithmetic.add, a + b, a, b)
    same_or_overflow(arithmetic.subtract, a - b, a, b)
    same_or_overflow(arithmetic.multiply, a * b, a, b)


@given(a=st.integers(-(10**12), 10**12), b=st.integers(-(10**6), 10**6).filter(bool), digits=st.integers(-4, 6))
def test_quotient_is_exact_and_rounded_half_up(a, b, digits):
    exact = EXACT.divide(Decimal(a).scaleb(digits, EXACT), Decimal(b))
    assert arithmetic.quotient(a, b, digits) == int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP, context=EXACT))


@given(a=codes, places=st.integers(1, 12))
def test_round_off(a, places):
    exact = Decimal(a).scaleb(-places, EXACT)
    assert arithmetic.round_off(a, 10**places) == int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP, context=EXACT))


def test_division_by_zero():
    for call in (lambda: arithmetic.quotient(1, 0, 2), lambda: arithmetic.divide(1.0, 0.0)):
        with pytest.raises(ZeroDivisionError):
            call()


@given(value=st.floats())
def test_doubles_survive_as_codes_with_one_zero_and_one_nan(value):
    back = arithmetic.double(arithmetic.bits(value))
    assert math.isnan(back) if math.isnan(value) else back == value
    assert arithmetic.bits(-0.0) == arithmetic.bits(0.0) == 0


@given(day=st.dates())
def test_calendar(day):
    days = (day - date(1970, 1, 1)).days
    assert (arithmetic.year_of(days), arithmetic.month_of(days), arithmetic.day_of(days)) == day.timetuple()[:3]
    assert arithmetic.quarter_of(days) == (day.month - 1) // 3 + 1
    assert date(1970, 1, 1) + timedelta(days=days) == day
