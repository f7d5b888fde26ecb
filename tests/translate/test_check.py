"""A translation that breaks its promises is caught before any pass sees it."""

from __future__ import annotations

import pytest

from viewmill.algebra.text import parse
from viewmill.errors import InternalError
from viewmill.translate.check import check


def test_a_sound_expression_passes() -> None:
    check(parse("Sum[x](R(a, b) * (n := Sum[](S(b: b_2) * {b = b_2})) * {n = 0} * (x := a))"), ("x",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Sum[a](R(a, b) * {b < c})", "needs the variables c"),
        ("Sum[b](R(a, b))", "its columns are"),
        ("Sum[a](R(a, b) + R(a))", "the terms of a sum differ"),
        ("Sum[a](R(a, b) * (n := S(b: b_2)))", "n is assigned an expression"),
        ("Sum[a](R(a, b) * (n := Sum[](S(b))))", "local to several places: b"),
        ("Sum[a](R(a, b) * (n := Sum[](S(b: a))))", "local to several places: a"),
        ("Sum[a](R(a) * (x := min b of S(b)) * (y := max b of S(b)))", "local to several places: b"),
    ],
)
def test_an_unsound_expression_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InternalError, match=reason):
        check(parse(text), ("a",))
