"""The small queries of the SQL suite, and TPC-H, by the code that runs on Spark: many views of one mill."""

from __future__ import annotations

from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from distribute.carried import wrong
from distribute.stories import changes, tpch_changes, tpch_program
from distribute.test_suite import THEMES, theme_program
from workload import SUITE

from viewmill.engines.local import engine as local_engine

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
