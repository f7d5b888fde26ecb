"""What has room in a type is never an error there, and what may be one is said to."""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viewmill
from viewmill.algebra.functions import cast, evaluate_scalar
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.engines.local import engine, layout, run
from viewmill.engines.local.magnitudes import fits, sum_of_many
from viewmill.errors import DataError
from viewmill.types import BIGINT, INT, TINYINT, Type, decimal

TYPES = {"total": decimal(38, 2), "price": decimal(12, 2), "count": BIGINT, "number": INT}


@pytest.mark.parametrize(
    ("scalar", "target", "room"),
    [
        (Var("total"), decimal(36, 2), True),  # a word of cents
        (Var("total"), decimal(18, 2), False),
        (Var("price"), decimal(16, 6), True),
        (Var("price"), decimal(15, 6), False),
        (Var("count"), INT, False),
        (Call("+", (Var("number"), Const(1))), BIGINT, True),
        (Call("+", (Var("number"), Const(1))), INT, False),
        (Call("*", (Var("total"), Const(Decimal("0.0001")))), decimal(38, 6), True),
        (Call("*", (Var("price"), Var("price"))), decimal(24, 4), True),
        (Call("*", (Var("price"), Var("price"))), decimal(23, 4), False),
        (Call("/", (Var("price"), Const(7))), decimal(16, 6), True),
        (Call("/", (Var("price"), Const(0))), decimal(38, 6), False),
        (Var("number"), INT, True),
        (Call("neg", (Var("number"),)), INT, False),  # of the least there is no other
        (Call("-", (Const(-1), Var("number"))), INT, True),
        (Call("abs", (Var("number"),)), INT, False),
        (Call("*", (Cast(Var("count"), TINYINT), Const(-1))), TINYINT, False),
        (Call("/", (Var("price"), Var("count"))), decimal(38, 6), False),
        (Call("mean", (Var("total"), Var("count"))), decimal(16, 6), True),
        (Call("case", (Const(True), Var("price"), Const(None))), decimal(12, 2), True),
        (Call("case", (Const(True), Var("price"), Var("total"))), decimal(12, 2), False),
        (Var("price"), decimal(11, 1), False),  # 9999999999.95 is rounded up
    ],
    ids=str,
)
def test_what_has_room(scalar: Scalar, target: Type, room: bool):
    assert fits(scalar, target, TYPES, {}) is room


def test_a_sum_of_many_records_may_be_anything():
    assert not fits(Var("total"), decimal(36, 2), TYPES, {"total": None})
    assert not fits(Call("*", (Var("total"), Const(2))), decimal(38, 2), TYPES, {"total": None})


def _scalars() -> st.SearchStrategy[Scalar]:
    numbers = st.sampled_from([0, 1, 7, -3, Decimal("0.05"), Decimal("-12.5"), 10**9])
    leaves = st.sampled_from([Var(name) for name in TYPES]) | numbers.map(Const)
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(lambda op, a, b: Call(op, (a, b)), st.sampled_from("+-*"), inner, inner)
            | st.builds(lambda a, b: Call("/", (a, Const(b))), inner, numbers.filter(bool))
            | st.builds(lambda a: Call("neg", (a,)), inner)
            | st.builds(Cast, inner, st.sampled_from([decimal(38, 4), decimal(9, 3), BIGINT, INT]))
        ),
        max_leaves=5,
    )


WORDS = {
    "total": st.sampled_from([2**63 - 1, 1 - 2**63, 0, 12345]).map(lambda n: Decimal(n).scaleb(-2)),
    "price": st.sampled_from([10**12 - 1, 1 - 10**12, 0, 199]).map(lambda n: Decimal(n).scaleb(-2)),
    "count": st.sampled_from([2**63 - 1, 1 - 2**63, 0, 5]),
    "number": st.sampled_from([2**31 - 1, -(2**31), 0, 5]),
}


TARGETS = st.sampled_from([BIGINT, INT, TINYINT]) | st.builds(
    lambda precision, scale: decimal(max(precision, scale), scale), st.integers(1, 38), st.integers(0, 10)
)


@given(_scalars(), st.fixed_dictionaries(WORDS), TARGETS)
def test_it_is_no_error(scalar: Scalar, row: dict[str, object], target: Type):
    if fits(scalar, target, TYPES, {}):
        try:
            value = evaluate_scalar(scalar, row)
        except DataError:
            return  # a cast within it
        cast(value, target)


def _compiled(view: str) -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(f"CREATE TABLE t (k INT, a DECIMAL(12,2) NOT NULL, b DECIMAL(9,2)); CREATE MATERIALIZED VIEW v AS {view}")
    mill.insert("t", [(i % 7, i, i + 1) for i in range(2000)])
    assert mill._engine.is_compiled
    return mill


@pytest.mark.parametrize(
    ("view", "doubted"),
    [
        ("SELECT k, avg(a) AS x FROM t GROUP BY k", False),
        ("SELECT avg(b) AS x FROM t", False),
        ("SELECT avg(k) AS x FROM t", False),
        ("SELECT k, sum(a) * 0.0001 AS x FROM t GROUP BY k", False),
        ("SELECT sum(a) / 7 AS x FROM t", False),
        ("SELECT sum(a) / sum(b) AS x FROM t", True),
        ("SELECT k, CAST(sum(a) AS DECIMAL(14,2)) AS x FROM t GROUP BY k", True),
        ("SELECT sum(k) + sum(k) AS x FROM t", True),
        ("SELECT k, -min(k) AS x FROM t GROUP BY k", True),
        ("SELECT sum(x.a) * 1.5 AS x FROM t x CROSS JOIN t y", True),
    ],
)
def test_views_that_a_batch_is_checked_for(view: str, doubted: bool):
    assert bool(_compiled(view)._engine._fast.fallible) is doubted


