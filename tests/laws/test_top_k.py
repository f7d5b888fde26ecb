"""The laws once more where they are hardest: for the first rows of what changes, correlated with rows that change."""

from __future__ import annotations

import pytest
from hypothesis import given
from laws.strategies import changes, databases, limited
from laws.test_delta import align
from laws.test_program import STRATEGIES, start

from viewmill.algebra.evaluate import Contents, add_databases, add_rows, evaluate
from viewmill.algebra.nodes import SortBy, TopK
from viewmill.algebra.schema import bottom_up, inputs, relations, rename, schema, variables, walk
from viewmill.algebra.text import parse, show
from viewmill.delta.derive import delta
from viewmill.output import Presentation, present
from viewmill.rewrite.pipeline import PASSES, expand, simplify
from viewmill.sql.bound import SortKey


@given(expr=limited())
def test_expressions_read_back(expr):
    assert not inputs(expr)
    assert parse(show(expr)) == expr


@given(expr=limited(), data=changes())
def test_delta_is_exact(expr, data):
    db, batch = data
    gained = evaluate(delta(expr, frozenset(batch)), db, batch)
    assert evaluate(expr, add_databases(db, batch)) == add_rows(evaluate(expr, db), gained)


@given(expr=limited(), data=changes("R"))
def test_simplified_delta_is_exact(expr, data):
    db, batch = data
    change = expand(delta(expand(simplify(expr)), frozenset({"R"})))
    gained = align(change, evaluate(change, db, batch), expr)
    assert evaluate(expr, add_databases(db, batch)) == add_rows(evaluate(expr, db), gained)


@pytest.mark.parametrize("name", PASSES)
@given(expr=limited(deltas=True), data=changes())
def test_pass_preserves_meaning(name, expr, data):
    changed = bottom_up(PASSES[name].step, expr)
    assert align(changed, evaluate(changed, *data), expr) == evaluate(expr, *data)


@pytest.mark.parametrize("whole", [simplify, expand])
@given(expr=limited(deltas=True), data=changes())
def test_pipeline_preserves_meaning(whole, expr, data):
    changed = whole(expr)
    assert align(changed, evaluate(changed, *data), expr) == evaluate(expr, *data)


@given(expr=limited(), db=databases())
def test_names_do_not_matter(expr, db):
    """Not even the order they have: renamed, the same rows are picked."""
    names = dict(zip(sorted(variables(expr)), sorted((f"v{i}" for i in range(99)), reverse=True), strict=False))
    assert evaluate(rename(expr, names), db) == evaluate(expr, db)


@pytest.mark.parametrize("maintain", STRATEGIES)
@given(expr=limited(), data=changes())
def test_program_follows_its_expression(maintain, expr, data):
    db, batch = data
    if not relations(expr):
        return
    engine = start(expr, maintain, db)
    before = engine.contents("q")
    assert before == evaluate(expr, db)
    change = engine.apply({name: contents.rows for name, contents in batch.items()}, frozenset({"q"}))["q"]
    after = engine.contents("q")
    assert after == evaluate(expr, add_databases(db, batch))
    assert {row: n for row in {**before, **after} if (n := after.get(row, 0) - before.get(row, 0))} == change


@given(expr=limited(), db=databases())
def test_no_weight_is_negative(expr, db):
    """Nor is it more than that of the rows picked from, nor are there more rows than asked for."""
    for top in (node for node in walk(expr) if isinstance(node, TopK) and not inputs(node)):
        rows, picked = evaluate(top.body, db), evaluate(top, db)
        assert all(0 < weight <= rows[row] for row, weight in picked.items())
        there = max(0, sum(weight for weight in rows.values() if weight > 0) - top.offset)
        assert sum(picked.values()) == (there if top.limit is None else min(there, top.limit))


VALUES = {(1.5, "b"): 2, (float("nan"), "a"): 1, (None, "a"): 1, (-0.5, None): 1, (1.5, None): 1, (1.5, "a"): 1}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("offset", range(4))
def test_all_executors_agree_with_the_readers_of_a_view(descending, nulls_first, offset):
    """The reference, the interpreter and the presentation of a view break ties alike."""
    how = Presentation(order=(SortKey(0, descending, nulls_first),), limit=3, offset=offset)
    expr = TopK((SortBy("a", descending, nulls_first), SortBy("b")), 3, offset, parse("R(a, b)"))
    expected = sorted(map(repr, present(VALUES, how)))
    found = evaluate(expr, {"R": Contents(("a", "b"), VALUES)})
    kept = start(expr, "reevaluate", {"R": Contents(("a", "b"), VALUES)}).contents("q")
    assert schema(expr) == ("a", "b")
    for rows in (found, kept):
        assert sorted(repr(row) for row, weight in rows.items() for _ in range(weight)) == expected
