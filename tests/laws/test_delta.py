"""The laws of the delta: it is exact, for every expression, database and batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from laws.strategies import batches, changes, databases, exprs

from viewmill.algebra.evaluate import add_databases, add_rows, evaluate
from viewmill.algebra.nodes import ZERO
from viewmill.algebra.schema import relations, schema
from viewmill.delta import derive
from viewmill.delta.derive import delta
from viewmill.rewrite.pipeline import expand, simplify


@given(expr=exprs(), data=changes())
def test_delta_is_exact(expr, data):
    """expr(D + d) = expr(D) + delta(expr)(D, d), for a batch over all relations at once."""
    db, batch = data
    gained = evaluate(delta(expr, frozenset(batch)), db, batch)
    assert evaluate(expr, add_databases(db, batch)) == add_rows(evaluate(expr, db), gained)


@given(expr=exprs(), data=changes("R"))
def test_simplified_delta_is_exact(expr, data):
    """What the compiler works with: simplified, derived for one relation, expanded."""
    db, batch = data
    simple = simplify(expr)
    gained = evaluate(expand(delta(expand(simple), frozenset({"R"}))), db, batch)
    before, after = (align(simple, evaluate(simple, state), expr) for state in (db, add_databases(db, batch)))
    change = align(expand(delta(expand(simple), frozenset({"R"}))), gained, expr)
    assert after == add_rows(before, change)


@given(expr=exprs(), db=databases(), batch=batches("S"))
def test_delta_of_an_unrelated_relation_is_nothing(expr, db, batch):
    if "S" not in relations(expr):
        assert delta(expr, frozenset({"S"})) == ZERO


def align(expr, rows, like):
    """Rows of `expr` in the column order of `like`."""
    at = {name: i for i, name in enumerate(schema(expr))}
    order = [at[name] for name in schema(like)] if rows else []
    return {tuple(row[i] for i in order): weight for row, weight in rows.items()}


@given(expr=exprs(), data=changes())
def test_delta_term_by_term_is_exact(expr, data):
    """The rule for products with many changed factors, used here for all of them."""
    db, batch = data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(derive, "FEW", 0)
        change = delta(expr, frozenset(batch))
    gained = evaluate(change, db, batch)
    assert evaluate(expr, add_databases(db, batch)) == add_rows(evaluate(expr, db), gained)
