"""A row is in the same bucket, whoever asks: Spark, Arrow columns, or Python values."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from viewmill.algebra.functions import EXACT
from viewmill.arrow import arrow_type
from viewmill.engines.spark.columns import spark_type
from viewmill.engines.spark.hash import bucket_array, bucket_column, bucket_keys, bucket_of, key_column
from viewmill.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)

MONEY, WIDE, FINE = decimal(15, 2), decimal(38, 4), decimal(38, 30)
VALUES: dict[Type, list[object]] = {
    BOOLEAN: [True, False, None],
    TINYINT: [0, 1, -1, 127, -128, None],
    SMALLINT: [0, 300, -32768, 32767, None],
    INT: [0, 1, -1, 2**31 - 1, -(2**31), None],
    BIGINT: [0, 1, -1, 2**63 - 1, -(2**63), 10**12, None],
    DATE: [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), None],
    TIMESTAMP: [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 1, 2, 3), None],
    FLOAT: [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, None],
    DOUBLE: [0.0, -0.0, 0.1, 1e300, 5e-324, math.inf, -math.inf, math.nan, None],
    MONEY: [Decimal("0.00"), Decimal("1.10"), Decimal("-1.10"), Decimal("9999999999999.99"), None],
    WIDE: [Decimal("1.1000"), Decimal("1" + "0" * 33 + ".0001"), Decimal("-9007199254740993.0001"), None],
    FINE: [Decimal("1.1" + "0" * 29), Decimal("1e-30"), None],
    STRING: ["", "a", "ab", "naïve", "日本語", "😀", "x" * 300, "a\x00b", None],
    BINARY: [b"", b"\x00", b"\xff\xfe", bytes(range(256)), None],
}
TYPES = list(VALUES)


def in_spark(session, rows: list[tuple[object, ...]], types: list[Type], buckets: int) -> list[int]:
    columns = [pa.array([row[i] for row in rows], arrow_type(type_)) for i, type_ in enumerate(types)]
    columns = [c.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(c.type) else c for c in columns]
    names = [f"c{i}" for i in range(len(types))]
    frame = session.createDataFrame(pa.table([*columns, pa.array(range(len(rows)))], [*names, "place"]))
    frame = frame.select(
        "place", bucket_column([(F.col(n).cast(spark_type(t)), t) for n, t in zip(names, types, strict=True)], buckets)
    )
    return [row[1] for row in sorted(frame.collect())]


def in_arrow(rows: list[tuple[object, ...]], types: list[Type], buckets: int) -> list[int]:
    columns = [pa.array([row[i] for row in rows], arrow_type(type_)) for i, type_ in enumerate(types)]
    return bucket_array(columns, buckets, len(rows)).tolist()


def one_type_values(type_: Type) -> st.SearchStrategy[object]:
    match type_.name:
        case "tinyint" | "smallint" | "int" | "bigint":
            bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[type_.name]
            plain = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        case "decimal":
            top = 10**type_.precision - 1
            plain = st.integers(-top, top).map(lambda n: EXACT.scaleb(Decimal(n), -type_.scale))
        case "double" | "float":
            plain = st.floats(width=32 if type_.name == "float" else 64)
        case "string":
            plain = st.text(st.characters(exclude_categories=["Cs"]))
        case "binary":
            plain = st.binary()
        case "boolean":
            plain = st.booleans()
        case "date":
            plain = st.dates()
        case _:
            plain = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
    return plain | st.sampled_from(VALUES[type_])


@st.composite
def typed_rows(draw):
    types = draw(st.lists(st.sampled_from(TYPES), min_size=0, max_size=3))
    rows = draw(st.lists(st.tuples(*map(one_type_values, types)), max_size=12))
    return types, rows, draw(st.integers(1, 9))


@given(typed_rows())
def test_arrow_and_python_agree(case):
    types, rows, buckets = case
    assert in_arrow(rows, types, buckets) == [bucket_of(row, buckets) for row in rows]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_spark_agrees_on_every_type(session, type_):
    rows = [(value,) for value in VALUES[type_]]
    assert in_spark(session, rows, [type_], 1009) == [bucket_of(row, 1009) for row in rows]


@pytest.mark.parametrize("seed", range(3))
def test_spark_agrees_on_rows(session, seed):
    random = np.random.default_rng(seed)
    rows = [tuple(VALUES[t][random.integers(len(VALUES[t]))] for t in TYPES) for _ in range(200)]
    assert in_spark(session, rows, TYPES, 997) == [bucket_of(row, 997) for row in rows] == in_arrow(rows, TYPES, 997)


def test_a_function_that_never_changes():
    """State is found by it."""
    rows = [(1,), (-1,), (None,), ("a",), (Decimal("1.10"),), (date(2024, 1, 31), 7), ()]
    assert [bucket_of(row, 1000) for row in rows] == [669, 993, 42, 829, 544, 807, 42]


def test_slices_and_chunks():
    whole = pa.array(["a", "bc", None, "def", "", "g"] * 3)
    expected = bucket_array([whole], 8, len(whole))
    assert (bucket_array([whole.slice(4, 9)], 8, 9) == expected[4:13]).all()
    numbers = pa.array([Decimal("1.5"), None, Decimal("-2.25")] * 4, pa.decimal128(12, 2))
    assert (bucket_array([numbers.slice(2, 5)], 8, 5) == bucket_array([numbers], 8, 12)[2:7]).all()
    chunked = pa.chunked_array([whole.slice(0, 5), whole.slice(5)])
    assert (bucket_array([chunked], 8, len(whole)) == expected).all()


def test_equal_decimals_meet_whatever_their_scale():
    assert len({bucket_of((Decimal(text),), 10**6) for text in ("1.1", "1.10", "1.1000000")}) == 1


@pytest.mark.parametrize("step", [1, 4, 32, 1000])
def test_rows_are_spread(step):
    counts = Counter(bucket_array([pa.array(np.arange(0, 20_000 * step, step))], 16, 20_000).tolist())
    assert len(counts) == 16
    assert max(counts.values()) < 1.25 * 20_000 / 16


@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 7, 64, 200])
def test_keys_put_one_bucket_in_each_partition(session, buckets):
    keys = session.createDataFrame([(b,) for b in range(buckets)], "b int")
    keys = keys.select("b", key_column(F.col("b"), buckets).alias("key"))
    placed = keys.repartition(buckets, "key").select("b", "key", F.spark_partition_id()).collect()
    assert sorted((row[0], row[2]) for row in placed) == [(b, b) for b in range(buckets)]
    assert [row[1] for row in sorted(placed)] == list(bucket_keys(buckets))
