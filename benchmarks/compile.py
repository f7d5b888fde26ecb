"""How long the compiler takes from SQL text to a checked program, for every TPC-H query and strategy.

    python benchmarks/compile.py [--queries q01,q17] [--strategies auto,recursive]

Each time is that of one compilation with cold caches. Stores and statements are those of the program; the reason is
printed where a strategy refuses a query.
"""

from __future__ import annotations

import gc
import sys
import time
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

TESTS = Path(__file__).parent.parent / "tests"
QUERIES = TESTS / "fixtures" / "tpch"
STRATEGIES = "auto,recursive,first_order,reevaluate"


def tables() -> Definitions:
    sys.path.insert(0, str(TESTS))
    from tpch_schema import TPCH_SCHEMA

    definitions = Definitions()
    for statement in parse_statements(TPCH_SCHEMA):
        assert isinstance(statement, CreateTable)
        definitions = definitions.create_table(statement)
    return definitions


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


def cell(definitions: Definitions, query: str, maintain: str) -> str:
    try:
        seconds, program = compiled(definitions, query, maintain)
    except UnsupportedError as refusal:
        return f"refused: {refusal.message}"
    statements = sum(len(trigger.statements) for trigger in program.triggers.values())
    slow = "[red]" if seconds > 1 else ""
    return f"{slow}{seconds * 1000:5.0f} ms {len(program.stores):3} stores {statements:4} statements"


def main(
    queries: Annotated[str, typer.Option(help="Names such as q01,q17; all if empty.")] = "",
    strategies: Annotated[str, typer.Option(help="Ways of maintenance.")] = STRATEGIES,
) -> None:
    names = queries.split(",") if queries else sorted(file.stem for file in QUERIES.glob("q*.sql"))
    ways = strategies.split(",")
    definitions = tables()
    table = Table("query", *ways)
    for name in names:
        text = (QUERIES / f"{name}.sql").read_text()
        table.add_row(name, *(cell(definitions, text, way) for way in ways))
    Console(width=max(Console().width, 12 + 38 * len(ways))).print(table)


if __name__ == "__main__":
    typer.run(main)
