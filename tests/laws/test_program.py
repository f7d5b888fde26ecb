"""Compiled programs keep up with their expressions, whatever the strategy."""

from __future__ import annotations

import pytest
from hypothesis import given
from laws.strategies import RELATIONS, changes, exprs

from viewmill.algebra.evaluate import add_databases, evaluate
from viewmill.algebra.schema import relations, schema
from viewmill.catalog import Catalog, ColumnInfo, RelationInfo
from viewmill.engines.interpreter import Interpreter
from viewmill.materialize.compile import ViewSpec, add_view
from viewmill.program.nodes import EMPTY
from viewmill.types import INT

CATALOG = Catalog(
    {name: RelationInfo(name, tuple(ColumnInfo(f, INT) for f in fields)) for name, fields in RELATIONS.items()}
)
STRATEGIES = ("recursive", "first_order", "reevaluate", "auto")


def start(expr, maintain, db):
    program = add_view(EMPTY, ViewSpec("q", expr, schema(expr), maintain), CATALOG, {})
    engine = Interpreter()
    engine.install(program, {name: contents.rows for name, contents in db.items()})
    return engine


@pytest.mark.parametrize("maintain", STRATEGIES)
@given(expr=exprs(), data=changes())
def test_program_follows_its_expression(maintain, expr, data):
    db, batch = data
    if not relations(expr):
        return
    engine = start(expr, maintain, db)
    assert engine.contents("q") == evaluate(expr, db)
    engine.apply({name: contents.rows for name, contents in batch.items()})
    assert engine.contents("q") == evaluate(expr, add_databases(db, batch))


@pytest.mark.parametrize("maintain", STRATEGIES)
@given(expr=exprs(), data=changes())
def test_one_batch_equals_its_rows_singly(maintain, expr, data):
    db, batch = data
    if not relations(expr):
        return
    whole, single = start(expr, maintain, db), start(expr, maintain, db)
    whole.apply({name: contents.rows for name, contents in batch.items()})
    for name, contents in reversed(batch.items()):
        for row, weight in sorted(contents.rows.items(), key=repr):
            for _ in range(abs(weight)):
                single.apply({name: {row: 1 if weight > 0 else -1}})
    assert whole.contents("q") == single.contents("q")


@pytest.mark.parametrize("maintain", STRATEGIES)
@given(expr=exprs(), data=changes())
def test_a_batch_and_its_opposite_leave_every_store_as_it_was(maintain, expr, data):
    db, batch = data
    if not relations(expr):
        return
    engine = start(expr, maintain, db)
    before = {name: engine.store(name) for name in engine.program.stores}
    engine.apply({name: contents.rows for name, contents in batch.items()})
    engine.apply({name: {row: -n for row, n in contents.rows.items()} for name, contents in batch.items()})
    assert {name: engine.store(name) for name in engine.program.stores} == before


@pytest.mark.parametrize("maintain", STRATEGIES)
@given(expr=exprs(), data=changes())
def test_reported_change_is_the_difference(maintain, expr, data):
    db, batch = data
    if not relations(expr):
        return
    engine = start(expr, maintain, db)
    before = engine.contents("q")
    change = engine.apply({name: contents.rows for name, contents in batch.items()}, frozenset({"q"}))["q"]
    after = engine.contents("q")
    assert {row: n for row in {**before, **after} if (n := after.get(row, 0) - before.get(row, 0))} == change
