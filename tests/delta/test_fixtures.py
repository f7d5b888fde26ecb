"""Deltas and domains by example. That they are exact is a law, tested in `tests/laws`.

`rules.txt` holds the linear rules of Hot Dog section 3.1 as they are derived, `nonlinear.txt` the others, simplified;
`domains.txt` holds domain extraction (section 3.2.2).
"""

from __future__ import annotations

import pytest
from fixture_cases import FIXTURES, cases

from viewmill.algebra.evaluate import Contents, evaluate
from viewmill.algebra.nodes import After
from viewmill.algebra.text import parse, show
from viewmill.delta.derive import delta, reach
from viewmill.delta.domains import domain
from viewmill.errors import InternalError
from viewmill.rewrite.pipeline import simplify


def split(given: str, word: str) -> tuple[str, frozenset[str]]:
    text, _, names = given.rpartition(f" {word} ")
    return text, frozenset(names.split(", "))


@pytest.mark.parametrize(("given", "expected"), cases("delta/rules.txt"))
def test_rule(given: str, expected: str) -> None:
    text, changed = split(given, "on")
    assert show(delta(parse(text), changed)) == show(parse(expected))


@pytest.mark.parametrize(("given", "expected"), cases("delta/nonlinear.txt"))
def test_nonlinear(given: str, expected: str) -> None:
    text, changed = split(given, "on")
    assert show(simplify(delta(parse(text), changed))) == show(parse(expected))


@pytest.mark.parametrize(("given", "expected"), cases("delta/domains.txt"))
def test_domain(given: str, expected: str) -> None:
    text, wanted = split(given, "over")
    found = domain(parse(text), wanted)
    assert ("none" if found is None else show(found)) == ("none" if expected == "none" else show(parse(expected)))


def test_every_file_is_read() -> None:
    assert {file.stem for file in (FIXTURES / "delta").glob("*.txt")} == {"rules", "nonlinear", "domains"}


def test_a_row_that_moves_within_its_group_is_in_the_domain() -> None:
    """Its weights add up to 0; a domain without the inner Exists would miss the group."""
    batch = {"R": Contents(("a", "b"), {(1, 4): -1, (1, 5): 1, (2, 9): 1})}
    found = domain(parse("d_R(a, b)"), frozenset({"a"}))
    assert found is not None
    assert evaluate(found, {}, batch) == {(1,): 1, (2,): 1}
    assert evaluate(parse("Exists(Sum[a](d_R(a, b)))"), {}, batch) == {(2,): 1}


def test_reach_of_a_view_is_the_union_over_its_stores() -> None:
    found = reach(parse("Exists(M(a)) * (n := Sum[](N(a: x) * (x := a)))"), frozenset({"M", "N"}))
    assert found is not None
    assert show(simplify(found)) == "Exists(Exists(d_M(a)) + Exists(d_N(a)))"
    assert reach(parse("M(a) * (n := Sum[](N(b)))"), frozenset({"M", "N"})) is None


def test_a_delta_has_no_delta() -> None:
    with pytest.raises(InternalError, match="a delta has no delta of its own"):
        delta(After(parse("R(a)")), frozenset({"R"}))
