"""A translated query, evaluated as the algebra says, equals DuckDB's answer. No delta, no rewrite, no engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from oracle import Oracle, Question, difference
from translate.spark_sql import bound, catalog_of
from workload import SUITE, Churn, Database, Row

from viewmill.algebra.evaluate import Contents, evaluate
from viewmill.algebra.nodes import Expr
from viewmill.translate import translate

FIXTURES = Path(__file__).parents[1] / "fixtures"
FILES = [*sorted((FIXTURES / "queries").glob("*.txt")), FIXTURES / "translate" / "hard_queries.txt"]
CATALOG = catalog_of(SUITE)


def questions() -> Iterator[object]:
    for file in FILES:
        for block in file.read_text().strip().split("\n\n"):
            title, _, body = block.partition("\n")
            sql, _, duckdb = body.partition("\n-- duckdb:")
            yield pytest.param(Question(title[2:], sql, duckdb.strip() or None), id=f"{file.stem}: {title[2:]}")


@cache
def databases() -> tuple[tuple[Database, Oracle], ...]:
    """Three states of the tables: empty, sparse, and full of duplicates."""
    churn = Churn(SUITE, seed=crc32(b"translate"))
    states = [churn.snapshot()]
    for rows in (6, 14):
        churn.start(rows=rows)
        states.append(churn.snapshot())
    oracles = [Oracle(SUITE) for _ in states]
    for oracle, state in zip(oracles, states, strict=True):
        oracle.load(state)
    return tuple(zip(states, oracles, strict=True))


@pytest.mark.parametrize("question", list(questions()))
def test_a_translated_query_equals_its_sql(question: Question) -> None:
    view = bound(question.sql, CATALOG)
    expr = translate(view).expr
    shown = len(view.query.columns) - view.hidden
    for database, oracle in databases():
        answer = oracle.ask(question)
        truth = answer.rows if answer.candidates is None else answer.candidates
        assert not difference((row[:shown] for row in rows(expr, database)), truth)


def rows(expr: Expr, database: Database) -> Iterator[Row]:
    """Every row as often as it weighs."""
    contents = {table.name: Contents(tuple(table.schema.names), dict(Counter(database[table.name]))) for table in SUITE}
    for row, weight in evaluate(expr, contents).items():
        assert type(weight) is int and weight > 0, "weights are multiplicities"
        yield from [row] * weight
