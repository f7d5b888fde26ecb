"""docs/architecture.md shows what the compiler does: its SQL is run, and its outputs are compared.

`REWRITE_DOCS=1` in the environment writes them anew.
"""

from __future__ import annotations

import io
import os
import re
from contextlib import redirect_stdout
from pathlib import Path

import viewmill
from viewmill.algebra.text.layout import WIDTH, layout
from viewmill.program.parse import parse

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
_WHOLE = ("bound", "algebra", "program", "placed", "blocks")
OUTPUT = re.compile(r"<!-- (.+?) -->\n```text\n(.*?)```", re.DOTALL)


def test_outputs() -> None:
    page = PAGE.read_text()
    found = outputs(page)
    written = OUTPUT.sub(lambda match: f"<!-- {match[1]} -->\n```text\n{found[match[1]]}\n```", page)
    if os.environ.get("REWRITE_DOCS"):
        PAGE.write_text(written)
    else:
        assert page == written, "run with REWRITE_DOCS=1 to write docs/architecture.md anew"


def test_every_stage_is_shown() -> None:
    shown = [name for name, _ in OUTPUT.findall(PAGE.read_text())]
    stages = ["bound", "algebra", "delta of returns", "program"], ["placed", "blocks"]
    compiled, distributed = ([f"stage: {stage}" for stage in some] for some in stages)
    assert shown == [*compiled, "run", "status", *distributed]


def test_every_folder_of_the_pipeline_is_named() -> None:
    page = PAGE.read_text()
    package = Path(viewmill.__file__).parent
    compiler = ("sql", "translate", "rewrite", "delta", "materialize", "program", "engines", "algebra")
    assert all((package / folder).is_dir() and f"{folder}/" in page for folder in compiler)


def outputs(page: str) -> dict[str, str]:
    (sql,) = blocks(page, "sql")
    (session,) = blocks(page, "python")
    mill = viewmill.connect()
    mill.sql(sql)
    found = {f"stage: {stage}": mill.explain("trouble", stage=stage) for stage in _WHOLE}
    found["stage: delta of returns"] = section(mill.explain("trouble", stage="delta"), "on returns:")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(session, {"mill": mill})
    assert mill.verify("trouble")
    found["run"] = printed.getvalue().strip()
    found["status"] = "\n".join(line.rstrip() for line in str(mill.status()).splitlines())
    return found


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_what_is_laid_out_still_parses() -> None:
    (sql,) = blocks(PAGE.read_text(), "sql")
    mill = viewmill.connect()
    mill.sql(sql)
    text = mill.explain("trouble")
    joined = re.sub(r"\n {4,}", " ", text)  # statements on one line again
    assert max(map(len, text.splitlines())) <= WIDTH < max(map(len, joined.splitlines()))
    assert parse(text) == parse(layout(text))


def section(text: str, head: str) -> str:
    """The line `head` and the indented lines below it."""
    match = re.search(rf"^{head}\n(?:  .*\n?)*", text, re.MULTILINE)
    assert match is not None
    return match[0].rstrip()
