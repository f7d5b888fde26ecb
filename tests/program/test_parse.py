"""The text form of programs: what is shown reads back as the same program, notes aside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tpch_schema import TPCH_SCHEMA

import viewmill
from viewmill.algebra.text import parse as parse_expr
from viewmill.engines.interpreter import Interpreter
from viewmill.errors import ParseError
from viewmill.program.check import check
from viewmill.program.nodes import Program, Statement, Store, Trigger, ViewPlan
from viewmill.program.parse import parse, without_notes
from viewmill.program.text import show

QUERIES = sorted((Path(__file__).parents[1] / "fixtures" / "tpch").glob("q*.sql"))
STRATEGIES = ("recursive", "first_order", "reevaluate", "auto")


def assert_reads_back(text: str) -> None:
    again = parse(text)
    assert on_one_line(show(again)) == on_one_line(text)
    check(again)


def on_one_line(text: str) -> str:
    """Without notes and line breaks, which `explain` puts where an expression is long."""
    flat = re.sub(r"\s+", " ", without_notes(text))
    return flat.replace("( ", "(").replace(" )", ")")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("file", QUERIES, ids=lambda file: file.stem)
def test_tpch_programs_read_back(file: Path, strategy: str) -> None:
    mill = viewmill.connect()
    mill.sql(TPCH_SCHEMA)
    mill.sql(f"CREATE MATERIALIZED VIEW v WITH (maintain = '{strategy}') AS\n{file.read_text()}")
    assert_reads_back(mill.explain("v"))


def test_odd_names_and_constants_read_back() -> None:
    mill = viewmill.connect()
    mill.sql("CREATE TABLE d_r (`a b` INT, s STRING)")
    query = "SELECT s, count(*), max(`a b`) AS `m-x` FROM d_r WHERE s <> '-- s' GROUP BY s"
    mill.sql(f"CREATE MATERIALIZED VIEW `my view` AS {query}")
    text = mill.explain("my view")
    assert "view `my view`(s, `count(1)`, `m-x`) =" in text
    assert "on d_r:" in text
    assert_reads_back(text)


def test_everything_but_the_notes_is_kept() -> None:
    reads_store = Statement("Q", ("b",), "+=", parse_expr("d_M(b) * M(b)"), "recursive", "")
    change = Statement("M", ("b",), "let", parse_expr("Sum[b](d_R(a, b) * a)"), "recursive", "")
    anew = Statement("N", (), ":=", parse_expr("Sum[](M(b))"), "reevaluate", "")
    program = Program(
        {"Q": Store("Q", ("b",), parse_expr("R(b)")), "M": Store("M", ("b",), parse_expr("Sum[b](R(a, b) * a)"))},
        {"R": Trigger("R", (change, reads_store, anew))},
        {"v": ViewPlan("v", ("b",), parse_expr("Q(b)"), parse_expr("Q(b)"), parse_expr("Q(b)"), ())},
        {"R": ("b", "a")},
    )
    assert parse(show(program)) == program


def test_line_breaks_and_notes_are_free() -> None:
    narrow = """
    -- counts by b
    view v(b, n) = Q(b)
      * (n := Q(b))          -- the weight, as a column
    store Q(b) =
      Sum[b](
        R(a, b) * {a <> '-- text'})
    on R:
      Q(b)
        += Sum[b](d_R(a, b) * {a <> '-- text'})
    """
    wide = """view v(b, n) = Q(b) * (n := Q(b))
store Q(b) = Sum[b](R(a, b) * {a <> '-- text'})

on R:
  Q(b) += Sum[b](d_R(a, b) * {a <> '-- text'})"""
    assert parse(narrow) == parse(wide)
    assert without_notes(show(parse(narrow))) == wide


def test_a_program_written_by_hand_runs() -> None:
    text = """
    view v(b, n) = Exists(Q(b)) * (n := Q(b))
    store Q(b) = Sum[b](R(a, b))
    on R:
      Q(b) += Sum[b](d_R(a, b))
    """
    engine = Interpreter()
    engine.install(parse(text, {"R": ("a", "b")}), {"R": {(1, 1): 1, (2, 1): 1}})
    changes = engine.apply({"R": {(1, 1): -1, (1, 2): 3}}, frozenset({"v"}))
    assert engine.contents("v") == {(1, 1): 1, (2, 3): 1}
    assert changes["v"] == {(1, 2): -1, (1, 1): 1, (2, 3): 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("R(a) * S(a)", "expected view, store or on"),
        ("Q(b) += d_R(b)", "a statement of 'Q' with '+=' cannot stand here"),
        ("store Q(b) += d_R(b)", "store of 'Q' with '+=' cannot stand here"),
        ("on R:\n  let Q(b) = d_R(b)", "let of 'Q' with '=' cannot stand here"),
        ("on R:\n  R(a) * S(a)", "expected a statement, found 'R(a) * S(a)'"),
        ("store Q(b) = Sum[b](R(b)", "expected ')', the text ends"),
    ],
)
def test_what_is_no_program_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError) as refusal:
        parse(text)
    assert refusal.value.message == message
