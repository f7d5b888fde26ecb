"""What leaves a bucket has the types that it is expected with, also where it is nothing but NULL."""

from __future__ import annotations

import pyarrow as pa

from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.distribute.nodes import Buckets, Send
from viewmill.engines.spark.outgoing import outgoing
from viewmill.types import BIGINT, STRING


def test_a_column_of_nulls_gets_the_type_it_travels_with() -> None:
    """The side of an outer join that found nobody: its columns are the constant NULL, of no type."""
    info = RelationInfo("r#1@a", (ColumnInfo("a", STRING), ColumnInfo("b", BIGINT), ColumnInfo("weight_", BIGINT)))
    made = pa.RecordBatch.from_pydict({"b": pa.nulls(2), "weight_": pa.array([1, -1]), "a": pa.array(["x", None])})
    sent = outgoing(Send("r#1", info, Buckets(("a",))), {"r#1": made}, {})
    assert sent is not None
    assert sent.rows.schema == pa.schema({"a": pa.string(), "b": pa.int64(), "weight_": pa.int64()})
    assert sent.rows.to_pylist() == [{"a": "x", "b": None, "weight_": 1}, {"a": None, "b": None, "weight_": -1}]
