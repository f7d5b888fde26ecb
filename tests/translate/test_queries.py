"""A translated query, evaluated as the algebra says, equals DuckDB's answer. No delta, no rewrite, no engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from oracle import Oracle, Question, difference
from workload import SUITE, Churn, Database, Row

from translate.spark_sql import bound, catalog_of
from viewmill.algebra.evaluate import Contents, evaluate
from viewmill.translate import translate

QUERIES = Path(__file__).parents[1] / "fixtures" / "queries"
CATALOG = catalog_of(SUITE)


def questions() -> Iterator[object]:
    for file in sorted(QUERIES.glob("*.txt")):
        for block in file.read_text().strip().split("\n\n"):
            title, _, body = block.partition("\n")
            sql, _, duckdb = body.partition("\n-- duckdb:")
            yield pytest.param(Question(title[2:], sql, duckdb.strip() or None), id=f"{file.stem}: {title[2:]}")


@cache
def databases() -> tuple[tuple[Database, Oracle], ...]:
    """Two states of the tables, one of them sparse, and an empty one."""
    churn = Churn(SUITE, seed=crc32(b"translate"))
    states = [churn.snapshot()]
    for rows in (5, 9):
        churn.start(rows=rows)
        states.append(churn.snapshot())
    oracles = [Oracle(SUITE) for _ in states]
    for oracle, state in zip(oracles, states, strict=True):
        oracle.load(state)
    return tuple(zip(states, oracles, strict=True))


def rows_of(sql: str, database: Database) -> list[Row]:
    """The visible columns of the answer, every row as often as it weighs."""
    view = bound(sql, CATALOG)
    expr = translate(view).expr
    shown = len(view.query.columns) - view.hidden
    contents = {
        table.name: Contents(tuple(table.schema.names), dict(Counter(database[table.name]))) for table in SUITE
    }
    weighted = evaluate(expr, contents)
    assert all(type(weight) is int and weight > 0 for weight in weighted.values()), "weights are multiplicities"
    return [row[:shown] for row, weight in weighted.items() for _ in range(weight)]


@pytest.mark.parametrize("question", questions())
def test_a_translated_query_equals_its_sql(question: Question) -> None:
    for database, oracle in databases():
        answer = oracle.ask(question)
        truth = answer.rows if answer.candidates is None else answer.candidates
        assert not difference(rows_of(question.sql, database), truth)
