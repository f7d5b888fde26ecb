"""Every container gives the same rows, and what does not fit is refused with one line that names it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal

import pandas
import pyarrow as pa
import pytest

from viewmill import types
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.errors import DataError
from viewmill.intake import given_rows, key_alone, whole_row, whole_rows

ORDERS = RelationInfo(
    "orders",
    (
        ColumnInfo("id", types.BIGINT, False),
        ColumnInfo("day", types.DATE),
        ColumnInfo("price", types.decimal(6, 2)),
        ColumnInfo("ratio", types.DOUBLE),
        ColumnInfo("note", types.STRING),
    ),
    primary_key=("id",),
)
ROW = (1, date(2024, 1, 31), Decimal("9.50"), 0.5, "x")
EMPTY = (2, None, None, None, None)


def rows(data):
    """All at once, which says the same as one by one."""
    again = list(data) if isinstance(data, Iterator) else data
    found = said(lambda: whole_rows(again, ORDERS))
    assert repr(found) == repr(said(lambda: [whole_row(given, ORDERS) for given in given_rows(again, ORDERS)]))
    if isinstance(found, DataError):
        raise found
    return found


def said(read):
    try:
        return read()
    except DataError as error:
        return error


def refused(data):
    with pytest.raises(DataError) as caught:
        rows(data)
    assert "\n" not in caught.value.message
    assert '"orders"' in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    "data",
    [
        [ROW, EMPTY],
        [list(ROW), list(EMPTY)],
        [dict(zip(ORDERS.names, ROW, strict=True)), dict(zip(ORDERS.names, EMPTY, strict=True))],
        [{name.upper(): value for name, value in zip(ORDERS.names, row, strict=True)} for row in (ROW, EMPTY)],
        pa.table({name: [ROW[i], EMPTY[i]] for i, name in enumerate(ORDERS.names)}),
        pa.table({name: [ROW[i], EMPTY[i]] for i, name in reversed(list(enumerate(ORDERS.names)))}),
        pa.RecordBatch.from_pydict({name: [ROW[i], EMPTY[i]] for i, name in enumerate(ORDERS.names)}),
        pandas.DataFrame(
            {name: pandas.Series([ROW[i], EMPTY[i]], dtype=object) for i, name in enumerate(ORDERS.names)}
        ),
    ],
    ids=["tuples", "lists", "dicts", "case", "arrow", "arrow shuffled", "record batch", "pandas"],
)
def test_every_container_gives_the_same_rows(data):
    assert rows(data) == [ROW, EMPTY]


def test_rows_may_come_one_by_one():
    assert rows(iter([ROW, EMPTY])) == [ROW, EMPTY]


def test_pandas_writes_missing_numbers_as_nan():
    frame = pandas.DataFrame(
        {
            "id": [1.0, 2.0],
            "day": pandas.to_datetime(["2024-01-31", None]),
            "price": [9.5, math.nan],
            "ratio": [0.5, math.nan],
            "note": ["x", None],
        }
    )
    first, second = rows(frame)
    assert first == ROW
    assert second[:3] == (2, None, None) and math.isnan(second[3]) and second[4] is None


def test_pandas_na_is_null_in_a_floating_column():
    frame = pandas.DataFrame([EMPTY], columns=list(ORDERS.names)).astype({"ratio": "Float64", "note": "string"})
    assert rows(frame) == [EMPTY]


def test_arrow_dictionaries_and_narrow_types():
    table = pa.table(
        {
            "id": pa.array([1], pa.int8()),
            "day": pa.array([datetime(2024, 1, 31)], pa.timestamp("ns")),
            "price": pa.array([9.5], pa.float32()),
            "ratio": pa.array([0.5], pa.float32()),
            "note": pa.array(["x"]).dictionary_encode(),
        }
    )
    assert rows(table) == [ROW]


def test_the_key_alone():
    (given,) = given_rows([{"ID": 7}], ORDERS)
    assert key_alone(given, ORDERS) == (7,)
    (given,) = given_rows(pa.table({"id": [7]}), ORDERS)
    assert key_alone(given, ORDERS) == (7,)
    assert key_alone(ROW, ORDERS) is None


def test_values_are_refused_by_name():
    assert refused([(1.5, *ROW[1:])]).startswith('1.5 is not a bigint: column "id" of table "orders", row (1.5,')
    assert 'column "price"' in refused([(1, None, Decimal("1.234"), None, None)])
    assert refused([(None, *ROW[1:])]).startswith('NULL in column "id" of table "orders", row (None,')
    assert "row {'id': 'a'," in refused([dict(zip(ORDERS.names, ("a", *ROW[1:]), strict=True))])


def test_long_rows_are_shortened():
    message = refused([(1, None, None, "bad", "y" * 5000)])
    assert "'bad' is not a double" in message and len(message) < 300


def test_widths_and_names_are_refused():
    assert refused([(1, 2)]) == 'table "orders" has 5 columns, and a row has 2 values: (1, 2)'
    assert refused([{"id": 1}]) == 'a row for table "orders" lacks columns "day", "price", "ratio", "note"'
    assert refused([{**dict.fromkeys(ORDERS.names), "prize": 1}]) == 'table "orders" has no column "prize"'
    assert refused(pa.table({"id": [1], "ID": [2]})) == 'column "id" is given twice for table "orders"'
    assert refused(pa.table({"id": [1], "day": [None]})).startswith('a row for table "orders" lacks columns "price"')
    assert refused(pandas.DataFrame({"x": []})) == 'table "orders" has no column "x"'


def test_hints_name_the_remedy():
    with pytest.raises(DataError) as caught:
        rows([{**dict.fromkeys(ORDERS.names), "prize": 1}])
    assert caught.value.hint == 'did you mean "price"?'


@pytest.mark.parametrize("data", [7, "text", {"id": 1}, None], ids=str)
def test_what_holds_no_rows_is_refused(data):
    assert refused(data).startswith('cannot read rows for table "orders" from a')


def test_what_is_no_row_is_refused():
    assert refused([7]) == '7 is no row for table "orders"'


def test_nanoseconds_are_refused():
    columns = {name: [value] for name, value in zip(ORDERS.names, ROW, strict=True)}
    columns["day"] = pa.array([1], pa.timestamp("ns"))
    assert "has nanoseconds" in refused(pa.table(columns))
