"""A condition in Spark is true wherever the test is true; where all of it could be said, nowhere else."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from viewmill.algebra import nodes
from viewmill.algebra.functions import evaluate_scalar
from viewmill.algebra.text import parse
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.engines.spark.columns import checked, spark_type
from viewmill.engines.spark.conditions import condition
from viewmill.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, decimal

INFO = RelationInfo(
    "r",
    (
        ColumnInfo("a", BIGINT),
        ColumnInfo("i", INT),
        ColumnInfo("m", decimal(15, 2)),
        ColumnInfo("w", decimal(38, 20)),
        ColumnInfo("x", DOUBLE),
        ColumnInfo("f", FLOAT),
        ColumnInfo("s", STRING),
        ColumnInfo("d", DATE),
        ColumnInfo("t", TIMESTAMP),
        ColumnInfo("b", BOOLEAN),
    ),
)
VALUES: dict[str, list[object]] = {
    "a": [None, 0, 1, -5, 13, 2**63 - 1, -(2**63)],
    "i": [None, 0, 7, -1],
    "m": [None, Decimal("0.05"), Decimal("0.06"), Decimal("-1.00"), Decimal("9999999999999.99")],
    "w": [None, Decimal("1.00000000000000000001"), Decimal("0.05")],
    "x": [None, 0.0, -0.0, 1.5, math.nan, math.inf],
    "f": [None, 0.5, -2.0, math.nan],
    "s": [None, "", "a", "ab", "13-900", "31-1", "naïve", "日本", "a%b", "A\nb", "😀x", "13"],
    "d": [None, date(1995, 3, 15), date(1995, 12, 31), date(1, 1, 1), date(9999, 12, 31)],
    "t": [None, datetime(2024, 1, 1), datetime(2023, 12, 31, 23, 59, 59, 999999), datetime(1960, 5, 5, 1)],
    "b": [None, True, False],
}
WHOLE = [
    "{a < 5}", "{a >= -5 and a <= 13}", "{a in (1, 13)}", "{not (a in (1, 13))}", "{a <=> i}", "{a = i}", "{a is null}",
    "{not (s is null)}", "{m > 0.05}", "{m >= 0.05 and m <= 0.07}", "{m < 24}", "{m <> -1}", "{m = w}",
    "{a = 9223372036854775807}", "{cast(i as decimal(20,2)) < m}", "{cast(i as double) = x}", "{cast(i as bigint) = a}",
    "{x > 0e0}", "{x = 0e0}", "{x <= f}", "{x = x}", "{x <> 15e-1}",
    "{s = 'a'}", "{s < 'b'}", "{s like 'a%'}", "{s like '%a_b%'}", "{not (s like '%-%')}", "{s like '_x'}",
    "{s like ''}",
    "{substring(s, 1, 2) in ('13', '31')}", "{substring(s, -3, 2) = '90'}", "{substring(s, 0, 1) = 'a'}",
    "{length(s) > 2}", "{startswith(s, 'a')}", "{endswith(s, 'b')}", "{contains(s, 'ï')}",
    "{d >= date '1995-03-15'}", "{d < date '9999-12-31'}", "{year(d) = 1995}", "{quarter(d) = 4 or month(d) = 3}",
    "{day(d) = 15}", "{d < date_add(date '1995-12-01', 31)}",
    "{t < timestamp '2024-01-01 00:00:00'}", "{t = timestamp '1960-05-05 01:00:00'}",
    "{b}", "{not b}", "{b = (a > 0)}", "{b or a > 0}", "{b and not (a > 0)}", "{not (b or s = 'a')}",
    "{(s = 'a' and a > 0) or (s = 'ab' and a < 0)}",
]  # fmt: skip
PART = [
    "{a > 0 and upper(s) = 'A'}", "{a + 1 > 3 and b}", "{(a > 0 and upper(s) = 'A') or (a < 0 and a + 1 > 3)}",
    "{b and not (a > 0 and upper(s) = 'A')}",
]  # fmt: skip
NOTHING = [
    "{a + 1 > 3}", "{upper(s) = 'A'}", "{a > 0 or a + 1 > 3}", "{not (a > 0 and upper(s) = 'A')}", "{s like 'a\\%%'}",
    "{s ilike 'A%'}", "{s rlike 'a.'}", "{a = null}", "{a = x}", "{a in (1, null)}", "{a / 2 > 1}", "{year(t) = 2024}",
    "{cast(s as int) = 13}", "{cast(t as date) = date '2024-01-01'}", "{w = a}", "{s like 'a!%' escape '!'}",
]  # fmt: skip
ALL = [*WHOLE, *PART, *NOTHING]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    """Every two values of every two columns meet, in the order of the longest list."""
    length = 4 * max(map(len, VALUES.values()))
    cycles = {name: itertools.cycle(values) for name, values in VALUES.items()}
    return [{name: next(cycle) for name, cycle in cycles.items()} for _ in range(length)] + [
        {**dict.fromkeys(VALUES), name: value} for name, values in VALUES.items() for value in values
    ]


@pytest.fixture(scope="module")
def found(spark, rows) -> dict[str, list[object]]:
    """What Spark says of each condition, in a session far from UTC: a condition must not depend on the zone."""
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    schema = ", ".join(f"{c.name} {spark_type(c.type).simpleString()}" for c in INFO.columns)
    given = [tuple(_with_zone(row[c.name]) for c in INFO.columns) + (i,) for i, row in enumerate(rows)]
    frame = other.createDataFrame(given, f"{schema}, place int")
    source = checked(frame.drop("place").schema, INFO)
    known = {text: kept for text in ALL if (kept := condition(parse(text), source)) is not None}
    answer = frame.select("place", *(kept.column.alias(f"c{i}") for i, kept in enumerate(known.values()))).collect()
    columns = list(zip(*sorted(answer), strict=True))[1:]
    return {text: list(column) for text, column in zip(known, columns, strict=True)}


def _with_zone(value: object) -> object:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def expected(text: str, rows: list[dict[str, object]]) -> list[bool]:
    test = parse(text)
    assert isinstance(test, nodes.Test)
    return [evaluate_scalar(test.scalar, row) is True for row in rows]


@pytest.mark.parametrize("text", WHOLE)
def test_whole(found, rows, text):
    truth = expected(text, rows)
    assert [answer is True for answer in found[text]] == truth
    assert len(set(truth)) == 2, "a condition that all rows pass, or none, tests nothing"


@pytest.mark.parametrize("text", PART)
def test_weaker(found, rows, text):
    answers = [answer is True for answer in found[text]]
    assert all(answer for answer, truth in zip(answers, expected(text, rows), strict=True) if truth)
    assert not all(answers)


@pytest.mark.parametrize("text", NOTHING)
def test_left_out(found, text):
    assert text not in found


def test_rows_with_a_fault_pass(spark):
    info = RelationInfo("r", (ColumnInfo("a", INT, nullable=False),))
    frame = spark.createDataFrame([(None,), (1,), (9,), (2**40,)], "a bigint")
    kept = condition(parse("{a < 5}"), checked(frame.schema, info))
    assert sorted(frame.filter(kept.column).select(F.coalesce("a", F.lit(-1))).toArrow().column(0).to_pylist()) == [
        -1,
        1,
        2**40,
    ]
