"""Columns may be called what they like: compiled code has names of its own for them."""

from __future__ import annotations

import pytest

import viewmill
from viewmill.engines.local import engine

NAMES = ["weight", "w", "rows", "batch", "flags", "env", "i1", "cw", "sw", "_", "naïve", "for", "int64"]


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "COMPILE_AFTER", -1)


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_any_name(name: str) -> None:
    mill = viewmill.connect()
    mill.sql(f"""
        CREATE TABLE c (id INT PRIMARY KEY, region STRING);
        CREATE TABLE o (id INT PRIMARY KEY, customer INT, `{name}` DOUBLE);
        CREATE MATERIALIZED VIEW v AS SELECT region, `{name}`, count(*) AS n
        FROM o JOIN c ON o.customer = c.id GROUP BY region, `{name}`
    """)
    mill.insert("c", [(1, "north")])
    mill.insert("o", [(1, 1, 1.5), (2, 1, 2.5), (3, 1, 1.5)])
    mill.delete("o", [(1, 1, 1.5)])
    assert sorted(mill.view("v")) == [("north", 1.5, 1), ("north", 2.5, 1)]


def test_columns_whose_names_are_nearly_the_same() -> None:
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE t (`a b` INT, `a_b` INT, `a-b` INT, `a_b_` INT);
        CREATE MATERIALIZED VIEW v AS SELECT `a b`, `a_b`, `a-b`, `a_b_`, count(*) AS n FROM t
        GROUP BY `a b`, `a_b`, `a-b`, `a_b_`
    """)
    mill.insert("t", [(1, 2, 3, 4), (1, 2, 3, 4), (4, 3, 2, 1)])
    assert sorted(mill.view("v")) == [(1, 2, 3, 4, 2), (4, 3, 2, 1, 1)]
