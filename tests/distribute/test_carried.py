"""The small queries of the SQL suite, and TPC-H, by the code that runs on Spark: many views of one mill."""

from __future__ import annotations

from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from distribute.carried import wrong
from distribute.stories import Change, changes, compiled, tpch_changes, tpch_program
from distribute.test_suite import THEMES, theme_program
from workload import SUITE

from viewmill.engines.local import engine as local_engine
from viewmill.engines.local.plans import Plans
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.triggers import TriggerPlan

QUICK = ("corners", "limits", "mixed")


def some(seed: int) -> set[str]:
    """About half of the tables."""
    random = Random(seed)
    return {table.name for table in SUITE if random.random() < 0.5}


@pytest.mark.parametrize("stored", ["none", "some", "all"])
@pytest.mark.parametrize("theme", [pytest.param(t, marks=() if t in QUICK else pytest.mark.exhaustive) for t in THEMES])
def test_carried_by_hand(theme: str, stored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also the driver is compiled from the first row on."""
    monkeypatch.setattr(local_engine, "COMPILE_AFTER", -1)
    seed = crc32(f"{theme} {stored}".encode())
    tables = {"none": set[str](), "some": some(seed), "all": {table.name for table in SUITE}}[stored]
    program, catalog = theme_program(theme)
    assert not wrong(program, catalog, changes(SUITE, seed), tmp_path, stored=tables)


@pytest.mark.exhaustive
@pytest.mark.parametrize("stored", [(), ("orders", "partsupp", "nation"), ("lineitem", "customer", "part", "supplier")])
def test_tpch(stored: tuple[str, ...], tmp_path: Path):
    program, catalog = tpch_program(tuple(range(1, 23)))
    assert not wrong(program, catalog, tpch_changes(len(stored)), tmp_path, stored=stored, buckets=2)


R, S, T = "CREATE TABLE r (a INT, b INT)", "CREATE TABLE s (b INT, c INT)", "CREATE TABLE t (c INT, d STRING)"
TWICE = "r JOIN s s1 ON r.b = s1.b JOIN s s2 ON r.b = s2.b JOIN t ON t.c = r.a"
WIDE = "cast(b AS DECIMAL(20,0)) + 99999999999999999999"
MILLS: dict[str, tuple[tuple[str, ...], str, list[Change]]] = {
    "a table joined twice by one column": (
        (R, S, T),
        f"SELECT r.a, count(*) AS n FROM {TWICE} GROUP BY r.a",
        [{"s": {(1, 1): 2}, "t": {(3, "x"): 1}}, {"r": {(3, 1): 1}}],
    ),
    "a change that is computed from one which is interpreted": (
        (S,),
        f"SELECT n, count(DISTINCT n) AS m FROM (SELECT {WIDE} AS g, sum(b) AS n FROM s GROUP BY {WIDE}"
        " HAVING count(DISTINCT c) > 2) q GROUP BY n",
        [{"s": {(2, 4): 1}}, {"s": {(2, 5): 1, (2, 6): 1}}],
    ),
    "a table with a name as changes have": (
        ("CREATE TABLE `s#1` (a INT, b INT)", S),
        "SELECT x.a, s.c, count(*) AS n FROM `s#1` x JOIN s ON x.b = s.b GROUP BY x.a, s.c",
        [{"s#1": {(1, 1): 1}, "s": {(1, 2): 1}}],
    ),
}


@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("case", MILLS)
def test_small_mills(case: str, buckets: int, tmp_path: Path):
    ddl, view, story = MILLS[case]
    program, catalog = compiled(ddl, {"v": view})
    assert not wrong(program, catalog, iter(story), tmp_path, buckets=buckets)


def test_triggers_that_are_only_interpreted_send_what_they_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(plans: Plans, relation: str) -> TriggerPlan:
        raise CannotLower("of indexes there are too many")

    monkeypatch.setattr(Plans, "of", refuse)
    program, catalog = theme_program("joins_outer")
    assert not wrong(program, catalog, changes(SUITE, 7), tmp_path, stored=some(7))
