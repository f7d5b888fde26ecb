"""Rows in few bytes are the same rows again, whatever lies where a NULL is and wherever a column starts."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.engines.spark import compact
from viewmill.engines.spark.compact import Compact, compacted, restored, sent_schema

KINDS = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "day": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us"), st.datetimes()),
    "price": (pa.decimal128(15, 2), st.integers(-(10**15) + 1, 10**15 - 1).map(lambda n: Decimal(n).scaleb(-2))),
    "wide": (pa.decimal128(38, 0), st.integers(-(2**63) - 2, 2**63 + 1).map(Decimal)),
    "small": (pa.int64(), st.integers(7, 9)),
    "cents": (pa.decimal128(20, 2), st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2))),
    "name": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=3)),
    "flag": (pa.bool_(), st.booleans()),
    "rate": (pa.float64(), st.floats(allow_nan=False)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])
rows = st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in KINDS.items()}), max_size=12)


def there_and_back(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As bytes in between."""
    found = compacted(batch)
    sent = pa.ipc.read_record_batch(found.batch.serialize(), sent_schema(found.forms, batch.schema))
    return restored(Compact(found.forms, sent), batch.num_rows, batch.schema)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(compact, "_FEW", 1)


@given(rows, st.integers(0, 12), st.booleans())
def test_rows_are_the_same_again(rows, start, without_nulls):
    if without_nulls:
        rows = [row for row in rows if None not in row.values()]
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA).slice(min(start, len(rows)))
    again = there_and_back(batch)
    again.validate(full=True)
    assert again == batch and again.schema == batch.schema


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ([5, 5], 0),
        ([-(2**62), -(2**62) + 255], 1),
        ([-128, 128], 2),
        ([0, 2**16], 4),
        ([-(2**31), 2**31 - 1], 4),
        ([0, 2**32], compact.AS_IT_IS),
        ([-(2**63), 2**63 - 1], compact.AS_IT_IS),
        ([5, None], 1),
        ([None, None], 1),
    ],
)
def test_a_number_takes_the_bytes_that_it_needs(values, size):
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.int64()), pa.array(["a", "b"])], names=["x", "s"])
    forms = compacted(batch).forms.tolist()
    assert forms == [] if size == compact.AS_IT_IS else forms[0][0] == size
    assert there_and_back(batch) == batch


def test_decimals_of_a_word_travel_as_words_and_wider_ones_as_they_are():
    for values, size in (([-(2**63), 2**63 - 1], 8), ([-(2**63) - 1, 0], compact.AS_IT_IS), ([None, 2**63], -1)):
        array = pa.array([None if n is None else Decimal(n) for n in values], pa.decimal128(38, 0))
        batch = pa.RecordBatch.from_arrays([array, pa.array([1, 2])], names=["d", "x"])
        assert compacted(batch).forms[0, 0] == size
        assert there_and_back(batch) == batch


def test_what_lies_where_a_null_is_does_not_count():
    numbers = pa.Array.from_buffers(
        pa.int64(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(b"".join(n.to_bytes(8, "little") for n in (1, 2**60, 9)))]
    )
    batch = pa.RecordBatch.from_arrays([numbers], names=["x"])
    assert compacted(batch).forms.tolist() == [[1, 1]]
    assert there_and_back(batch).to_pydict() == {"x": [1, None, 9]}


def test_rows_without_columns_have_their_number():
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 5, pa.struct([])))
    assert there_and_back(batch).num_rows == 5


def test_few_rows_travel_as_they_are(monkeypatch):
    monkeypatch.setattr(compact, "_FEW", 3)
    two, three = (pa.RecordBatch.from_pydict({"x": [1, 2, 3][:count]}) for count in (2, 3))
    assert len(compacted(two).forms) == 0 and compacted(two).batch is two
    assert compacted(three).forms.tolist() == [[1, 1]]


def test_rows_of_items_take_less_than_a_third():
    count, day = 1000, datetime.date(1995, 3, 15)
    items = pa.RecordBatch.from_pydict(
        {
            "order": pa.array(range(count), pa.int64()),
            "price": pa.array([Decimal(n % 97_000).scaleb(-2) for n in range(count)], pa.decimal128(15, 2)),
            "shipped": pa.array([day + datetime.timedelta(n % 90) for n in range(count)]),
            "count": pa.array([1] * count, pa.int64()),
        }
    )
    assert compacted(items).batch.nbytes * 3 < items.nbytes
