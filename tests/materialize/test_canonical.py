"""Duplicate stores are found up to the names of variables and the order of factors, and no further."""

from __future__ import annotations

import pytest
from hypothesis import given
from laws.strategies import exprs

from viewmill.algebra.schema import Names, rename, schema
from viewmill.algebra.text import parse
from viewmill.materialize.canonical import canonical

EQUAL = [
    ("Sum[b](S(b, c) * T(c, d))", "Sum[x](T(c: y, d: z) * S(b: x, c: y))"),
    ("R(a, b) * S(b, c)", "S(b: y, c: z) * R(a: x, b: y)"),
    ("Sum[a, b](R(a, b, c) * {c > 3} * c)", "Sum[x, y](R(a: x, b: y, c: z) * z * {z > 3})"),
    ("Sum[](R(a) * (n := Sum[](S(b) * (b := a))) * n)", "Sum[](R(a: p) * m * (m := Sum[](S(b: q) * (q := p))))"),
    ("R(a) + S(a)", "S(a: x) + R(a: x)"),
    ("Sum[a, b](R(a, b, c))", "Sum[b, a](R(a, b, c))"),
    ("TopK[b desc, a; 3](R(a, b) * S(b, c: a))", "TopK[y desc, x; 3](S(b: y, c: x) * R(a: x, b: y))"),
    ("R(a) * TopK[b; 1](S(b) * {b < a})", "TopK[x; 1]({x < y} * S(b: x)) * R(a: y)"),
]

DIFFERENT = [
    ("R(a, b) * S(b, c)", "R(a, b) * S(b: a, c)"),
    ("Sum[a](R(a, b))", "Sum[b](R(a, b))"),
    ("R(a, b)", "R(a, b: a)"),
    ("R(a) * {a > 3}", "R(a) * {a > 4}"),
    ("R(a) * {a > 3}", "R(a) * {a > 3.0}"),
    ("R(a, b) * {a > b}", "R(a, b) * {b > a}"),
    ("R(a)", "S(a)"),
    ("R(a)", "Exists(R(a))"),
    ("R(a) * S(a)", "R(a) * S(b)"),
    ("Sum[a](R(a, b) * a)", "Sum[a](R(a, b) * b)"),
    ("(m := min a of R(a))", "(m := max a of R(a))"),
    ("TopK[a, b; 3](R(a, b))", "TopK[b, a; 3](R(a, b))"),
    ("TopK[a, b; 3](R(a, b) * S(a, b))", "TopK[b, a; 3](R(a, b) * S(a, b))"),
    ("TopK[a; 3](R(a))", "TopK[a desc; 3](R(a))"),
    ("TopK[a; 3](R(a))", "TopK[a nulls last; 3](R(a))"),
    ("TopK[a; 3](R(a))", "TopK[a; 3, 1](R(a))"),
    ("TopK[a; 3](R(a))", "TopK[a; 4](R(a))"),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_equal(left: str, right: str) -> None:
    assert canonical(parse(left))[0] == canonical(parse(right))[0]


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_different(left: str, right: str) -> None:
    assert canonical(parse(left))[0] != canonical(parse(right))[0]


def test_names_come_in_the_order_of_the_form() -> None:
    """So that a reader of one definition can read the store of another."""
    (form, ours), (_, theirs) = (
        canonical(parse("Sum[a, c](R(a, b) * S(b, c))")),
        canonical(parse("Sum[z, x](S(b: y, c: z) * R(a: x, b: y))")),
    )
    assert len(schema(form)) == 2
    assert dict(zip(theirs, ours, strict=True)) == {"x": "a", "z": "c"}


@given(exprs(("x", "y")))
def test_renaming_changes_nothing(expr: object) -> None:
    copy, names = Names(frozenset(("x", "y", "a", "b", "c"))).apart(expr)  # type: ignore[arg-type]
    form, ours = canonical(expr)  # type: ignore[arg-type]
    again, theirs = canonical(copy)
    assert form == again
    assert tuple(names.get(name, name) for name in ours) == theirs
    assert canonical(rename(copy, {new: old for old, new in names.items()})) == (form, ours)
