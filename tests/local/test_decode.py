"""Codes become the values that went in, column by column and row by row."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill import types
from viewmill.algebra.functions import NAN
from viewmill.arrow import arrow_type
from viewmill.engines.local.decode import decode_column, decode_columns, decode_rows
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.scalars import NULL
from viewmill.engines.local.values import encode
from viewmill.errors import DataError

VALUES = {
    types.BOOLEAN: st.booleans(),
    types.TINYINT: st.integers(-128, 127),
    types.SMALLINT: st.integers(-(2**15), 2**15 - 1),
    types.INT: st.integers(-(2**31), 2**31 - 1),
    types.BIGINT: st.integers(-(2**63) + 1, 2**63 - 1),
    types.FLOAT: st.floats(width=32),
    types.DOUBLE: st.floats(),
    types.STRING: st.text(st.characters(codec="utf-8"), max_size=12),
    types.BINARY: st.binary(max_size=12),
    types.DATE: st.dates(),
    types.TIMESTAMP: st.datetimes(),
    types.decimal(5, 2): st.integers(-99999, 99999).map(lambda v: Decimal(v).scaleb(-2)),
    types.decimal(38, 6): st.integers(-(2**63) + 1, 2**63 - 1).map(lambda v: Decimal(v).scaleb(-6)),
    types.decimal(38, 0): st.integers(-(2**63) + 1, 2**63 - 1).map(Decimal),
    types.VOID: st.none(),
}


@st.composite
def rows(draw):
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    return kinds, draw(st.lists(st.tuples(*(st.none() | VALUES[kind] for kind in kinds)), max_size=15))


def encoded(values, kinds, dictionary):
    codes = [[encode(v, t, dictionary) for v, t in zip(row, kinds, strict=True)] for row in values]
    return np.array(codes, np.int64).reshape(len(values), len(kinds))


def comparable(value):
    """There is one zero and one NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def same(left, right):
    return [tuple(map(comparable, row)) for row in left] == [tuple(map(comparable, row)) for row in right]


@given(rows())
def test_columns_have_the_values_and_types_that_went_in(case):
    kinds, values = case
    dictionary = Dictionary()
    codes = encoded(values, kinds, dictionary)
    for given_codes in (codes, list(codes.T), list(np.ascontiguousarray(codes.T))):
        arrays = decode_columns(given_codes, kinds, dictionary)
        for array, kind in zip(arrays, kinds, strict=True):
            array.validate(full=True)
            assert array.type == arrow_type(kind) and len(array) == len(values)
        assert same(zip(*(array.to_pylist() for array in arrays), strict=True), values)


@given(rows())
def test_rows_have_the_values_that_went_in(case):
    kinds, values = case
    dictionary = Dictionary()
    codes = encoded(values, kinds, dictionary)
    for given_codes in (codes, list(codes.T)):
        got = decode_rows(given_codes, kinds, dictionary)
        assert same(got, values)
        for row, expected in zip(got, values, strict=True):
            assert [type(v) for v in row] == [type(v) for v in expected]


def test_there_is_one_nan():
    (row,) = decode_rows(np.array([[0x7FF8000000000000]]), [types.DOUBLE], Dictionary())
    assert row[0] is NAN


def test_no_columns_and_no_rows():
    assert decode_rows(np.empty((2, 0), np.int64), [], Dictionary()) == [(), ()]
    assert decode_columns(np.empty((2, 0), np.int64), [], Dictionary()) == []
    for kind in VALUES:
        empty = decode_column(np.empty(0, np.int64), kind, Dictionary())
        assert len(empty) == 0 and empty.type == arrow_type(kind)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_nothing_but_null(kind):
    assert decode_column(np.full(9, NULL), kind, Dictionary()).to_pylist() == [None] * 9


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        (types.TINYINT, 128, "the number 128 does not fit tinyint"),
        (types.INT, -(2**31) - 1, "the number -2147483649 does not fit int"),
        (types.decimal(5, 2), 100_000, r"the number 1000\.00 does not fit decimal\(5,2\)"),
    ],
)
def test_what_does_not_fit_is_refused(kind, code, message):
    with pytest.raises(DataError, match=message):
        decode_column(np.array([1, NULL, code]), kind, Dictionary())


def test_dates_and_decimals_as_arrow_writes_them():
    columns = decode_columns(
        [np.array([-1, NULL]), np.array([-150, 5])], [types.DATE, types.decimal(15, 2)], Dictionary()
    )
    assert columns[0].equals(pa.array([date(1969, 12, 31), None]))
    assert columns[1].equals(pa.array([Decimal("-1.50"), Decimal("0.05")], pa.decimal128(15, 2)))
    moments = decode_column(np.array([-1]), types.TIMESTAMP, Dictionary())
    assert moments.to_pylist() == [datetime(1969, 12, 31, 23, 59, 59, 999999)]
