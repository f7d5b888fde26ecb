"""Many views in one mill: stores are shared, views stand on views, and promises are kept."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import viewmill
from viewmill import UnsupportedError

TABLES = """
CREATE TABLE r (a INT, b INT);
CREATE TABLE s (b INT, c INT);
CREATE TABLE t (c INT, d INT);
"""
RST = "SELECT r.b, count(*) AS n FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c GROUP BY r.b"
ST = "SELECT s.b, count(*) AS m FROM t JOIN s ON t.c = s.c GROUP BY s.b"

NOT_TIED = "SELECT b, count(*) AS n FROM r WHERE a < (SELECT count(*) FROM s WHERE s.c > r.a) GROUP BY b"
"""Correlated by an inequality: a change of s can concern any row of r."""


def connect(*views: str) -> viewmill.Mill:
    """A mill with the views; `name(option) = query` each."""
    mill = viewmill.connect()
    mill.sql(TABLES)
    for view in views:
        create(mill, view)
    return mill


def create(mill: viewmill.Mill, view: str) -> None:
    head, _, query = view.partition(" = ")
    name, _, maintain = head.rstrip(")").partition("(")
    mill.sql(f"CREATE MATERIALIZED VIEW {name} WITH (maintain = '{maintain}') AS {query}")


def stores(mill: viewmill.Mill) -> set[str]:
    return {store.name for store in mill.status().stores}


def shake(mill: viewmill.Mill, seed: int, batches: int) -> None:
    """Random batches over all tables, each checked against all views."""
    dice = random.Random(seed)
    rows: dict[str, list[tuple[int | None, ...]]] = {"r": [], "s": [], "t": []}
    for _ in range(batches):
        with mill.batch() as batch:
            for name, held in rows.items():
                for _ in range(dice.randrange(3)):
                    held.append((dice.choice((0, 1, 2, None)), dice.choice((0, 1, 2, None))))
                    batch.insert(name, [held[-1]])
                if len(held) > 4 or (held and dice.random() < 0.4):
                    batch.delete(name, [held.pop(dice.randrange(len(held)))])
        for view in mill.status().views:
            assert mill.verify(view.name), view.name


def test_a_part_of_one_view_is_a_store_of_another() -> None:
    mill = connect(f"x(recursive) = {RST}")
    before = stores(mill)
    create(mill, f"y(recursive) = {ST}")
    assert stores(mill) == before == {"x", "M_st", "M_r", "M_t", "M_rs", "M_s"}
    assert "view y(b, m) = Exists(M_st(b)) *" in mill.explain("y")
    shake(mill, seed=1, batches=12)


def test_a_new_view_over_old_stores_sees_the_rows_that_came_before() -> None:
    mill = connect(f"x(recursive) = {RST}")
    mill.insert("s", [(1, 1), (1, 2), (2, 2)])
    mill.insert("t", [(1, 5), (2, 5), (2, 6)])
    create(mill, f"y(recursive) = {ST}")
    assert Counter(mill.view("y")) == Counter({(1, 3): 1, (2, 2): 1})
    assert mill.verify("y")


def test_a_dropped_view_takes_only_its_own_stores() -> None:
    mill = connect(f"x(recursive) = {RST}", f"y(recursive) = {ST}")
    mill.sql("DROP VIEW x")
    assert stores(mill) == {"M_st", "M_t", "M_s"}
    shake(mill, seed=2, batches=8)
    mill.sql("DROP VIEW y")
    assert stores(mill) == set()


def test_the_other_one_dropped() -> None:
    mill = connect(f"x(recursive) = {RST}", f"y(recursive) = {ST}")
    before = stores(mill)
    mill.sql("DROP VIEW y")
    assert stores(mill) == before
    shake(mill, seed=3, batches=8)


def test_the_same_view_twice_costs_nothing() -> None:
    mill = connect(f"x(recursive) = {RST}")
    before = stores(mill)
    create(
        mill,
        "again(recursive) = SELECT s.b AS k, count(*) AS c FROM t, s, r WHERE t.c = s.c AND s.b = r.b GROUP BY s.b",
    )
    assert stores(mill) == before


@pytest.mark.parametrize("seed", range(3))
def test_three_deep_over_a_view_that_is_re_evaluated(seed: int) -> None:
    """The change of the lowest is found by comparison; those above follow it as any other batch."""
    mill = connect(
        f"low(auto) = {NOT_TIED}",
        "mid(incremental) = SELECT s.c, sum(low.n) AS total, count(*) AS k FROM low JOIN s ON low.b = s.b GROUP BY s.c",
        "top(incremental) = SELECT count(*) AS groups, max(total) AS most FROM mid WHERE total > 1",
        "over(incremental) = SELECT m.c, t.d FROM mid m LEFT JOIN t ON m.c = t.c WHERE m.k IN (SELECT groups FROM top)",
    )
    how = {view.name: {m.relation: m.how for m in view.maintenance} for view in mill.status().views}
    assert how["low"]["s"] == "reevaluate"
    assert how["low"]["r"] != "reevaluate"
    for above in ("mid", "top", "over"):
        assert "reevaluate" not in how[above].values()
    assert how["mid"].keys() == {"low", "s"}
    assert how["top"].keys() == {"mid"}
    shake(mill, seed, batches=10)


def test_a_refused_promise_changes_nothing() -> None:
    mill = connect(f"x(recursive) = {RST}")
    mill.insert("r", [(1, 1)])
    before = mill.status(), mill.explain("x")
    with pytest.raises(
        UnsupportedError, match='cannot maintain view "v" incrementally: a change of "s" would re-evaluate it'
    ):
        create(mill, f"v(incremental) = {NOT_TIED}")
    assert (mill.status(), mill.explain("x")) == before
    create(mill, f"v(auto) = {NOT_TIED}")
    assert mill.verify("v")


def test_a_promise_that_can_be_kept_is_kept() -> None:
    mill = connect(f"x(incremental) = {RST}", f"y(incremental) = {ST}")
    for view in mill.status().views:
        assert view.asked == "incremental"
        assert {m.how for m in view.maintenance} <= {"recursive", "first_order"}
        assert all(m.reason for m in view.maintenance)
    shake(mill, seed=5, batches=8)


@pytest.mark.parametrize("maintain", ["recursive", "first_order", "auto"])
def test_a_row_that_stops_to_pass_a_test_is_gone(maintain: str) -> None:
    """One store keeps only the rows of s with c = 1; the batch has others, which are not its change."""
    mill = connect(f"v({maintain}) = SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b AND s.c = 1)")
    mill.insert("r", [(7, 1)])
    mill.insert("s", [(1, 1)])
    assert list(mill.view("v")) == [(7,)]
    with mill.batch() as batch:
        batch.delete("s", [(1, 1)])
        batch.insert("s", [(1, 5)])
    assert list(mill.view("v")) == []
