"""Each rewrite pass by example: where it fires, where it must not, and how it meets its neighbour.

A file of `tests/fixtures/rewrite` is named for its pass. A case can open with `-- passes: a, b` to run several, and
with `-- not null: R.a` for what the catalog knows. That passes preserve meaning is a law, tested in `tests/laws`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from fixture_cases import FIXTURES, cases

from viewmill.algebra import nodes
from viewmill.algebra.build import product
from viewmill.algebra.nodes import Expr, Relation
from viewmill.algebra.scalars import Call, Const, Var
from viewmill.algebra.text import parse, show
from viewmill.errors import InternalError
from viewmill.materialize.canonical import canonical
from viewmill.rewrite.drop_null_guards import Facts, drop_null_guards
from viewmill.rewrite.pipeline import EXPAND, PASSES, SIMPLIFY, Pass, expand, run, simplify

NAMES = (*PASSES, "drop_null_guards")


def options(given: str) -> tuple[dict[str, str], str]:
    """The lines `-- key: value` on top, and the rest."""
    found = {}
    while given.startswith("-- "):
        line, _, given = given.partition("\n")
        key, _, value = line[3:].partition(": ")
        found[key] = value
    return found, given


def passes(names: str, facts: Facts) -> tuple[Pass, ...]:
    guards = Pass("drop_null_guards", lambda expr: drop_null_guards(expr, facts), whole=True)
    known = {**PASSES, "drop_null_guards": guards}
    return tuple(known[name] for name in names.split(", "))


def facts_of(text: str) -> Facts:
    pairs = (name.split(".") for name in text.split(", ") if name)
    return Facts(frozenset((relation, field) for relation, field in pairs))


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        pytest.param(name, *case.values, id=f"{name}: {case.id}")
        for name in NAMES
        for case in cases(f"rewrite/{name}.txt")
    ],
)
def test_pass(name: str, given: str, expected: str) -> None:
    stated, text = options(given)
    chosen = passes(stated.get("passes", name), facts_of(stated.get("not null", "")))
    assert show(run(parse(text), chosen)) == show(parse(expected))


@pytest.mark.parametrize("name", NAMES)
def test_every_pass_has_a_case_where_it_fires_one_where_it_must_not_and_one_with_its_neighbour(name: str) -> None:
    found = {"fires": 0, "not": 0, "with": 0}
    for case in cases(f"rewrite/{name}.txt"):
        kind = str(case.id).split(":")[0].split(" ")[0]
        found[kind if kind in found else "fires"] += 1
    assert all(found.values()), found


def test_every_file_is_read() -> None:
    assert {file.stem for file in (FIXTURES / "rewrite").glob("*.txt")} == {*NAMES, "same"}


def blocks() -> list[object]:
    found = []
    for block in (FIXTURES / "rewrite" / "same.txt").read_text().strip().split("\n\n"):
        title, *lines = block.splitlines()
        assert title.startswith("# ") and len(lines) > 1, f"malformed block {title!r}"
        found.append(pytest.param(lines, id=title[2:]))
    return found


@pytest.mark.parametrize("lines", blocks())
def test_same(lines: list[str]) -> None:
    """All of a block simplify to one form, names and the order of factors aside."""
    forms = {show(canonical(simplify(parse(line)))[0]): line for line in lines}
    assert len(forms) == 1, forms


def test_observe_sees_every_pass_of_every_round() -> None:
    seen: list[tuple[str, bool]] = []
    expr = parse("Sum[a](R(a, b) * S(x) * {b = x} * {1 = 1})")
    result = run(expr, SIMPLIFY, observe=lambda name, before, after: seen.append((name, before != after)))
    names = [p.name for p in SIMPLIFY]
    rounds = len(seen) // len(names)
    assert [name for name, _ in seen] == names * rounds
    assert {name for name, changed in seen if changed} >= {"fold_constants", "unify", "prune_assignments"}
    assert not any(changed for _, changed in seen[-len(names) :]), "the last round changes nothing"
    assert result == simplify(expr)


@pytest.mark.parametrize("name", [p.name for p in (*SIMPLIFY, *EXPAND)])
def test_a_pass_left_out_is_not_run(name: str) -> None:
    chosen = tuple(p for p in (*SIMPLIFY, *EXPAND) if p.name != name)
    seen: set[str] = set()
    run(parse("Sum[a](R(a, b) * (S(b) + T(b)))"), chosen, observe=lambda name, before, after: seen.add(name))
    assert seen == {p.name for p in (*SIMPLIFY, *EXPAND)} - {name}


def test_passes_that_undo_each_other_are_an_error() -> None:
    def swap(**names: str) -> Pass:
        def step(expr: Expr) -> Expr:
            return replace(expr, name=names.get(expr.name, expr.name)) if isinstance(expr, Relation) else expr

        return Pass("swap", step)

    with pytest.raises(InternalError, match="rewrite passes do not converge: .* came back after a full round"):
        run(parse("R(a)"), (swap(R="S", T="R"), swap(S="T")))
    assert run(parse("R(a)"), (swap(R="S"), swap(S="T"))) == parse("T(a)")


def test_a_pass_that_changes_the_schema_is_named() -> None:
    def lose_a_column(expr: Expr) -> Expr:
        return Relation("R", ("a",), ("a",)) if isinstance(expr, Relation) else expr

    with pytest.raises(InternalError, match=r"pass lose_a_column changed the schema \('a', 'b'\) to \('a',\)"):
        run(parse("R(a, b)"), (Pass("lose_a_column", lose_a_column),))


def test_a_pass_that_makes_up_inputs_is_named() -> None:
    def ask_for_x(expr: Expr) -> Expr:
        return product(expr, nodes.Test(Call("<", (Var("x"), Const(1))))) if isinstance(expr, Relation) else expr

    with pytest.raises(InternalError, match=r"pass ask_for_x made up inputs frozenset\(\{'x'\}\)"):
        run(parse("R(a, b)"), (Pass("ask_for_x", ask_for_x),))


@pytest.mark.parametrize("whole", [simplify, expand])
@pytest.mark.parametrize(
    "text",
    [
        "Sum[a](R(a, b) * S(b: x, c) * {b = x} * [b * c])",
        "Exists(Sum[a](R(a, b) * {b > 3 and a < 1}))",
        "Sum[](R(a, b) * (X := Sum[](S(b: b2) * {b = b2})) * {a < X})",
        "Sum[a](R(a) * S(b) * {a = 1 or b = 2} * [a + b])",
    ],
)
def test_the_pipeline_is_idempotent(whole: object, text: str) -> None:
    once = whole(parse(text))  # type: ignore[operator]
    assert whole(once) == once  # type: ignore[operator]
