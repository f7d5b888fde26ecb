"""Products run from left to right, cheapest first."""

from __future__ import annotations

import pytest

from viewmill.algebra.nodes import DeltaRelation, Product, Relation
from viewmill.algebra.text import parse
from viewmill.program.order import order


def names(text: str) -> list[str]:
    ordered = order(parse(text))
    assert isinstance(ordered, Product)
    return [
        f"d_{factor.name}" if isinstance(factor, DeltaRelation) else factor.name
        for factor in ordered.factors
        if isinstance(factor, Relation | DeltaRelation)
    ]


def test_batches_come_before_stores():
    assert names("M(a, b) * d_R(a)") == ["d_R", "M"]


@pytest.mark.parametrize(
    "text",
    [
        "d_N(s) * d_N(c) * supplier(k, s) * item(k, o) * orders(o, c)",
        "orders(o, c) * item(k, o) * supplier(k, s) * d_N(c) * d_N(s)",
    ],
)
def test_a_second_batch_waits_until_it_is_connected(text):
    """Else each row of the one is paired with each row of the other."""
    found = names(text)
    assert found[0] == found[-1] == "d_N"


def test_a_second_batch_that_is_connected_is_next():
    assert names("M(b, c) * d_R(a, b) * d_R(a)") == ["d_R", "d_R", "M"]
    assert names("d_R(a) * M(b) * d_R(b)") == ["d_R", "d_R", "M"]  # nothing else connects them
