"""Integers that leave their type: the batch is rejected and nothing changes."""

from __future__ import annotations

import pytest
from follow import STRATEGIES
from oracle import difference, rows_of

import viewmill
from viewmill.errors import DataError

pytestmark = pytest.mark.usefixtures("executor")

QUERIES = {
    "an output": "select a * 1000000000 as x from r",
    "a group key": "select a * 1000000000 as x, count(*) as n from r group by a * 1000000000",
    "a comparison": "select a from r where a * 1000000000 > b",
    "a join": "select r.a from r join s on r.a * 1000000000 = s.c",
    "a result of sums": "select sum(a) * 5000000000000000000 as x from r",
    "a minimum": "select min(a * 1000000000) as x from r",
    "inside of another operation": "select a * 1000000000 - 1000000000 as x from r",
    "a negation": "select -(-715827882 * a - 2) as x from r",
    "an absolute value": "select abs(-715827882 * a - 2) as x from r",
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_overflow_rejects_the_batch(query: str, strategy: str) -> None:
    mill = viewmill.connect()
    mill.sql("CREATE TABLE r (a int, b int)")
    mill.sql("CREATE TABLE s (c int)")
    mill.sql(f"CREATE MATERIALIZED VIEW v WITH (maintain = '{strategy}') AS {query}")
    mill.insert("s", [(1,), (1_000_000_000,)])
    mill.insert("r", [(1, 1)])
    before = rows_of(mill.view("v").to_arrow())
    assert before
    with pytest.raises(DataError, match="does not fit"):
        mill.insert("r", [(0, 5), (3, 1)])
    assert not difference(rows_of(mill.view("v").to_arrow()), before)
    mill.insert("r", [(0, 5)])
    assert rows_of(mill.view("v").to_arrow())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sum_may_be_wider_than_what_is_summed(strategy: str) -> None:
    mill = viewmill.connect()
    mill.sql("CREATE TABLE r (a int, b int)")
    mill.sql(f"CREATE MATERIALIZED VIEW v WITH (maintain = '{strategy}') AS select sum(a * b) as x from r")
    mill.insert("r", [(2_000_000_000, 1), (2_000_000_000, 1)])
    assert rows_of(mill.view("v").to_arrow()) == [(4_000_000_000,)]
