"""A value goes into a column exactly or not at all."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill import types
from viewmill.values import Misfit, fit

FITS = [
    (7, types.INT, 7),
    (2.0, types.INT, 2),
    (Decimal("3.00"), types.INT, 3),
    (numpy.int64(5), types.BIGINT, 5),
    (-128, types.TINYINT, -128),
    (True, types.BOOLEAN, True),
    (numpy.bool_(True), types.BOOLEAN, True),
    (1, types.DOUBLE, 1.0),
    (Decimal("0.1"), types.DOUBLE, 0.1),
    (0.5, types.FLOAT, 0.5),
    (0.1, types.decimal(3, 1), Decimal("0.1")),
    (12, types.decimal(5, 2), Decimal("12.00")),
    ("12.50", types.decimal(5, 2), Decimal("12.50")),
    (Decimal("-0.00"), types.decimal(5, 2), Decimal("0.00")),
    (Decimal("1e2"), types.decimal(5, 2), Decimal("100.00")),
    (10**38 - 1, types.decimal(38, 0), Decimal(10**38 - 1)),
    (Decimal("-" + "9" * 28 + "." + "9" * 10), types.decimal(38, 10), Decimal("-" + "9" * 28 + "." + "9" * 10)),
    ("text", types.STRING, "text"),
    (bytearray(b"ab"), types.BINARY, b"ab"),
    ("2024-02-29", types.DATE, date(2024, 2, 29)),
    (datetime(2024, 1, 1), types.DATE, date(2024, 1, 1)),
    (date(2024, 1, 1), types.TIMESTAMP, datetime(2024, 1, 1)),
    ("2024-01-01 10:30:00.5", types.TIMESTAMP, datetime(2024, 1, 1, 10, 30, 0, 500_000)),
    (pandas.Timestamp("2024-01-01 10:00"), types.TIMESTAMP, datetime(2024, 1, 1, 10)),
    (datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2))), types.TIMESTAMP, datetime(2023, 12, 31, 22)),
    (datetime(2024, 1, 1, tzinfo=UTC), types.TIMESTAMP, datetime(2024, 1, 1)),
]

MISFITS = [
    (1.5, types.INT, "is not an int"),
    (math.nan, types.INT, "is not an int"),
    (math.inf, types.BIGINT, "is not a bigint"),
    ("7", types.INT, "is not an int"),
    (True, types.INT, "is a boolean"),
    (128, types.TINYINT, "out of range for tinyint"),
    (2**63, types.BIGINT, "out of range for bigint"),
    (1, types.BOOLEAN, "is not a boolean"),
    (2**53 + 1, types.DOUBLE, "more digits than a double"),
    (Decimal("0.12345678901234567890"), types.DOUBLE, "more digits than a double"),
    (10**400, types.DOUBLE, "out of range for double"),
    (1e300, types.FLOAT, "out of range for float"),
    ("x", types.DOUBLE, "is not a double"),
    (0.1 + 0.2, types.decimal(3, 1), "more than 1 decimal places"),
    (Decimal("1.234"), types.decimal(5, 2), "more than 2 decimal places"),
    (1000, types.decimal(5, 2), "too many digits for decimal(5,2)"),
    (10**38, types.decimal(38, 0), "too many digits"),
    (Decimal("1e50"), types.decimal(38, 0), "too many digits"),
    (Decimal("1e90"), types.decimal(38, 0), "too many digits"),
    (Decimal("1e-90"), types.decimal(38, 2), "more than 2 decimal places"),
    (math.nan, types.decimal(5, 2), "is not a decimal(5,2)"),
    ("abc", types.decimal(5, 2), "is not a decimal(5,2)"),
    (5, types.STRING, "is not a string"),
    ("text", types.BINARY, "is not binary"),
    ("2024-02-30", types.DATE, "is not a date"),
    (datetime(2024, 1, 1, 12), types.DATE, "has a time of day"),
    (20240101, types.DATE, "is not a date"),
    ("soon", types.TIMESTAMP, "is not a timestamp"),
    (pandas.Timestamp("2024-01-01 00:00:00.000000001"), types.TIMESTAMP, "has nanoseconds"),
]


@pytest.mark.parametrize(("value", "type_", "expected"), FITS, ids=lambda item: str(item))
def test_fits(value, type_, expected):
    fitted = fit(value, type_)
    assert fitted == expected and type(fitted) is type(expected)
    assert str(fitted) == str(expected)


@pytest.mark.parametrize(("value", "type_", "reason"), MISFITS, ids=lambda item: str(item))
def test_misfits(value, type_, reason):
    with pytest.raises(Misfit) as caught:
        fit(value, type_)
    assert reason in str(caught.value)


@pytest.mark.parametrize("type_", [types.INT, types.decimal(5, 2), types.STRING, types.DATE, types.DOUBLE])
def test_null_fits_every_type(type_):
    assert fit(None, type_) is None


def test_every_nan_is_one():
    assert fit(float("nan"), types.DOUBLE) is fit(float("nan"), types.DOUBLE)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-999, max_value=999))
def test_a_decimal_that_fits_keeps_its_value(number):
    assert fit(number, types.decimal(5, 2)) == number


@given(st.floats(width=32, allow_nan=False))
def test_a_float_of_32_bits_is_kept(number):
    assert fit(number, types.FLOAT) == number
