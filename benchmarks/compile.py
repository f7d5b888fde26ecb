"""How long the compiler takes from SQL text to a checked program, for every TPC-H query and strategy.

    python benchmarks/compile.py [--queries q01,q17] [--strategies auto,recursive] [--repeat 3]

A time is the least of several compilations, each with cold caches. Beside it stand the numbers of stores and
statements; below the table, why a strategy refuses a query. A run over everything is written to `results/`.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from viewmill.definitions import Definitions
from viewmill.errors import UnsupportedError
from viewmill.program.nodes import Program
from viewmill.sql.parse import parse_statements
from viewmill.sql.statements import CreateTable, CreateView

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
QUERIES = TESTS / "fixtures" / "tpch"
RESULTS = HERE / "results"
STRATEGIES = "auto,recursive,first_order,reevaluate"
LIMIT = 1000
"""Milliseconds that any query may take."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One query compiled with one strategy, or why it is refused."""

    query: str
    strategy: str
    milliseconds: float = 0
    stores: int = 0
    statements: int = 0
    refused: str = ""

    def __str__(self) -> str:
        counts = f"{self.stores}/{self.statements}"
        return "refused" if self.refused else f"{self.milliseconds:.0f} ms {counts:>6}"


def main(
    queries: Annotated[str, typer.Option(help="Names such as q01,q17; all if empty.")] = "",
    strategies: Annotated[str, typer.Option(help="Ways of maintenance.")] = STRATEGIES,
    repeat: Annotated[int, typer.Option(help="Compilations of which the fastest counts.", min=1)] = 3,
) -> None:
    names = queries.split(",") if queries else sorted(file.stem for file in QUERIES.glob("q*.sql"))
    ways = strategies.split(",")
    definitions = tables()
    found = [[measure(definitions, name, way, repeat) for way in ways] for name in names]
    show(found, ways)
    if not queries and strategies == STRATEGIES:
        write(found, ways)


def tables() -> Definitions:
    sys.path.insert(0, str(TESTS))
    from tpch_schema import TPCH_SCHEMA

    definitions = Definitions()
    for statement in parse_statements(TPCH_SCHEMA):
        assert isinstance(statement, CreateTable)
        definitions = definitions.create_table(statement)
    return definitions


def measure(definitions: Definitions, query: str, strategy: str, repeat: int) -> Measurement:
    text = (QUERIES / f"{query}.sql").read_text()
    try:
        runs = [compiled(definitions, text, strategy) for _ in range(repeat)]
    except UnsupportedError as refusal:
        return Measurement(query, strategy, refused=refusal.message)
    program = runs[0][1]
    statements = sum(len(trigger.statements) for trigger in program.triggers.values())
    least = min(seconds for seconds, _ in runs)
    return Measurement(query, strategy, round(least * 1000, 1), len(program.stores), statements)


def compiled(definitions: Definitions, query: str, maintain: str) -> tuple[float, Program]:
    """Seconds, and the program."""
    sql = f"CREATE MATERIALIZED VIEW v WITH (maintain = '{maintain}') AS {query.rstrip().rstrip(';')}"
    forget_everything()
    start = time.perf_counter()
    (statement,) = parse_statements(sql)
    assert isinstance(statement, CreateView)
    program = definitions.create_view(statement).program
    return time.perf_counter() - start, program


def forget_everything() -> None:
    """Empty our caches, so that one compilation does not profit from another."""
    kind = type(lru_cache(lambda: None))
    for cached in gc.get_objects():
        if isinstance(cached, kind) and str(getattr(cached, "__module__", "")).startswith("viewmill."):
            cached.cache_clear()
    gc.collect()


def show(found: list[list[Measurement]], ways: list[str]) -> None:
    table = Table(title="SQL to program: time, stores/statements")
    table.add_column("query")
    for way in ways:
        table.add_column(way, justify="right")
    for row in found:
        table.add_row(row[0].query, *(f"[red]{m}" if m.milliseconds > LIMIT else str(m) for m in row))
    console = Console()
    console.print(table)
    for line in refusals(found):
        console.print(line)


def refusals(found: list[list[Measurement]]) -> Iterable[str]:
    return (f"{m.query}, {m.strategy}: {m.refused}" for row in found for m in row if m.refused)


def write(found: list[list[Measurement]], ways: list[str]) -> None:
    """The results as Markdown for readers, and as JSON for comparing runs."""
    RESULTS.mkdir(exist_ok=True)
    where = {"commit": commit(), "machine": machine()}
    rows = [asdict(m) for row in found for m in row]
    (RESULTS / "compile.json").write_text(json.dumps({**where, "measurements": rows}, indent=1) + "\n")
    lines = [
        "# Compile time of the TPC-H queries",
        "",
        "From SQL text to a checked program with cold caches: time, and the numbers of stores/statements.",
        "",
        f"Commit {where['commit']}. Machine: {where['machine']}.",
        "",
        f"| query | {' | '.join(ways)} |",
        f"| --- |{' ---: |' * len(ways)}",
        *(f"| {row[0].query} | {' | '.join(' '.join(str(m).split()) for m in row)} |" for row in found),
        *(f"\n{line}" for line in refusals(found)),
    ]
    (RESULTS / "compile.md").write_text("\n".join(lines) + "\n")


def commit() -> str:
    """The commit measured, with a plus sign where the source has been changed since."""
    return _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "--", "src") else "")


def _git(*words: str) -> str:
    try:
        return subprocess.run(
            ["git", *words], cwd=HERE.parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"


if __name__ == "__main__":
    typer.run(main)
