"""Renaming keeps meaning, and keeps scopes apart."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from laws.strategies import databases, exprs

from viewmill.algebra.evaluate import evaluate
from viewmill.algebra.nodes import AggSum, Extreme
from viewmill.algebra.schema import anonymous, inputs, schema, tidy, unshadowed, walk
from viewmill.algebra.text import parse, show


@given(expr=exprs(), db=databases())
def test_tidy_and_unshadowed_keep_meaning(expr, db):
    visible = {name: name for name in schema(expr)}
    assert evaluate(tidy(expr, visible), db) == evaluate(expr, db)
    assert evaluate(unshadowed(expr), db) == evaluate(expr, db)


@given(expr=exprs())
def test_unshadowed_gives_every_scope_its_own_names(expr):
    local = Counter(schema(expr))
    for node in walk(unshadowed(expr)):
        if isinstance(node, AggSum):
            local.update(name for name in schema(node.body) if name not in node.group)
        elif isinstance(node, Extreme):
            local.update(schema(node.body))
    assert all(count == 1 for count in local.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the inner b is another variable than the outer one
        ("R(a, b) * (x := Sum[](S(b, c)))", "R(a, b) * (x := Sum[](S(b: b_2, c)))"),
        ("R(a) * (x := min a of R(a))", "R(a) * (x := min a_2 of R(a: a_2))"),
    ],
)
def test_unshadowed(text, expected):
    assert show(unshadowed(parse(text))) == expected


def test_anonymous_forms_meet():
    one, two = parse("Sum[b](S(b, c) * {c > 1})"), parse("Sum[x](S(b: x, c: y) * {y > 1})")
    assert anonymous(one)[0] == anonymous(two)[0]
    assert (anonymous(one)[1], anonymous(two)[1]) == (("b",), ("x",))
    assert not inputs(one)
