"""Domains in compiled code: the keys that a batch may affect, found in one go. One too large does no harm."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kept_programs import compiled
from kept_turns import take

import viewmill
from viewmill.engines.local import engine, paths
from viewmill.engines.local.kept import Kept

TABLES = """
CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, priority STRING NOT NULL);
CREATE TABLE items (number INT NOT NULL PRIMARY KEY, id INT NOT NULL, due INT, came INT, note STRING)
"""
LATE = """
SELECT priority, count(*) AS n FROM orders o
WHERE EXISTS (SELECT * FROM items i WHERE i.id = o.id AND i.due < i.came) GROUP BY priority
"""
ALONE = """
SELECT o.priority, count(*) AS n FROM orders o JOIN items a ON a.id = o.id
WHERE a.due < a.came
  AND EXISTS (SELECT * FROM items b WHERE b.id = o.id AND b.note <> a.note)
  AND NOT EXISTS (SELECT * FROM items c WHERE c.id = o.id AND c.note <> a.note AND c.due < c.came)
GROUP BY o.priority
"""
PAIRS = """
SELECT a.note AS x, b.note AS y, sum(a.due) AS due, sum(b.came) AS came
FROM items a JOIN items b ON a.id = b.id GROUP BY a.note, b.note
"""


def connected(query: str) -> viewmill.Mill:
    mill = viewmill.connect()
    for statement in TABLES.split(";"):
        mill.sql(statement)
    mill.sql(f"CREATE MATERIALIZED VIEW v WITH (maintain = 'recursive') AS {query}")
    return mill


@pytest.mark.parametrize("query", [LATE, ALONE])
def test_views_follow_rows_that_move_and_rows_that_only_seem_to(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update of a column that nobody reads takes a row away and brings it back, as far as the domain can tell."""
    mills = []
    for after in (sys.maxsize, -1):
        monkeypatch.setattr(engine, "COMPILE_AFTER", after)
        mills.append(connected(query))
    random = Random(3)

    def row(number: int) -> tuple[Any, ...]:
        due, came = (random.choice([None, 1, 2, 3]) for _ in range(2))
        return number, random.randrange(6), due, came, random.choice("xyz")

    rows = {number: row(number) for number in range(40)}
    for mill, after in zip(mills, (sys.maxsize, -1), strict=True):
        monkeypatch.setattr(engine, "COMPILE_AFTER", after)
        mill.insert("orders", [(i, "high" if i % 2 else "low") for i in range(6)])
        mill.insert("items", list(rows.values()))
    for _ in range(30):
        numbers = random.sample(range(40), 5)
        changed = [(*rows[n][:4], random.choice("xyz")) if random.random() < 0.5 else row(n) for n in numbers]
        rows.update(zip(numbers, changed, strict=True))
        for mill, after in zip(mills, (sys.maxsize, -1), strict=True):
            monkeypatch.setattr(engine, "COMPILE_AFTER", after)
            mill.update("items", changed)
        plain, fast = (sorted(mill.read("v")) for mill in mills)
        assert fast == plain
        names = mills[0]._definitions.program.stores
        assert all(dict(mills[1]._engine.store(n)) == dict(mills[0]._engine.store(n)) for n in names)
    assert mills[1]._engine.is_compiled


@pytest.mark.parametrize("query", [LATE, ALONE])
def test_a_domain_is_one_set(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "COMPILE_AFTER", -1)
    mill = connected(query)
    mill.insert("items", [(1, 1, 1, 2, "x")])
    plan = mill._engine._fast.code("items")
    (keys,) = [source for name, source in plan.lets.items() if name.endswith("_keys")]
    sets = [source for name, source in plan.lets.items() if name.startswith("set_")]
    assert [source.pool for source in sets] == [keys.pool]
    source = plan.functions[0].source
    assert source.count("1 if peek(") == 1  # and has the weight 1 in the end


def test_code_does_not_depend_on_the_order_of_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is another one in every process, and compiled code would not be found on disk."""
    variables = paths.variables
    found = set()
    for reverse in (False, True):
        monkeypatch.setattr(paths, "variables", lambda e, r=reverse: dict.fromkeys(sorted(variables(e), reverse=r)))
        mill = connected(PAIRS)
        monkeypatch.setattr(engine, "COMPILE_AFTER", -1)
        mill.insert("items", [(1, 1, 1, 2, "x")])
        reader = mill._engine._fast._reader("v")
        found.add("".join(function.source for function in reader.plan.lowered))
    assert len(found) == 1


def test_in_a_bucket_a_domain_has_what_is_left_of_a_batch(tmp_path: Path) -> None:
    """Another bucket may ask a store in which the batch has waited, and rows that cancel are gone."""
    program, catalog = compiled(TABLES, LATE, strategy="recursive")
    (keys,) = (s.target for s in program.triggers["items"].statements if s.op == "let" and s.target.endswith("_keys"))
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        changes = {(1, 5, 1, 2, "x"): -1, (1, 5, 1, 2, "y"): 1, (2, 6, 1, 2, "x"): 1}  # nobody reads the note
        found = take(kept, [("items", changes)], "1")[keys]
    assert [row[:-1] for row in zip(*(column.to_pylist() for column in found.columns), strict=True)] == [(6,)]
