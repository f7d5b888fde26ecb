"""Arrow columns become the codes that their values have one by one, or are refused in the same words."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill import types
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.engines.local.columns import Column, encode_column, encoder_for
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.scalars import NULL
from viewmill.engines.local.values import TooWide, encode
from viewmill.errors import DataError
from viewmill.intake import given_rows, whole_row, whole_rows
from viewmill.values import Misfit, fit

# --- columns of every kind, with the values at which something changes among the others

BOUNDS = [0, 1, -1, 127, -128, 128, 2**31 - 1, -(2**31), 2**53, 2**53 + 1, 10**15, 10**18, 2**63 - 1, -(2**63) + 1]
DOUBLES = [0.0, -0.0, 0.1, 0.1 + 0.2, 2.5, -7.0, 1e15, 1e16, 2.0**53, 1e300, math.nan, math.inf, -math.inf, 5e-324]
MOMENTS = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 31, 23, 59, 59)]

numbers = st.one_of(st.sampled_from(BOUNDS), st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300))
doubles = st.one_of(st.sampled_from(DOUBLES), st.floats(), st.decimals(-999, 999, places=2).map(float))
moments = st.one_of(
    st.sampled_from(MOMENTS), st.datetimes(), st.dates().map(lambda d: datetime(d.year, d.month, d.day))
)
texts = st.one_of(st.text(max_size=10), st.sampled_from(["2024-01-31", "12.50", "7", "2024-01-31 10:00:00"]))


def within(bits, *, signed=True):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.one_of(st.sampled_from([v for v in BOUNDS if low <= v <= high]), st.integers(low, high))


def decimals(precision, scale):
    most = 10**precision - 1
    unscaled = st.one_of(
        st.sampled_from([v for v in (*BOUNDS, most, -most) if abs(v) <= most]),
        st.integers(-most, most),
        st.integers(-9999, 9999),
    )
    return unscaled.map(lambda v: Decimal(v).scaleb(-scale) if precision < 28 else Decimal((v < 0, _digits(v), -scale)))


def _digits(value):
    return tuple(map(int, str(abs(value))))


SOURCES = [
    *((pa.int8(), within(8)), (pa.int16(), within(16)), (pa.int32(), within(32)), (pa.int64(), within(64))),
    *((getattr(pa, f"uint{bits}")(), within(bits, signed=False)) for bits in (8, 16, 32, 64)),
    (pa.float64(), doubles),
    (pa.float32(), st.floats(width=32)),
    (pa.float16(), st.sampled_from([0.5, -2.0, math.nan]).map(np.float16)),
    (pa.bool_(), st.booleans()),
    *(
        (pa.decimal128(p, s), decimals(p, s))
        for p, s in [(5, 2), (15, 2), (18, 0), (19, 4), (38, 10), (38, 0), (38, 38)]
    ),
    (pa.decimal128(5, -2), st.integers(-999, 999).map(lambda v: Decimal(v * 100))),
    (pa.decimal32(7, 3), decimals(7, 3)),
    (pa.decimal64(15, 2), decimals(15, 2)),
    (pa.decimal256(40, 2), decimals(38, 2)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    *((pa.timestamp(unit), moments.map(lambda m: m.replace(microsecond=0))) for unit in ("s", "ms")),
    (pa.timestamp("us"), moments),
    (pa.timestamp("us", "UTC"), moments.map(lambda m: m.replace(tzinfo=UTC))),
    (
        pa.timestamp("us", "+05:30"),
        st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)).map(lambda m: m.replace(tzinfo=UTC)),
    ),
    (pa.timestamp("ns"), st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))),
    (pa.timestamp("ns"), st.integers(-(2**62), 2**62)),
    *((kind, texts) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, st.binary(max_size=9)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.null(), st.none()),
    (pa.dictionary(pa.int8(), pa.string()), texts),
    (pa.dictionary(pa.int32(), pa.int64()), numbers),
    (pa.dictionary(pa.uint16(), pa.float64()), doubles),
    (pa.list_(pa.int64()), st.just([1])),
    (pa.time64("us"), st.times()),
]
TARGETS = [
    *(types.BOOLEAN, types.TINYINT, types.SMALLINT, types.INT, types.BIGINT, types.FLOAT, types.DOUBLE),
    *(types.STRING, types.BINARY, types.DATE, types.TIMESTAMP),
    *(types.decimal(p, s) for p, s in [(5, 2), (15, 2), (18, 18), (20, 0), (38, 10), (38, 38), (3, 1)]),
]


@st.composite
def columns(draw):
    kind, values = draw(st.sampled_from(SOURCES))
    items = draw(st.lists(values | st.none() if draw(st.booleans()) else values, max_size=20))
    array = pa.array(items, kind)
    start = draw(st.integers(0, 3))
    return array.slice(start, draw(st.integers(0, len(items))))


def python_values(array):
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        try:
            array = array.cast(pa.timestamp("us", array.type.tz))
        except pa.ArrowInvalid:
            raise Misfit("has nanoseconds, which timestamp cannot hold") from None
    return array.to_pylist()


def one_by_one(array, type_, dictionary):
    return [encode(fit(value, type_), type_, dictionary) for value in python_values(array)]


def outcome(encoding):
    try:
        return encoding()
    except (Misfit, TooWide, OverflowError, ValueError) as error:
        return type(error), str(error)


def agrees(array, type_):
    """The codes, or the error, are those of the values one by one. Strings are numbered in the same order."""
    expected = outcome(lambda: one_by_one(array, type_, Dictionary()))
    got = outcome(lambda: encode_column(array, type_, Dictionary()).codes(len(array)).tolist())
    return got == expected


@given(columns(), st.sampled_from(TARGETS))
def test_every_kind_into_every_type(array, type_):
    assert agrees(array, type_)


@given(columns(), st.sampled_from(TARGETS), st.booleans())
def test_whole_columns_are_rows(array, type_, nullable):
    """The rows of a table with one column are what fits of its values, one by one, to the bit; or the same error."""
    info = RelationInfo("t", (ColumnInfo("a", type_, nullable),))
    table = pa.table({"a": array})

    def said(read):
        try:
            return repr(read())
        except (DataError, OverflowError, ValueError) as error:
            return type(error), str(error)

    expected = said(lambda: [whole_row(row, info) for row in given_rows(table, info)])
    assert said(lambda: whole_rows(table, info)) == expected


# Conversions that have a way of their own. It is taken only if every value is plain, so columns are short.
OWN_WAY = [
    *((kind, values, type_) for kind, values in SOURCES for type_ in TARGETS if encoder_for(kind, type_) is not None),
]


@given(st.sampled_from(OWN_WAY), st.data())
def test_conversions_with_a_way_of_their_own(way, data):
    kind, values, type_ = way
    items = data.draw(st.lists(values | st.none(), min_size=1, max_size=2))
    assert agrees(pa.array(items, kind), type_)


def edges(kind):
    """Values at which something changes, as far as the kind has them."""
    value_kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    candidates = [*BOUNDS, 2**63, 2**64 - 1, -(2**63), *DOUBLES, *MOMENTS, date(2024, 1, 31), "x", b"xyz", True, None]
    candidates += [Decimal(v).scaleb(-s) for v in (*BOUNDS, 9007199254740993, 123456789012345678) for s in (0, 2, 4)]
    candidates += [datetime(2024, 1, 31), datetime(2024, 1, 31, 10), "2024-01-31", 2.5, 1e22, 123456789012345.7]
    for candidate in candidates:
        try:
            pa.array([candidate], value_kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError):
            continue
        yield candidate


@pytest.mark.parametrize(("kind", "type_"), [(kind, type_) for kind, _, type_ in OWN_WAY], ids=str)
def test_every_edge_of_every_way(kind, type_):
    plain = 0
    for item in edges(kind):
        array = pa.array([None, item], kind)
        assert agrees(array, type_), item
        assert agrees(array[1:], type_), item
        plain += encoder_for(kind, type_)(array, Dictionary()) is not None
    assert plain, "some value goes that way"


def test_nulls_do_not_hide_the_upper_word():
    array = pa.array([Decimal(2**64 + 5), None], pa.decimal128(38, 0))
    for type_ in (types.decimal(38, 0), types.BIGINT, types.DOUBLE, types.decimal(38, 2)):
        assert agrees(array, type_) and agrees(array[:1], type_)


@pytest.mark.parametrize("zone", ["-05:30", "+05:30", "UTC"])
@pytest.mark.parametrize("moment", [-62135596800000000, 253402300799999999], ids=["first", "last"])
@pytest.mark.parametrize("type_", [types.TIMESTAMP, types.DATE], ids=str)
def test_the_ends_of_the_calendar(zone, moment, type_):
    """Python has no local time there; what the values one by one are, or raise, the column is, or raises."""
    array = pa.array([moment], pa.int64()).cast(pa.timestamp("us", zone))
    assert agrees(array, type_)


def test_an_unknown_number_of_nulls():
    bitmap, data = pa.py_buffer(b"\x03"), pa.py_buffer(np.array([1, 2, 3, 4]))
    array = pa.Array.from_buffers(pa.int64(), 2, [bitmap, data], -1, 1)
    assert encode_column(array, types.BIGINT, Dictionary()).codes(2).tolist() == [2, NULL]


# --- where the codes lie


def test_columns_of_codes_are_not_copied():
    words = pa.array(range(100))
    column = encode_column(words[10:], types.BIGINT, Dictionary())
    assert (column.address, column.stride) == (words.buffers()[1].address + 80, 1)
    prices = pa.array([Decimal(i).scaleb(-2) for i in range(-50, 50)], pa.decimal128(15, 2))
    column = encode_column(prices[1:], types.decimal(15, 2), Dictionary())
    assert (column.address, column.stride) == (prices.buffers()[1].address + 16, 2)
    assert column.codes(99).tolist() == list(range(-49, 50))
    ratios = pa.array([0.5, 1.5])
    assert encode_column(ratios, types.DOUBLE, Dictionary()).address == ratios.buffers()[1].address


def test_a_column_outlives_the_array_it_came_from():
    column = encode_column(pa.array(np.arange(1000)), types.BIGINT, Dictionary())
    garbage = [pa.array(np.zeros(1000, np.int64)) for _ in range(50)]
    assert column.codes(1000).tolist() == list(range(1000)) and garbage


def test_one_zero_and_one_nan():
    other_nan = np.array([0x7FF8000000000001, -(2**63), 0xFFF8000000000000 - 2**64], np.int64).view(np.float64)
    for kind in (pa.float64(), pa.float32()):
        array = pa.array(other_nan.astype(kind.to_pandas_dtype()))
        codes = encode_column(array, types.DOUBLE, Dictionary()).codes(3).tolist()
        assert codes == [0x7FF8000000000000, 0, 0x7FF8000000000000]


def test_numbers_of_more_than_64_bits():
    wide = pa.array([Decimal(10**18), Decimal(2**63)], pa.decimal128(38, 0))
    with pytest.raises(TooWide, match="9223372036854775808 has more than 64 bits"):
        encode_column(wide, types.decimal(38, 0), Dictionary())
    with pytest.raises(TooWide):
        encode_column(pa.array([-(2**63)]), types.BIGINT, Dictionary())
    # The upper word alone says that it is wide.
    with pytest.raises(TooWide):
        encode_column(pa.array([Decimal(2**64 + 5)], pa.decimal128(38, 0)), types.decimal(38, 0), Dictionary())


def test_decimals_that_break_the_promise_of_their_type():
    """Arrow does not look whether a decimal has as many digits as its type says."""
    words = np.array([[123456, 0], [7, 0]], np.int64)
    array = pa.Array.from_buffers(pa.decimal128(5, 2), 2, [None, pa.py_buffer(words)])
    with pytest.raises(Misfit, match="too many digits"):
        encode_column(array, types.decimal(5, 2), Dictionary())


def test_dates_outside_the_calendar_are_not_taken_for_dates():
    array = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    with pytest.raises((OverflowError, ValueError)):
        encode_column(array, types.DATE, Dictionary())


def test_values_that_no_row_has_do_no_harm():
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array([2.5, 3.0]))
    assert encode_column(array, types.INT, Dictionary()).codes(3).tolist() == [3, NULL, 3]
    holes = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    assert encode_column(holes, types.STRING, Dictionary()).codes(2).tolist() == [0, NULL]


# --- chunks


@given(st.lists(st.lists(st.none() | st.integers(-9, 9), max_size=5), max_size=4))
def test_chunks_of_numbers(chunks):
    array = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks], pa.int64())
    codes = encode_column(array, types.BIGINT, Dictionary()).codes(len(array))
    assert codes.tolist() == [NULL if value is None else value for value in array.to_pylist()]


def test_chunks_of_strings_and_decimals():
    array = pa.chunked_array([["a", "b"], [], [None, "a"]])
    assert encode_column(array, types.STRING, Dictionary()).codes(4).tolist() == [0, 1, NULL, 0]
    prices = [pa.array([Decimal("1.50")], pa.decimal128(5, 2))] * 2
    column = encode_column(pa.chunked_array(prices), types.decimal(5, 2), Dictionary())
    assert (column.codes(2).tolist(), column.stride) == ([150, 150], 1)


@pytest.mark.parametrize("kind", [kind for kind, _ in SOURCES], ids=str)
def test_empty(kind):
    for type_ in TARGETS:
        assert len(encode_column(pa.array([], kind), type_, Dictionary()).codes(0)) == 0
        assert len(encode_column(pa.chunked_array([], kind), type_, Dictionary()).codes(0)) == 0


def test_zones_are_moved_to_utc():
    zone = timezone(timedelta(hours=2))
    array = pa.array([datetime(2024, 1, 1, 1, tzinfo=zone)], pa.timestamp("ms", "+02:00"))
    column = encode_column(array, types.TIMESTAMP, Dictionary())
    assert column.codes(1).tolist() == [encode(datetime(2023, 12, 31, 23), types.TIMESTAMP, Dictionary())]


def test_a_stride_of_nothing_is_one_value_for_all():
    word = np.array([7], np.int64)
    assert Column(word.ctypes.data, 0, word).codes(3).tolist() == [7, 7, 7]
