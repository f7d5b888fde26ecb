"""The reference evaluator: each node by example, then the laws that the calculus rests on."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from fixture_cases import cases
from hypothesis import given
from laws.strategies import RELATIONS, batches, changes, databases, exprs

from viewmill.algebra.build import agg_sum, exists, neg, product, sum_
from viewmill.algebra.evaluate import Contents, add_contents, add_databases, add_rows, evaluate
from viewmill.algebra.nodes import After, AggSum, DeltaRelation
from viewmill.algebra.schema import Names, inputs, rename, schema, walk
from viewmill.algebra.text import parse, parse_scalar
from viewmill.errors import DataError, InternalError

DB = {
    "R": Contents(("a", "b"), {(1, 1): 1, (2, 1): 2, (2, 2): 1, (None, 2): 1, (None, None): 1}),
    "S": Contents(("b", "c"), {(1, 10): 1, (2, 20): 1, (2, None): 1, (None, 30): 2}),
    "E": Contents(("a",), {}),
}
BATCH = {"R": Contents(("b", "a"), {(1, 1): -1, (3, 3): 1})}


def table(text):
    """`1, null -> 2` in each line: the values of a row and its weight."""
    rows = {}
    for line in text.splitlines():
        row, arrow, weight = line.partition("->")
        assert arrow, f"malformed row {line!r}"
        values = row.strip().split(", ") if row.strip() else []
        rows[tuple(parse_scalar(value).value for value in values)] = parse_scalar(weight).value
    return rows


@pytest.mark.parametrize(("text", "expected"), cases("algebra/evaluate.txt"))
def test_rows(text, expected):
    assert evaluate(parse(text), DB, BATCH) == (table(expected) if expected != "nothing" else {})


@pytest.mark.parametrize(("text", "expected"), cases("algebra/meaningless.txt"))
def test_meaningless(text, expected):
    with pytest.raises(InternalError) as error:
        evaluate(parse(text), DB, BATCH)
    assert error.value.message == expected


def test_inputs_come_from_the_environment():
    expr = parse("Sum[](S(b: b2, c) * {b2 = b} * c)")
    assert inputs(expr) == {"b"}
    assert evaluate(expr, DB, env={"b": 1}) == {(): 10}
    assert evaluate(expr, DB, env={"b": 3}) == {}


def test_names_outside_do_not_reach_inside():
    """The R inside has its own a; that one outside has the same name changes nothing."""
    inner = parse("(n := Sum[](R(a, b: x) * {a = 2}))")
    assert evaluate(inner, DB, env={"a": 1, "x": 7}) == evaluate(inner, DB)
    test_first = parse("Exists({a = 2} * R(a, b: x))")
    assert evaluate(test_first, DB, env={"a": 1}) == evaluate(test_first, DB)


def test_a_factor_behind_a_zero_is_not_computed():
    divided = "R(a, b) * {b <> 0 and b <> 1} * [100 div (b - 1)]"
    assert evaluate(parse(f"Sum[b]({divided})"), DB) == {(2,): 200}
    with pytest.raises(DataError, match="division by zero"):
        evaluate(parse("R(a, b) * [100 div (b - 1)]"), DB)


def test_numbers_are_equal_whatever_carries_them():
    db = {
        "R": Contents(("a",), {(1,): 1}),
        "S": Contents(("a",), {(Decimal("1.00"),): 2}),
        "T": Contents(("a",), {(1.0,): 3}),
    }
    assert evaluate(parse("R(a) * S(a) * T(a)"), db) == {(1,): 6}


def test_nan_joins_nan():
    db = {"R": Contents(("a",), {(float("nan"),): 2}), "S": Contents(("a",), {(float("nan"),): 3, (1.0,): 1})}
    assert evaluate(parse("R(a) * S(a)"), db) == {(math.nan,): 6}
    assert evaluate(parse("R(a) + S(a)"), db) == {(math.nan,): 5, (1.0,): 1}
    assert evaluate(parse("(m := max a of S(a))"), db) == {(math.nan,): 1}
    assert evaluate(parse("(m := min a of S(a))"), db) == {(1.0,): 1}
    assert evaluate(parse("S(a) * {a > 5e0}"), db) == {(math.nan,): 3}


def test_a_nan_that_does_not_qualify_weighs_nothing():
    """0 times NaN is NaN in arithmetic, but a row that fails its test is not there."""
    db = {"R": Contents(("a", "b"), {(float("nan"), 1): 1, (2.0, 2): 1})}
    assert evaluate(parse("Sum[](R(a, b) * a * {b = 2})"), db) == {(): 2.0}


def test_double_weights_vanish_only_at_zero():
    db = {"R": Contents(("a", "w"), {(1, 0.1): 1, (1, 0.2): 1, (1, -0.3): 1, (2, 0.5): 1, (2, -0.5): 1})}
    assert evaluate(parse("Sum[a](R(a, w) * w)"), db) == {(1,): pytest.approx(5.5e-17, rel=0.1)}


def test_decimal_weights_are_exact():
    db = {"R": Contents(("w",), {(Decimal("12345678901234567890.123456789"),): 3, (Decimal("0.000000001"),): -1})}
    assert evaluate(parse("Sum[](R(w) * w)"), db) == {(): Decimal("37037036703703703670.370370366")}


def test_contents_add_by_field():
    a, b = Contents(("a", "b"), {(1, 2): 1, (3, 4): 1}), Contents(("b", "a"), {(2, 1): -1, (4, 3): 1})
    assert add_contents(a, b) == Contents(("a", "b"), {(3, 4): 2})


@given(exprs(deltas=True), databases(), batches())
def test_random_expressions_make_sense(expr, db, batch):
    """They are closed, and their rows are over their schema."""
    assert not inputs(expr)
    for row, weight in evaluate(expr, db, batch).items():
        assert len(row) == len(schema(expr))
        assert weight != 0


@given(exprs(("x", "y")))
def test_random_expressions_produce_what_is_wanted(expr):
    assert set(schema(expr)) == {"x", "y"}


@given(changes())
def test_random_batches_delete_only_what_is_there(change):
    after = add_databases(*change)
    assert after.keys() == RELATIONS.keys()
    assert all(weight > 0 for contents in after.values() for weight in contents.rows.values())


@given(exprs(("x",), depth=1), exprs(("x",), depth=1), databases())
def test_sum_is_a_group(e, f, db):
    assert evaluate(sum_((e, f)), db) == add_rows(evaluate(e, db), evaluate(f, db)) == evaluate(sum_((f, e)), db)
    assert evaluate(sum_((e, neg(e))), db) == {}


@given(exprs(("x",), depth=1), exprs(("x",), depth=1), exprs(("x",), depth=1), databases())
def test_product_distributes_over_sum(e, f, g, db):
    assert evaluate(product(e, sum_((f, g))), db) == evaluate(sum_((product(e, f), product(e, g))), db)


@given(exprs(("x", "y"), depth=1), exprs(("y", "z"), depth=1), databases())
def test_product_commutes(e, f, db):
    assert evaluate(AggSum(("x", "y", "z"), product(e, f)), db) == evaluate(AggSum(("x", "y", "z"), product(f, e)), db)


@given(exprs(("x", "y"), depth=1), databases())
def test_sums_nest(expr, db):
    assert evaluate(agg_sum(("x",), agg_sum(("y", "x"), expr)), db) == evaluate(agg_sum(("x",), expr), db)


@given(exprs(("x",)), databases())
def test_exists_is_idempotent(expr, db):
    once = evaluate(exists(expr), db)
    assert once == dict.fromkeys(evaluate(expr, db), 1)
    assert evaluate(exists(product(expr, expr)), db) == once


@given(exprs(), databases(), batches())
def test_after_is_the_state_with_the_batch(expr, db, batch):
    assert evaluate(After(expr), db, batch) == evaluate(expr, add_databases(db, batch))


@given(exprs(deltas=True), databases())
def test_without_a_batch_nothing_is_pending(expr, db):
    empty = {name: Contents(fields, {}) for name, fields in RELATIONS.items()}
    assert evaluate(expr, db) == evaluate(expr, db, empty)
    if any(isinstance(node, DeltaRelation) for node in walk(expr)):
        assert evaluate(DeltaRelation("R", ("a",), ("x",)), db) == {}


@given(exprs(("x", "y")), databases())
def test_bound_names_do_not_matter(expr, db):
    copy, names = Names(frozenset(("x", "y", "a", "b", "n", "m"))).apart(expr)
    assert evaluate(rename(copy, {new: old for old, new in names.items()}), db) == evaluate(expr, db)
    assert evaluate(agg_sum((names["x"], names["y"]), copy), db) == evaluate(agg_sum(("x", "y"), expr), db)
