"""Order-book queries in the spirit of DBToaster's finance workload, against DuckDB.

Their nested sums are compared by inequality (VWAP, imbalance, missed trades), so one order moves a threshold that
many others depend on. Bids have a key and asks have none; brokers, volumes and prices may be missing. The same book
is kept in exact numbers and in doubles.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from follow import STRATEGIES, WAYS, Story, failures, tell, ways
from oracle import questions_of
from workload import Batch, Churn, Database, Field, Table, small_table

QUERIES = Path(__file__).parents[1] / "fixtures" / "orderbook" / "queries.txt"
VOLUMES = (1, 2, 3, 5, 8, 10)
PRICES = ("9.50", "9.75", "10.00", "10.25", "11.00", "12.50", "14.00")


def book(kind: str) -> tuple[Table, ...]:
    match kind:
        case "exact":
            volume = Field("volume", "int", VOLUMES)
            price = Field("price", "decimal(10,2)", tuple(Decimal(price) for price in PRICES))
        case "doubles":
            volume = Field("volume", "double", tuple(float(volume) for volume in VOLUMES))
            price = Field("price", "double", tuple(float(price) for price in PRICES))
    time, broker = Field("t", "int", tuple(range(8))), Field("broker_id", "int", (1, 2, 3, 4))
    return (
        small_table("bids", time, Field("id", "int", tuple(range(30)), "primary key"), broker, volume, price),
        small_table("asks", time, Field("id", "int", tuple(range(6))), broker, volume, price),
    )


@cache
def story(kind: str) -> Story:
    return tell(book(kind), questions_of(QUERIES), steps(book(kind)))


def steps(tables: tuple[Table, ...]) -> Iterator[tuple[Batch, Database]]:
    churn = Churn(tables, seed=10)
    yield churn.start(rows=12), churn.snapshot()
    for _ in range(10):
        yield churn.step(), churn.snapshot()
    yield churn.clear(), churn.snapshot()
    yield churn.start(rows=6), churn.snapshot()


@pytest.mark.parametrize(WAYS, ways(*STRATEGIES), indirect=["executor"])
@pytest.mark.parametrize("kind", ["exact", "doubles"])
def test_views_follow_their_queries(kind: str, executor: str, strategy: str) -> None:
    wrong = failures(story(kind), strategy)
    assert not wrong, "\n\n".join(wrong)
