"""The 22 TPC-H queries, maintained every way through twenty batches over all eight tables, against DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from follow import WAYS, Story, failures, tell, ways
from oracle import Question
from tpch_data import tpch
from workload import Batch, Churn, Database

QUERIES = sorted((Path(__file__).parents[1] / "fixtures" / "tpch").glob("q*.sql"))
BATCHES = 20
SEED = 5  # of those tried, the one that leaves the fewest answers empty


@cache
def story() -> Story:
    return tell(tpch().tables, (Question(file.stem, file.read_text()) for file in QUERIES), steps())


def steps() -> Iterator[tuple[Batch, Database]]:
    churn = Churn(tpch().tables, SEED)
    yield churn.load(tpch().initial), churn.snapshot()
    for _ in range(BATCHES):
        yield churn.step(), churn.snapshot()


@pytest.mark.parametrize(WAYS, ways(), indirect=["executor"])
def test_views_follow_their_queries(executor: str, strategy: str) -> None:
    wrong = failures(story(), strategy)
    assert not wrong, "\n\n".join(wrong)


def test_there_are_22_queries_and_20_batches_over_all_tables() -> None:
    assert len(story().questions) == 22
    first, *later = story().batches
    assert len(later) == BATCHES
    touched = {operation.table for batch in later for operation in batch}
    assert touched == {table.name for table in tpch().tables}
    assert {operation.kind for batch in later for operation in batch} == {"insert", "delete", "update"}


@pytest.mark.parametrize("number", range(22), ids=[file.stem for file in QUERIES])
def test_the_answer_is_seldom_empty_and_often_new(number: int) -> None:
    answers = [answers[number].rows for answers in story().answers]
    empty = [step for step, rows in enumerate(answers) if all(set(row) <= {None} for row in rows)]
    assert 4 * len(empty) <= len(answers), f"no answer after batches {empty}"
    assert len({repr(rows) for rows in answers}) > 3
