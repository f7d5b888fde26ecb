"""Batches that come as columns have the rows, and the errors, that they have when they are taken row by row."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill import types
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.engines.local.columnar import Columnar
from viewmill.engines.local.decode import decode_rows
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.values import TooWide, decode, encode
from viewmill.errors import DataError
from viewmill.intake import given_rows, held, whole_row

ORDERS = RelationInfo(
    "orders",
    (
        ColumnInfo("id", types.BIGINT, False),
        ColumnInfo("day", types.DATE),
        ColumnInfo("price", types.decimal(6, 2), False),
        ColumnInfo("ratio", types.DOUBLE),
        ColumnInfo("note", types.STRING),
        ColumnInfo("at", types.TIMESTAMP),
        ColumnInfo("size", types.INT),
        ColumnInfo("paid", types.BOOLEAN),
    ),
    primary_key=("id",),
    stored=False,
)
ROW = (1, date(2024, 1, 31), Decimal("9.50"), 0.5, "x", datetime(2024, 1, 31, 10), 7, True)
KINDS = [
    pa.int64(),
    pa.date32(),
    pa.decimal128(6, 2),
    pa.float64(),
    pa.string(),
    pa.timestamp("us"),
    pa.int32(),
    pa.bool_(),
]
EVERY = ORDERS.names


def by_columns(data, used=EVERY):
    """The rows of the columns in use, or the error."""
    dictionary = Dictionary()
    try:
        columns = Columnar(ORDERS, used, dictionary).encode(data)
    except DataError as error:
        return type(error), str(error)
    if columns is None:
        return None
    places = [EVERY.index(name) for name in used]
    codes = np.array([columns.codes(place) for place in places], np.int64).reshape(len(places), columns.rows).T
    return decode_rows(codes, [ORDERS.columns[place].type for place in places], dictionary)


def by_rows(data, used=EVERY):
    dictionary = Dictionary()

    def kept(value, column):
        return decode(encode(value, column.type, dictionary), column.type, dictionary)

    try:
        rows = [whole_row(given, ORDERS) for given in given_rows(data, ORDERS)]
        places = [(EVERY.index(name), ORDERS.column(name)) for name in used]
        return [tuple(kept(row[place], column) for place, column in places) for row in rows]
    except DataError as error:
        return type(error), str(error)


def same(data, used=EVERY):
    return repr(by_columns(data, used)) == repr(by_rows(data, used))  # repr: NaN is not itself


def table(rows, kinds=KINDS):
    arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    return pa.Table.from_arrays(arrays, names=list(EVERY))


# --- Arrow

cells = [
    st.integers(-5, 5),
    st.none() | st.dates(date(1900, 1, 1)),
    st.integers(-999999, 999999).map(lambda v: Decimal(v).scaleb(-2)),
    st.none() | st.sampled_from([0.5, -0.0, math.nan, math.inf]),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=4),
    st.none() | st.datetimes(),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.booleans(),
]
good = st.tuples(*cells)
# A NULL where none may be, or numbers that are NULL inside the engine.
bad = st.tuples(st.sampled_from([None, -(2**63), 1]), *cells[1:2], st.sampled_from([None, Decimal("1.00")]), *cells[3:])


@given(st.lists(st.one_of(good, good, good, bad), max_size=12), st.sets(st.sampled_from(EVERY)), st.data())
def test_tables_and_batches(rows, used, data):
    used = tuple(name for name in EVERY if name in used)
    whole = table(rows)
    cut = data.draw(st.integers(0, len(rows)))
    chunked = pa.concat_tables([whole[:cut], whole[cut:]])
    (batch,) = whole.to_batches() or [pa.RecordBatch.from_pylist([], whole.schema)]
    start = data.draw(st.integers(0, 2))
    for form in (whole, chunked, batch, batch.slice(start), whole.slice(start)):
        assert same(form, used)


@pytest.mark.parametrize(
    "kinds",
    [
        [
            pa.int8(),
            pa.timestamp("ns"),
            pa.float64(),
            pa.float32(),
            pa.large_string(),
            pa.date32(),
            pa.uint8(),
            pa.bool_(),
        ],
        [
            *(pa.float64(), pa.string(), pa.string(), pa.decimal128(9, 3), pa.dictionary(pa.int8(), pa.string())),
            *(pa.string(), pa.decimal128(12, 2), pa.bool_()),
        ],
        [
            pa.uint64(),
            pa.date64(),
            pa.int64(),
            pa.int64(),
            pa.string_view(),
            pa.timestamp("s", "UTC"),
            pa.float64(),
            pa.bool_(),
        ],
    ],
    ids=["narrow", "exotic", "wide"],
)
@pytest.mark.parametrize("used", [EVERY, ("id",), ()], ids=["all used", "one used", "none used"])
def test_other_kinds_of_columns(kinds, used):
    plain = {"date": "2024-01-31", "number": 9, "note": "x", "at": datetime(2024, 1, 31, 0)}
    moment = plain["at"]
    row = []
    for name, kind in zip(EVERY, kinds, strict=True):
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            row.append(moment if pa.types.is_timestamp(kind) else moment.date())
        elif name in ("day", "at"):
            row.append(plain["date"])
        elif name == "note":
            row.append("x")
        elif name == "paid":
            row.append(True)
        else:
            row.append("9.00" if pa.types.is_string(kind) else Decimal(9) if pa.types.is_decimal(kind) else 9)
    data = table([tuple(row)] * 3, kinds)
    assert same(data, used) and isinstance(by_columns(data, used), list)


def test_names_in_any_case_and_order():
    data = table([ROW]).select(list(reversed(EVERY))).rename_columns([name.upper() for name in reversed(EVERY)])
    assert by_columns(data) == [ROW]


def test_one_intake_takes_batches_of_several_schemas():
    columnar = Columnar(ORDERS, EVERY, Dictionary())
    narrow = [pa.int8(), *KINDS[1:]]
    for kinds in (KINDS, narrow, KINDS, narrow):
        columns = columnar.encode(table([ROW, ROW], kinds).to_batches()[0])
        assert columns.codes(0).tolist() == [1, 1]


@pytest.mark.parametrize("weight", [1, -1])
def test_what_compiled_code_is_given(weight):
    columns = Columnar(ORDERS, ("id", "price"), Dictionary()).encode(table([ROW, ROW, ROW]), weight)
    pairs = columns.words.reshape(-1, 2)
    assert len(pairs) == len(EVERY) + 1 and columns.words.ctypes.data == columns.address
    assert [bool(where) for where, _ in pairs] == [name in ("id", "price") for name in EVERY] + [True]
    assert columns.codes(len(EVERY)).tolist() == [weight] * 3  # the weights come last
    assert columns.codes(2).tolist() == [950, 950, 950]


def test_columns_not_in_use_are_not_numbered():
    dictionary = Dictionary()
    Columnar(ORDERS, ("id",), dictionary).encode(table([ROW]))
    assert len(dictionary) == 0


def test_a_dictionary_that_hides_a_null():
    note = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", None]))
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array([5, None]))
    data = table([ROW, ROW])
    assert same(data.set_column(4, "note", note)) and same(data.set_column(0, "id", ids))
    assert same(data.set_column(0, "id", ids), ("note",))
    assert 'NULL in column "id"' in by_columns(data.set_column(0, "id", ids))[1]


# --- errors

WRONG = [
    ("id", pa.array([1, None])),
    ("id", pa.array([1.0, 1.5])),
    ("id", pa.array([True, False])),
    ("id", pa.array([2**63, 1], pa.uint64())),
    ("price", pa.array([Decimal("1.234"), Decimal("1")])),
    ("price", pa.array([10_000, 1])),
    ("price", pa.array(["1", "one"])),
    ("ratio", pa.array([2**53 + 1, 1])),
    ("ratio", pa.array(["1.5", "2"])),
    ("note", pa.array([b"x", b"y"])),
    ("note", pa.array([1, 2])),
    ("day", pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 1)])),
    ("day", pa.array(["2024-01-31", "soon"])),
    ("at", pa.array([1, 1000], pa.timestamp("ns"))),
    ("size", pa.array([2**31, 0])),
    ("paid", pa.array([1, 0])),
]


@pytest.mark.parametrize(("name", "column"), WRONG, ids=str)
@pytest.mark.parametrize("used", [EVERY, ()], ids=["used", "not used"])
def test_what_does_not_fit_is_refused_as_a_row_is(name, column, used):
    data = table([ROW, ROW])
    data = data.set_column(EVERY.index(name), name, column)
    kind, message = by_rows(data, used)
    assert by_columns(data, used) == (kind, message) and '"orders"' in message


def test_the_first_wrong_row_counts_not_the_first_wrong_column():
    data = table([ROW, ROW]).set_column(2, "price", pa.array([Decimal("1.00"), None], pa.decimal128(6, 2)))
    data = data.set_column(6, "size", pa.array([2**31, 5]))
    assert same(data) and '"size"' in by_columns(data)[1]


def test_a_number_of_more_than_64_bits():
    info = RelationInfo("wide", (ColumnInfo("a", types.decimal(38, 0)),), stored=False)
    data = pa.table({"a": pa.array([Decimal(2**70)], pa.decimal128(38, 0))})
    with pytest.raises(TooWide, match="more than 64 bits"):
        Columnar(info, ("a",), Dictionary()).encode(data)
    assert Columnar(info, (), Dictionary()).encode(data).rows == 1


def test_headers_are_refused_as_for_rows():
    for data in (
        table([ROW]).drop_columns(["note"]),
        table([ROW]).append_column("prize", pa.array([1])),
        pa.table({"id": [1], "ID": [2]}),
    ):
        assert same(data) and by_columns(data)[0] is DataError


def test_what_is_not_whole_columns_is_left_to_the_rows():
    for data in ([ROW], [dict(zip(EVERY, ROW, strict=True))], iter([ROW]), 7, None, pa.table({"id": [7]})):
        assert by_columns(data) is None


# --- pandas and streams


def frame(**changed):
    columns = {
        "id": [1, 2],
        "day": pandas.to_datetime(["2024-01-31", None]),
        "price": [9.5, 1.25],
        "ratio": [math.nan, -0.0],
        "note": ["x", None],
        "at": pandas.to_datetime(["2024-01-31 10:00", None]),
        "size": [math.nan, 3.0],
        "paid": [True, False],
    }
    return pandas.DataFrame({**columns, **changed})


FRAMES = {
    "numpy": {},
    "objects": {
        "price": pandas.Series([Decimal("1.5"), 2], dtype=object),
        "note": pandas.Series(["a", None], dtype=object),
    },
    "masked": {
        "size": pandas.array([None, 5], "Int64"),
        "ratio": pandas.array([None, 0.5], "Float64"),
        "paid": pandas.array([None, True], "boolean"),
        "note": pandas.array(["a", None], "string"),
    },
    "arrow": {
        "id": pandas.array([1, 2], pandas.ArrowDtype(pa.int32())),
        "note": pandas.array(["a", None], pandas.ArrowDtype(pa.string())),
        "price": pandas.array([Decimal("1.50"), Decimal("2.25")], pandas.ArrowDtype(pa.decimal128(5, 2))),
        "ratio": pandas.array([0.5, None], pandas.ArrowDtype(pa.float64())),
    },
    "categories": {"note": pandas.Categorical(["a", None]), "size": pandas.Categorical([3, None])},
    "zones": {"at": pandas.to_datetime(["2024-01-31 10:00+02:00", None], utc=True).tz_convert("Europe/Berlin")},
    "nanoseconds": {"at": pandas.to_datetime(["2024-01-31 10:00:00.000000001", None])},
    "a nan as a key": {"id": [1.0, math.nan]},
    "a fraction": {"size": [1.5, 2.0]},
    "a missing flag": {"paid": pandas.Series([True, None], dtype=object)},
    "narrow floats": {"ratio": np.array([0.5, math.nan], np.float32), "price": np.array([0.5, 0.25], np.float32)},
}


@pytest.mark.parametrize("changed", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("used", [EVERY, ("price",)], ids=["all used", "one used"])
def test_pandas(changed, used):
    data = frame(**changed)
    assert same(data, used)


class Stream:
    """What hands its data over once."""

    def __init__(self, data):
        self._reader = data.to_reader()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._reader.__arrow_c_stream__(requested_schema)


def test_streams():
    assert by_columns(held(Stream(table([ROW, ROW])))) == [ROW, ROW]
    broken = table([ROW, ROW]).set_column(0, "id", pa.array([1, None]))
    assert by_columns(held(Stream(broken))) == by_rows(broken)
    assert held([ROW]) == [ROW]


def test_no_rows():
    for data in (table([]), table([]).to_batches(), frame()[:0]):
        if isinstance(data, list):
            data = pa.RecordBatch.from_pylist([], table([]).schema)
        assert by_columns(data) == []
