"""What is packed is unpacked again, and every row goes to the bucket that is its own."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.engines.spark import message
from viewmill.engines.spark.hash import bucket_keys, bucket_of
from viewmill.engines.spark.message import DRIVER, MESSAGES, Format, letters, opened, read, route
from viewmill.errors import InternalError

SCHEMAS = {
    "d_1@a": pa.schema([("a", pa.int64()), ("s", pa.string()), ("weight_", pa.decimal128(38, 4))]),
    "d_2@b": pa.schema([("b", pa.date32()), ("f", pa.bool_())]),
    "d_3@driver": pa.schema([("x", pa.float64())]),
}
FORM = Format(SCHEMAS)
numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
decimals = st.none() | st.integers(-(10**20), 10**20).map(lambda n: Decimal(n).scaleb(-4))
ROWS = {
    "d_1@a": st.lists(st.tuples(numbers, st.none() | st.text(st.characters(exclude_categories=["Cs"])), decimals)),
    "d_2@b": st.lists(st.tuples(st.none() | st.dates(), st.none() | st.booleans())),
    "d_3@driver": st.lists(st.tuples(st.none() | st.floats(allow_nan=False))),
}


def batch(name: str, rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    schema = SCHEMAS[name]
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


some_batches = st.fixed_dictionaries({}, optional=ROWS).map(
    lambda found: {name: batch(name, rows) for name, rows in found.items()}
)


@given(some_batches)
def test_unpack_undoes_pack(batches):
    packed = FORM.pack(batches)
    assert FORM.unpack(packed) == {name: rows for name, rows in batches.items() if rows.num_rows}
    assert len(packed) % 8 == 0


@given(some_batches)
def test_slices_are_packed_alone(batches):
    halves = {name: rows.slice(rows.num_rows // 2) for name, rows in batches.items()}
    assert FORM.unpack(FORM.pack(halves)) == {name: rows for name, rows in halves.items() if rows.num_rows}


@given(ROWS["d_1@a"], st.sampled_from([("a",), ("s",), ("a", "s"), ("weight_",), ()]), st.integers(1, 5))
def test_route(rows, by, buckets):
    whole = batch("d_1@a", rows)
    routed = route(whole, by, buckets)
    places = [SCHEMAS["d_1@a"].get_field_index(name) for name in by]
    expected: dict[int, list[tuple[object, ...]]] = {}
    for row in rows:
        expected.setdefault(bucket_of([row[place] for place in places], buckets), []).append(row)
    assert {bucket: [tuple(row.values()) for row in part.to_pylist()] for bucket, part in routed.items()} == expected


def test_letters_are_read_in_the_order_of_who_wrote_them():
    first, second = batch("d_2@b", [(None, True)]), batch("d_2@b", [(None, False)])
    to_driver = {"d_3@driver": batch("d_3@driver", [(1.5,)])}
    sent = [letters(FORM, 3, {1: {"d_2@b": second}}, to_driver, 4), letters(FORM, 0, {1: {"d_2@b": first}}, {}, 4)]
    table = pa.concat_tables(sent)
    assert table.schema == MESSAGES
    assert sorted(zip(*(table.column(i).to_pylist() for i in range(3)), strict=True)) == sorted(
        [(bucket_keys(4)[1], 1, 3), (bucket_keys(4)[3], DRIVER, 3), (bucket_keys(4)[1], 1, 0)]
    )
    mail = opened(FORM, table)
    assert mail.batches == {"d_2@b": batch("d_2@b", [(None, True), (None, False)])}
    assert read(FORM, mail.passed_on) == to_driver


def test_nothing_to_say_is_not_said():
    table = letters(FORM, 2, {0: {"d_2@b": batch("d_2@b", [])}}, {}, 4)
    assert table.num_rows == 0
    assert opened(FORM, table).batches == {}


def test_other_columns_are_refused():
    with pytest.raises(InternalError, match="nobody expects other"):
        FORM.pack({"other": batch("d_2@b", [])})
    with pytest.raises(InternalError, match=r"d_3@driver travels as \(x int64\), not as \(x double\)"):
        FORM.pack({"d_3@driver": pa.RecordBatch.from_pydict({"x": [1]})})


@given(some_batches, st.integers(1, 200))
def test_large_messages_travel_in_pieces(batches, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message, "LARGEST", most)
        mail = letters(FORM, 1, {0: batches, 1: batches}, batches, 3)
    there = {name: rows for name, rows in batches.items() if rows.num_rows}
    for target in (0, 1, DRIVER):
        mine = mail.filter(pc.equal(mail.column("target"), target))
        shuffled = mine.take(pa.array(range(mine.num_rows)[::-1], pa.int64()))
        assert read(FORM, shuffled) == there


def test_no_piece_is_much_larger_than_it_may_be(monkeypatch):
    monkeypatch.setattr(message, "LARGEST", 1000)
    many = {"d_3@driver": batch("d_3@driver", [(float(i),) for i in range(1000)])}
    sizes = [len(data) for data in letters(FORM, 0, {}, many, 1).column("data").to_pylist()]
    assert len(sizes) == 8 and max(sizes) < 1500
