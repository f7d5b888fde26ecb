"""Where the value of an expression is, case by case."""

from __future__ import annotations

import pytest
from fixture_cases import cases

from viewmill.algebra.text import parse
from viewmill.distribute.located import is_whole, locate
from viewmill.distribute.nodes import Buckets, Everywhere


def place(text):
    name, how, *by = text.split()
    return name, Buckets(tuple(by)) if how == "by" else Everywhere()


@pytest.mark.parametrize(("text", "expected"), cases("distribute/located.txt"))
def test_located(text, expected):
    body, given = text.split("\n")
    variable, _, where = given.partition(": ")
    places = dict(map(place, where.split(", ")))
    expr = parse(body)
    found = locate(expr, (frozenset((variable,)),), lambda atom: places[atom.name])
    words = [word for word, holds in (("right", found.right), ("zero", found.right and found.zero)) if holds]
    words += ["whole"] if is_whole(expr, lambda atom: places[atom.name]) else []
    assert (", ".join(words) or "neither") == expected
