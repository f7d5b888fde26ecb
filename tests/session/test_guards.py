"""Errors come from the state a batch ends in, for the rows SQL would look at, and from nowhere else."""

from __future__ import annotations

import pytest

import viewmill

STRATEGIES = ("recursive", "first_order", "reevaluate", "auto")


def mill_with(*statements):
    mill = viewmill.connect()
    for statement in statements:
        mill.sql(statement)
    return mill


def rows(mill, view="v"):
    return sorted(mill.view(view), key=repr)


@pytest.mark.parametrize("maintain", STRATEGIES)
def test_a_subquery_may_have_two_rows_on_the_way(maintain):
    """While relations take their batches one by one, s has two rows for a row of r that the same batch removes."""
    mill = mill_with("create table r (a int, b int)", "create table s (b int, c int)")
    mill.sql(
        f"create materialized view v with (maintain = '{maintain}') as "
        "select a, (select c from s where s.b = r.b) as x from r"
    )
    mill.insert("r", [(1, 1), (2, 2)])
    mill.insert("s", [(1, 6)])
    seen = []
    mill.view("v").subscribe(seen.append)
    with mill.batch() as batch:
        batch.insert("s", [(1, 7)])
        batch.delete("r", [(1, 1)])
    assert rows(mill) == [(2, None)]
    assert len(seen) == 1 and [tuple(row) for row in seen[0].removed] == [(1, 6)]
    mill.insert("r", [(3, 3)])
    assert rows(mill) == [(2, None), (3, None)]
    with pytest.raises(viewmill.DataError, match="more than one row"):
        mill.insert("r", [(1, 1)])
    assert rows(mill) == [(2, None), (3, None)]


@pytest.mark.parametrize("maintain", STRATEGIES)
@pytest.mark.parametrize(
    "query",
    [
        "select sum(cast(q.a as int)) as x from q, n where q.k = n.k and n.ok",
        "select sum(cast(q.a as int)) as x from q, n where q.k = n.k and n.k = 1",
        "select sum(cast(a as int)) as x from q where k = 1",
        "select sum(x) as x from (select cast(q.a as int) as x, n.ok from q join n on q.k = n.k where n.ok) d",
    ],
)
def test_values_are_computed_for_rows_that_pass(maintain, query):
    mill = mill_with("create table q (k int, a string)", "create table n (k int, ok boolean)")
    mill.sql(f"create materialized view v with (maintain = '{maintain}') as {query}")
    with mill.batch() as batch:
        batch.insert("q", [(1, "5"), (2, "no number")])
        batch.insert("n", [(1, True), (2, False)])
    assert rows(mill) == [(5,)]
    mill.insert("q", [(1, "7"), (3, "nor this")])
    assert rows(mill) == [(12,)]


@pytest.mark.parametrize("maintain", STRATEGIES)
def test_a_disjunction_guards_its_later_branches(maintain):
    mill = mill_with("create table r (a int, b int)", "create table s (b int, c int)")
    mill.sql(
        f"create materialized view v with (maintain = '{maintain}') as "
        "select a from r, s where r.b = s.b and (s.c = 0 or r.a / s.c > 1)"
    )
    mill.insert("s", [(1, 0), (2, 2)])
    mill.insert("r", [(4, 1), (5, 2), (1, 2)])
    assert rows(mill) == [(4,), (5,)]


@pytest.mark.parametrize("maintain", STRATEGIES)
def test_nan_is_one_group(maintain):
    mill = mill_with("create table x (k int, f double)")
    mill.sql(
        f"create materialized view v with (maintain = '{maintain}') as "
        "select k, f * 0 as z, count(*) as n from x group by k, f * 0"
    )
    mill.insert("x", [(1, float("inf")), (1, float("inf"))])
    mill.delete("x", [(1, float("inf"))])
    ((k, z, n),) = mill.view("v")
    assert (k, n) == (1, 1) and z != z


def test_nested_too_deeply_is_refused():
    mill = mill_with("create table r (a int)")
    with pytest.raises(viewmill.UnsupportedError, match="nested too deeply"):
        mill.sql("create materialized view v as select " + "(" * 400 + "a" + ")" * 400 + " as x from r")
    assert mill.views == ()


def test_a_store_that_another_view_re_evaluates_is_not_forced_on_this_one():
    mill = mill_with("create table r (a int, b int)")
    query = "select b, count(*) as n from r where a > 0 group by b"
    mill.sql(f"create materialized view slow with (maintain = 'reevaluate') as {query}")
    mill.sql(f"create materialized view v with (maintain = 'incremental') as {query}")
    mill.insert("r", [(1, 1), (2, 1), (0, 2)])
    assert rows(mill) == rows(mill, "slow") == [(1, 2)]
    how = {view.name: {m.how for m in view.maintenance} for view in mill.status().views}
    assert how == {"slow": {"reevaluate"}, "v": {"recursive"}}
