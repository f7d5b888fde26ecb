"""What happens to programs after strategies have written their statements: each step by example.

The cases are programs in text (`tests/fixtures/program`), or the statements of one trigger, in which case the relation
is the one whose batch they read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixture_cases import FIXTURES, cases

from viewmill.algebra.nodes import Relation
from viewmill.algebra.schema import walk
from viewmill.algebra.text import parse as parse_expr
from viewmill.algebra.text import show as show_expr
from viewmill.errors import InternalError
from viewmill.program.access import accesses
from viewmill.program.check import check
from viewmill.program.dead_stores import drop_dead_stores
from viewmill.program.nodes import Program, Statement, Store, Trigger
from viewmill.program.order import order
from viewmill.program.parse import parse, without_notes
from viewmill.program.schedule import schedule
from viewmill.program.share_parts import share_parts
from viewmill.program.text import show, show_statement


def statements(text: str, relation: str = "R") -> tuple[Statement, ...]:
    return parse(f"on {relation}:\n{text}").triggers[relation].statements


def lines(found: tuple[Statement, ...]) -> str:
    return without_notes("\n".join(map(show_statement, found)))


@pytest.mark.parametrize(("given", "expected"), cases("program/check.txt"))
def test_check(given: str, expected: str) -> None:
    with pytest.raises(InternalError) as error:
        check(parse(given))
    assert error.value.message == expected


@pytest.mark.parametrize(("given", "expected"), cases("program/order.txt"))
def test_order(given: str, expected: str) -> None:
    assert show_expr(order(parse_expr(given))) == expected


def test_what_cannot_be_ordered_is_an_error() -> None:
    with pytest.raises(InternalError, match="no factor can be run: x is never bound"):
        order(parse_expr("R(a) * {a < x}"))
    assert show_expr(order(parse_expr("R(a) * {a < x}"), frozenset({"x"}))) == "R(a) * {a < x}"


@pytest.mark.parametrize(("given", "expected"), cases("program/access.txt"))
def test_access(given: str, expected: str) -> None:
    triggers = parse(given).triggers
    found = accesses(Program({store.name: store for store in read_stores(triggers["R"])}, triggers, {}, {}))
    assert [f"{name}: {', '.join(map(str, ways))}" for name, ways in found.items() if ways] == expected.splitlines()


def read_stores(trigger: Trigger) -> Iterator[Store]:
    """The stores that a trigger reads, with the keys it reads them by."""
    keys: dict[str, dict[str, None]] = {}
    for node in (node for s in trigger.statements for node in walk(s.expr)):
        if isinstance(node, Relation):
            keys.setdefault(node.name, {}).update(dict.fromkeys(node.fields))
    for name, fields in keys.items():
        yield Store(name, tuple(fields), Relation("R", tuple(fields), tuple(fields)))


@pytest.mark.parametrize(("given", "expected"), cases("program/schedule.txt"))
def test_schedule(given: str, expected: str) -> None:
    done = schedule("R", statements(given))
    assert lines(done) == expected


@pytest.mark.parametrize(
    "circle",
    [
        "A(b) += d_R(b) * B(b)\nB(b) += d_R(b) * A(b)",
        "A(b) += d_B(b)\nB(b) += d_A(b)",
        "A(b) := B(b)\nB(b) := A(b)",
    ],
)
def test_a_circle_is_an_error(circle: str) -> None:
    with pytest.raises(InternalError, match="statements read each other in a circle: A, B"):
        schedule("R", statements(circle))


@pytest.mark.parametrize(("given", "expected"), cases("program/share_parts.txt"))
def test_share_parts(given: str, expected: str) -> None:
    relation = "S" if "d_S" in given else "R"
    assert lines(share_parts(relation, statements(given, relation))) == lines(statements(expected, relation))


@pytest.mark.parametrize(("given", "expected"), cases("program/dead_stores.txt"))
def test_dead_stores(given: str, expected: str) -> None:
    assert without_notes(show(drop_dead_stores(parse(given)))) == without_notes(show(parse(expected)))


def test_what_is_left_of_the_fields_is_what_is_read() -> None:
    text = "view v(b) = Q(b)\nstore Q(b) = R(b)\nstore M(b) = S(b)\non R:\n Q(b) += d_R(b)\non S:\n M(b) += d_S(b)"
    assert parse(text).fields.keys() == {"R", "S"}
    assert drop_dead_stores(parse(text)).fields.keys() == {"R"}


def test_every_file_is_read() -> None:
    files = {"check", "order", "access", "schedule", "share_parts", "dead_stores"}
    assert {file.stem for file in (FIXTURES / "program").glob("*.txt")} == files
