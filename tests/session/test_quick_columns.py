"""Whole columns take a quick way into a compiled mill. It does, and says, what the general way does."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewmill
from viewmill.errors import ViewmillError

SQL = """
CREATE TABLE fed (k INT NOT NULL, a DECIMAL(6, 2), b STRING, c TIMESTAMP, d BIGINT) WITH (stored = false);
CREATE STREAM flow (k INT NOT NULL, b STRING NOT NULL);
CREATE TABLE kept (k INT PRIMARY KEY, b STRING);
CREATE MATERIALIZED VIEW v AS SELECT k, b, count(*) AS n, sum(a) AS s, max(c) AS m, sum(d) AS t FROM fed GROUP BY k, b;
CREATE MATERIALIZED VIEW w AS SELECT fed.b, count(*) AS n, sum(10 div fed.k) AS x
    FROM fed JOIN flow ON fed.b = flow.b GROUP BY fed.b;
CREATE MATERIALIZED VIEW x AS SELECT b, count(*) AS n FROM kept GROUP BY b
"""
FED = pa.schema(
    [("k", pa.int32()), ("a", pa.decimal128(6, 2)), ("b", pa.string()), ("c", pa.timestamp("us")), ("d", pa.int64())]
)
TEXTS = st.sampled_from(["", "x", "naïve", "a text of more than sixteen bytes"])
ROWS = {
    "fed": st.tuples(
        st.sampled_from([1, 2, 3, 0]),
        st.none() | st.sampled_from([Decimal("1.50"), Decimal("-9999.99")]),
        st.none() | TEXTS,
        st.none() | st.datetimes(),
        st.none() | st.sampled_from([1, -(2**63), 2**62]),
    ),
    "flow": st.tuples(st.none() | st.sampled_from([1, 2]), TEXTS),
    "kept": st.tuples(st.integers(0, 9), TEXTS),
}
SCHEMAS = {
    "fed": FED,
    "flow": pa.schema([("k", pa.int32()), ("b", pa.large_string())]),
    "kept": pa.schema([("k", pa.int64()), ("b", pa.string())]),
}


def columns(name: str, rows: list) -> pa.RecordBatch:
    schema = SCHEMAS[name]
    arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(schema.types)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@st.composite
def changes(draw):
    name = draw(st.sampled_from(["fed", "fed", "fed", "flow", "kept"]))
    batch = columns(name, draw(st.lists(ROWS[name], max_size=6)))
    batch = batch.slice(draw(st.integers(0, min(2, len(batch)))))
    data = draw(st.sampled_from([batch, pa.table(batch), pa.Table.from_batches([batch, batch])]))
    return draw(st.sampled_from(["insert", "insert", "delete", "update"])), name, data


def new_mill() -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(SQL)
    mill.insert("kept", [(100, "z")])
    return mill


def outcome(change):
    try:
        change()
    except ViewmillError as error:
        return error.message
    return None


@settings(max_examples=60)
@given(st.lists(changes(), max_size=12))
def test_both_ways_agree(changes):
    quick, general = new_mill(), new_mill()
    for verb, name, data in changes:

        def in_a_batch(verb=verb, name=name, data=data):
            with general.batch() as batch:
                getattr(batch, verb)(name, data)

        assert outcome(partial(getattr(quick, verb), name, data)) == outcome(in_a_batch)
    for name in ("v", "w", "x"):
        assert repr(sorted(quick.view(name), key=repr)) == repr(sorted(general.view(name), key=repr))
    assert quick.version == general.version


def test_the_quick_way_is_taken(executor):
    mill = new_mill()
    if executor == "interpreted":
        assert not mill._quick  # nothing is compiled
        return
    fed, flow = mill._quick["fed"], mill._quick["flow"]
    rows = columns("fed", [(1, Decimal("1.50"), "x", None, 7)] * 3)
    assert fed(rows, 1) and fed(pa.table(rows), 1) and fed(rows, -1)
    assert not fed(rows, 0)
    assert list(mill.view("v")) == [(1, "x", 3, Decimal("4.50"), None, 21)]
    assert flow(columns("flow", [(1, "x")]), 1)
    assert not flow(columns("flow", [(1, "x")]), -1)  # a stream only grows
    assert not flow(columns("flow", [(None, "x")]), 1)
    assert not fed(columns("fed", [(0, None, "x", None, None)]), 1)  # a division by zero
    assert not fed(columns("fed", [(1, None, None, None, -(2**63))]), 1)  # NULL, inside the engine
    assert not mill._quick["kept"](columns("kept", [(1, "x")]), 1)  # rows are kept as Python has them
    assert mill.version == 5
    assert list(mill.view("w")) == [("x", 3, 30)]


def test_a_batch_that_makes_a_view_fail_is_refused_whole():
    mill = new_mill()
    mill.insert("fed", columns("fed", [(1, Decimal("1.50"), "x", None, 7)]))
    mill.insert("flow", columns("flow", [(1, "x")]))
    before = [list(mill.view(name)) for name in ("v", "w")]
    with pytest.raises(ViewmillError, match="zero"):
        mill.insert("fed", columns("fed", [(5, None, "x", None, 7), (0, None, "x", None, 7)]))
    assert [list(mill.view(name)) for name in ("v", "w")] == before


def test_more_texts_than_a_dictionary_has_room_for():
    mill, texts = new_mill(), [f"text {i} of many" for i in range(20_000)]
    rows = [(1, None, text, None, None) for text in texts]
    mill.insert("fed", columns("fed", rows))
    mill.insert("fed", columns("fed", rows).slice(5_000))
    assert dict(row[1:3] for row in mill.view("v")) == {text: 1 + (i >= 5_000) for i, text in enumerate(texts)}


def test_texts_that_are_none():
    """Arrow does not look whether texts are UTF-8."""
    mill = new_mill()
    offsets, data = pa.py_buffer(np.array([0, 1, 2], np.int64)), pa.py_buffer(b"x\xff")
    texts = pa.Array.from_buffers(pa.large_string(), 2, [None, offsets, data])
    flow = pa.RecordBatch.from_arrays([pa.array([1, 1], pa.int32()), texts], names=["k", "b"])
    with pytest.raises(ViewmillError, match="UTF-8|utf-8"):
        mill.insert("flow", flow)
    mill.insert("flow", columns("flow", [(1, "x")]))
    mill.insert("fed", columns("fed", [(1, None, "x", None, None)]))
    assert list(mill.view("w")) == [("x", 1, 10)]
