"""Queries over ranges, thresholds and ends of groups, compiled from the first row on, against DuckDB.

Where no volume is negative, thresholds are found in ordered indexes; where some are, as in the second book, rows are
looped over as long as they are there. Keys and limits may be missing, equal, or numbers of different kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from follow import Story, failures, tell
from oracle import questions_of
from workload import Batch, Churn, Database, Field, Table, small_table

import viewmill
from viewmill.algebra.scalars import Call, Cast, Const, Var
from viewmill.engines.local import engine
from viewmill.engines.local.thresholds import assume, trend
from viewmill.types import BIGINT, decimal

pytestmark = pytest.mark.slow  # machine code is made on first use, which takes longer than the tests

QUERIES = Path(__file__).parents[1] / "fixtures" / "orderbook" / "ranges.txt"
PRICES = tuple(Decimal(price) for price in ("-1.50", "0.00", "2.00", "2.01", "2.99", "3.00", "6.00"))
VOLUMES = {"plain": (0.5, 1.0, 2.0, 8.0), "negative": (0.5, 1.0, 2.0, 8.0, -4.0)}


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "COMPILE_AFTER", -1)


def book(kind: str) -> tuple[Table, ...]:
    return (
        small_table(
            "bids",
            Field("t", "int", tuple(range(8))),
            Field("id", "int", tuple(range(30)), "primary key"),
            Field("broker", "int", (1, 2, 3)),
            Field("volume", "double", VOLUMES[kind]),
            Field("price", "decimal(10,2)", PRICES),
        ),
    )


def steps(tables: tuple[Table, ...]) -> Iterator[tuple[Batch, Database]]:
    churn = Churn(tables, seed=3)
    yield churn.start(rows=14), churn.snapshot()
    for _ in range(6):
        yield churn.step(), churn.snapshot()
    yield churn.clear(), churn.snapshot()
    yield churn.start(rows=8), churn.snapshot()


@cache
def story(kind: str) -> Story:
    return tell(book(kind), questions_of(QUERIES), steps(book(kind)))


@pytest.mark.parametrize("kind", ["plain", "negative"])
@pytest.mark.parametrize("strategy", ["recursive", "first_order"])
def test_views_follow_their_queries(kind: str, strategy: str) -> None:
    wrong = failures(story(kind), strategy)
    assert not wrong, "\n\n".join(wrong)


BIDS = "create table bids (id int primary key, broker int, t int, volume double, price decimal(10,2))"
CALLS = {
    "select count(*) from bids b where (select count(*) from bids c where c.price < b.price) < 5": "never_negative(",
    "select broker, min(price) from bids group by broker": "first_in_order(",
    "select id, (select sum(c.volume) from bids c where c.price > b.price) from bids b": "range_sum(",
    "select id, (select count(*) from bids c where c.broker = b.broker and c.t < b.t) from bids b": "range_sum(",
}


@pytest.mark.parametrize("query", CALLS)
def test_ordered_indexes_are_used(query: str) -> None:
    mill = viewmill.connect()
    mill.sql(BIDS)
    mill.sql(f"create materialized view v with (maintain = 'recursive') as {query}")
    assert CALLS[query] in mill.explain("v", stage="code")


def test_negative_weights_come_and_go() -> None:
    """While one is there, sums over wider ranges may be smaller, and no single key parts what passes from the rest."""
    mill = viewmill.connect()
    mill.sql(BIDS)
    mill.sql("""create materialized view v with (maintain = 'recursive') as
        select count(*) as orders, sum(price) as total from bids b
        where 10e0 > (select coalesce(sum(c.volume), 0e0) from bids c where c.price > b.price)""")
    assert "never_negative(" in mill.explain("v", stage="code")

    def answer() -> tuple[object, ...]:
        (row,) = mill.view("v").to_arrow().to_pylist()
        return tuple(row.values())

    mill.insert("bids", [(i, 1, i, 4.0, f"{i}.00") for i in range(1, 7)])
    assert answer() == (3, Decimal(15))  # above 4 there are 8.0, above 3 there are 12.0
    mill.insert("bids", [(9, 1, 9, -5.0, "2.50")])
    assert answer() == (3, Decimal(15))  # above 2.50 there are 16.0, above 2 only 11.0
    mill.update("bids", [(9, 1, 9, -9.0, "2.50")])
    assert answer() == (4, Decimal(17))  # above 2 there are 7.0 now, but above 1 there are 11.0
    with pytest.raises(viewmill.DataError), mill.batch() as batch:
        batch.delete("bids", [(9, 1, 9, -9.0, "2.50")])
        batch.delete("bids", [(77, 1, 9, -9.0, "2.50")])
    assert answer() == (4, Decimal(17))
    mill.delete("bids", [(9, 1, 9, -9.0, "2.50")])
    assert answer() == (3, Decimal(15))


def test_trends() -> None:
    x, n, c = Var("x"), Var("n"), Var("c")
    types = {"x": BIGINT, "n": BIGINT, "c": BIGINT}
    sums = {"x", "n"}
    quarter = Const(Decimal("0.25"))
    assert trend(Call(">", (Call("*", (quarter, c)), Cast(x, decimal(20, 2)))), sums, types) == "falling"
    assert trend(Call("<", (Call("-", (c, x)), n)), sums, types) == "rising"
    assert trend(Call("not", (Call("<=", (x, c)),)), sums, types) == "rising"
    assert trend(Call("<", (c, Const(3))), sums, types) == "same"
    assert trend(Call("<", (Call("*", (Const(-2), x)), c)), sums, types) == "rising"
    for unknown in (Call("=", (x, c)), Call("<", (Call("*", (x, c)), c)), Call("<", (Call("-", (x, n)), c))):
        assert trend(unknown, sums, types) is None
    total = Call("case", (Call("=", (n, Const(0))), Const(None), x))
    assert assume(Call(">", (c, total)), {"n": True}) == Const(None)
    assert assume(Call(">", (c, total)), {"n": False}) == Call(">", (c, x))
    assert assume(Call("coalesce", (total, Const(0))), {"n": True}) == Const(0)
