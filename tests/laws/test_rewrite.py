"""Every pass, alone and together, preserves meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from laws.strategies import changes, exprs
from laws.test_delta import align

from viewmill.algebra.evaluate import evaluate
from viewmill.algebra.schema import bottom_up
from viewmill.rewrite.pipeline import PASSES, expand, simplify


@pytest.mark.parametrize("name", PASSES)
@given(expr=exprs(deltas=True), data=changes())
def test_pass_preserves_meaning(name, expr, data):
    db, batch = data
    changed = bottom_up(PASSES[name].step, expr)
    assert align(changed, evaluate(changed, db, batch), expr) == evaluate(expr, db, batch)


@pytest.mark.parametrize("whole", [simplify, expand])
@given(expr=exprs(deltas=True), data=changes())
def test_pipeline_preserves_meaning(whole, expr, data):
    db, batch = data
    changed = whole(expr)
    assert align(changed, evaluate(changed, db, batch), expr) == evaluate(expr, db, batch)
