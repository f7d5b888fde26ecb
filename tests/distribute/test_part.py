"""What one view needs of a distributed program is enough for it, and no more than it needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from distribute.stories import compiled, tpch_changes, tpch_program, wrong

from viewmill.algebra.schema import relations
from viewmill.distribute import distribute, plan
from viewmill.distribute.part import part_of
from viewmill.distribute.text import show_blocks, show_placed

SIZES = {"partsupp": 800_000, "orders": 1_500_000, "lineitem": 6_000_000}
SIZES |= {"region": 5, "nation": 25, "supplier": 10_000, "customer": 150_000, "part": 200_000}


@pytest.mark.slow
def test_a_part_keeps_its_view():
    program, catalog = tpch_program((3, 5, 8, 9, 11, 13, 15, 16, 18, 20, 22))
    distributed = distribute(program, catalog, known=SIZES)
    whole = {**distributed.buckets.stores, **distributed.driver.stores}
    found = set()
    for name, view in program.views.items():
        part = part_of(distributed, name)
        stores = {**part.buckets.stores, **part.driver.stores}
        assert relations(view.output) <= stores.keys() < whole.keys() and list(part.views) == [name]
        assert not wrong(replace(program, views={name: view}), catalog, part, tpch_changes())
        assert part.places.keys() == stores.keys() and all(distributed.places[s] == part.places[s] for s in stores)
        found |= stores.keys()
    assert found == whole.keys()  # nothing is kept that no view needs


def test_what_is_shared_is_shown_with_every_view():
    program, catalog = tpch_program((5, 9))
    distributed = distribute(program, catalog, known=SIZES)
    (kept,) = (n for n, store in distributed.buckets.stores.items() if "l_linenumber" in store.keys)
    for view in ("q5", "q9"):
        part = part_of(distributed, view)
        placed, blocks = show_placed(part), show_blocks(part, plan(part, part.order), ["orders"])
        assert f"store {kept}(" in placed and f"  {kept}(" in blocks
        assert ("p_name" in blocks) == (view == "q9") and "look up rows of orders" in blocks
        assert placed.startswith(f"view {view}: ") and placed.count("view ") == 1
        assert f"1 job, {plan(part, part.order).stages + 1} stages" in blocks.splitlines()[0]


def test_a_view_over_a_view_needs_that_one_as_well():
    ddl = ("CREATE TABLE r (a INT, b INT)", "CREATE TABLE s (a INT, c INT)")
    views = {
        "low": "SELECT a, sum(b) AS t FROM r GROUP BY a",
        "high": "SELECT s.c, max(low.t) AS m FROM low JOIN s ON low.a = s.a GROUP BY s.c",
        "other": "SELECT count(*) AS n FROM r",
    }
    program, catalog = compiled(ddl, views)
    distributed = distribute(program, catalog)
    part = part_of(distributed, "high")
    assert list(part.views) == ["low", "high"] and "other" not in part.places
    blocks = show_blocks(part, plan(part, part.order))
    assert "a change of r, s: " in blocks and "driver, where views are read by others:\n  on low:" in blocks
    story = [{"r": {(1, 2): 1, (2, 5): 1}, "s": {(1, 7): 1}}, {"s": {(2, 7): 2}}, {"r": {(2, 5): -1, (1, 1): 3}}]
    read = {name: program.views[name] for name in part.views}
    assert not wrong(replace(program, views=read), catalog, part, iter(story))