ABOVE = "SELECT k, sum(cast(a AS DECIMAL(15,2))) AS s, count(*) AS n FROM t WHERE a > (SELECT avg(a) FROM t) GROUP BY k"


@pytest.mark.parametrize(
    ("view", "doubted"),
    [
        (ABOVE, False),
        (ABOVE.replace("DECIMAL(15,2)", "DECIMAL(13,2)"), True),
        (ABOVE.replace(" AS s", " * sum(b) AS s"), True),
    ],
)
def test_sums_over_ranges_are_checked_if_there_are_very_many_records(view: str, doubted: bool, monkeypatch):
    mill = _compiled(view)
    assert bool(mill._engine._fast.fallible) is doubted
    monkeypatch.setattr(run, "MANY", 1999)
    assert mill._engine._fast.fallible == {"v"}


@pytest.mark.parametrize(("many", "looked_at"), [(1, True), (2**20, False)])
def test_views_that_fail_only_if_stores_are_large_are_looked_at_then(many, looked_at, monkeypatch):
    monkeypatch.setattr(run, "MANY", many)
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (k INT, a DECIMAL(12,2) NOT NULL) WITH (stored = false)")
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT k, sum(cast(a AS DECIMAL(15,2))) AS s FROM t "
        "WHERE a > (SELECT avg(a) FROM t) GROUP BY k"
    )
    mill.insert("t", [(i % 7, i) for i in range(2000)])
    engine = mill._engine._fast
    assert engine._fallible.if_large == {"v"}
    for data in ([(1, Decimal("9.00"))], pa.table({"k": [1], "a": pa.array([Decimal("9.00")], pa.decimal128(12, 2))})):
        assert mill._quick["t"](data, 1)
        rows = engine._watch("v").out.arrays.block
        assert bool(rows[layout.EMITTED]) is looked_at
        rows[layout.EMITTED] = 0
    assert mill._quick["t"]([(1, Decimal("9.00"))], -1)


def test_how_large_a_sum_of_words_is():
    most = sum_of_many(decimal(12, 2))
    assert most is not None and most.high == -most.low == Fraction(2**63 * 2**20, 100) < 10**23
    assert not fits(Var("total"), decimal(24, 2), TYPES, {"total": most})
    assert fits(Var("total"), decimal(25, 2), TYPES, {"total": most})


def test_a_view_that_needs_more_than_64_bits_is_read_right():
    mill = _compiled("SELECT avg(a) AS x, sum(a) * 0.0001 AS y, count(*) AS n FROM t WHERE k = 1")
    for place in range(10):
        mill.insert("t", [(1, "9999999999.99", 1)] * 2000)
        assert mill._engine.is_compiled
        (row,) = mill.view("v")
        (again,) = mill.sql("SELECT avg(a) AS x, sum(a) * 0.0001 AS y, count(*) AS n FROM t WHERE k = 1")
        assert tuple(row) == tuple(again)
        assert row[2] > 2000 * place


REFUSED = [
    ("SELECT k, -min(i) AS x FROM t GROUP BY k", {"t": [(1, -(2**31), 0, 0)]}),
    ("SELECT k, abs(min(i)) AS x FROM t GROUP BY k", {"t": [(1, -(2**31), 0, 0)]}),
    ("SELECT cast(sum(x.a) * 1.5 AS DECIMAL(20,2)) AS s FROM t x CROSS JOIN u y", {"u": [(5,)] * 200}),
    ("SELECT cast(sum(x.a) AS DECIMAL(20,2)) AS s FROM t x CROSS JOIN u y", {"u": [(5,)] * 200}),
    ("SELECT sum(x.l) AS s FROM t x CROSS JOIN u y", {"u": [(5,)] * 3}),
    ("SELECT y.w, sum(x.l) AS s FROM t x CROSS JOIN u y GROUP BY y.w", {"u": [(5,)] * 3}),
    ("SELECT k, cast(a AS DECIMAL(17,1)) AS x FROM t", {"t": [(2, 1, "9999999999999999.99", 0)]}),
    ("SELECT k, cast(max(a) AS DECIMAL(17,1)) AS x FROM t GROUP BY k", {"t": [(2, 1, "9999999999999999.99", 0)]}),
    ("SELECT count(*) AS n FROM t WHERE cast(a AS DECIMAL(17,1)) > 0", {"t": [(2, 1, "9999999999999999.99", 0)]}),
]


@pytest.mark.parametrize("after", [-1, sys.maxsize], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(("view", "batch"), REFUSED, ids=[view for view, _ in REFUSED])
def test_a_batch_that_leaves_a_view_in_error_is_refused(view, batch, after, monkeypatch):
    monkeypatch.setattr(engine, "COMPILE_AFTER", after)
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (k INT, i INT NOT NULL, a DECIMAL(18,2) NOT NULL, l BIGINT NOT NULL)")
    mill.sql(f"CREATE TABLE u (w INT NOT NULL); CREATE MATERIALIZED VIEW v AS {view}")
    mill.insert("t", [(1, 1, "9000000000000000.00", 2**62 - 1)])
    mill.insert("u", [(5,)])
    before = list(mill.view("v"))
    with pytest.raises(DataError, match="does not fit"):
        for name, rows in batch.items():
            mill.insert(name, rows)
    assert list(mill.view("v")) == before
