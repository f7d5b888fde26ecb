"""Where the first rows are a store of their own, and where the rows that they are picked from are one."""

from __future__ import annotations

import pytest

from viewmill.algebra.nodes import Expr, Relation
from viewmill.algebra.schema import schema
from viewmill.algebra.text import parse, show
from viewmill.materialize.cut import cut


def pieces(text: str) -> tuple[str, list[str]]:
    """The expression over stores M1, M2, ..., and what these keep."""
    kept: list[str] = []

    def store_for(definition: Expr) -> Expr:
        kept.append(show(definition))
        return Relation(f"M{len(kept)}", schema(definition), schema(definition))

    return show(cut(parse(text), store_for)), kept


@pytest.mark.parametrize(
    ("text", "expected", "kept"),
    [
        # joined with a change: picked when its own rows change, looked up here
        ("d_R(a) * TopK[a, b; 3](S(a, b))", "d_R(a) * M1(a, b)", ["TopK[a, b; 3](S(a, b))"]),
        ("R(a) * TopK[a, b; 3](S(a, b))", "M1(a, b) * M2(a)", ["TopK[a, b; 3](S(a, b))", "Sum[a](R(a))"]),
        # alone: this is what fills such a store
        ("TopK[a, b; 3](S(a, b)) * {a > 1}", "TopK[a, b; 3](M1(a, b)) * {a > 1}", ["Sum[a, b](S(a, b))"]),
        # picked for each row
        (
            "d_R(a) * TopK[b; 3](Sum[b](S(a: x, b) * (x := a)))",
            "d_R(a) * TopK[b; 3](Sum[b]((x := a) * M1(x, b)))",
            ["Sum[x, b](S(a: x, b))"],
        ),
        # picked after the batch, of which no store knows
        ("d_R(a) * TopK[b; 3](After(S(b)))", "d_R(a) * TopK[b; 3](After(M1(b)))", ["Sum[b](S(b))"]),
    ],
)
def test_cut(text: str, expected: str, kept: list[str]) -> None:
    assert pieces(text) == (expected, kept)
