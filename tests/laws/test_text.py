"""The text form: what is shown reads back as the same expression, and what is wrong is pointed at."""

from __future__ import annotations

from decimal import Decimal

import pytest
from fixture_cases import cases
from hypothesis import given
from laws.strategies import NAMED, constants, exprs, scalars

from viewmill.algebra.nodes import DeltaRelation, Relation, Value
from viewmill.algebra.scalars import Const, Var
from viewmill.algebra.text import parse, parse_scalar, show, show_scalar
from viewmill.errors import ParseError


@given(exprs(deltas=True))
def test_expressions_read_back(expr):
    assert parse(show(expr)) == expr


@given(scalars())
def test_scalars_read_back(scalar):
    assert parse_scalar(show_scalar(scalar)) == scalar


@given(constants())
def test_constants_read_back_as_weights(const):
    assert parse(show(Value(const))) == Value(const)


@pytest.mark.parametrize("name", NAMED)
def test_any_name_reads_back(name):
    for expr in (Relation(name, (name, "f"), (name, name)), DeltaRelation(name, ("f",), (name,)), Value(Var(name))):
        assert parse(show(expr)) == expr


@pytest.mark.parametrize(("given_text", "expected"), cases("algebra/text.txt"))
def test_shown_as(given_text, expected):
    shown = show(parse(given_text))
    assert shown == expected
    assert show(parse(shown)) == shown


@pytest.mark.parametrize(("given_text", "expected"), cases("algebra/refused.txt"))
def test_refused(given_text, expected):
    with pytest.raises(ParseError) as refusal:
        parse(given_text)
    assert str(refusal.value) == expected


def test_kinds_of_one():
    """Equal numbers, but different constants: their text tells them apart."""
    ones = [Const(value) for value in (1, 1.0, True, Decimal(1), Decimal("1.0"), Decimal("1.00"), "1")]
    assert [show_scalar(one) for one in ones] == ["1", "1e0", "true", "1d", "1.0", "1.00", "'1'"]
    assert [parse_scalar(show_scalar(one)) for one in ones] == ones
