"""Views of one mill, followed through the same batches as DuckDB and compared after each.

A `Story` is what happens: tables, questions asked of them, batches, and the answers after every batch. It does not
depend on how the views are maintained, so DuckDB answers once for all strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from oracle import Answer, Oracle, Question, disagreement, rows_of
from workload import Batch, Database, Table, apply

import viewmill

Connect = Callable[[], Any]
"""Makes a mill, here or on Spark."""

STRATEGIES = ("recursive", "first_order", "reevaluate", "auto")


def ways(*quick: str) -> list[ParameterSet]:
    """Every executor with every strategy. `make check` has the quick ones interpreted, `make test` all of them, and
    compiled those that `auto` chooses; the others are left to `make exhaustive`."""
    slow, exhaustive = pytest.mark.slow, pytest.mark.exhaustive
    return [
        *(pytest.param("interpreted", name, marks=() if name in quick else slow) for name in STRATEGIES),
        *(pytest.param("compiled", name, marks=slow if name == "auto" else exhaustive) for name in STRATEGIES),
        pytest.param("midway", "auto", marks=exhaustive),
    ]


WAYS = ("executor", "strategy")
"""The parameters that `ways` gives values to."""


@dataclass(frozen=True)
class Story:
    tables: tuple[Table, ...]
    questions: tuple[Question, ...]
    batches: tuple[Batch, ...]
    answers: tuple[tuple[Answer, ...], ...]


def tell(tables: Sequence[Table], questions: Iterable[Question], steps: Iterable[tuple[Batch, Database]]) -> Story:
    """Ask DuckDB every question after every step, a batch and the tables after it."""
    asked, batches, answers = tuple(questions), [], []
    oracle = Oracle(tables)
    for batch, database in steps:
        oracle.load(database)
        batches.append(batch)
        answers.append(tuple(oracle.ask(question) for question in asked))
    return Story(tuple(tables), asked, tuple(batches), tuple(answers))


def failures(story: Story, strategy: str, connect: Connect = viewmill.connect) -> list[str]:
    """Every view that is refused, wrong or in the way of a batch, with what is wrong about it. They share one mill."""
    everything = range(len(story.questions))
    try:
        return list(_follow(story, strategy, everything, connect))
    except Exception as error:
        # One view that cannot take a batch stops them all: find out which.
        return [message for number in everything for message in _follow_one(story, strategy, number, connect)] or [
            f"together the views reject a batch: {_describe(error)}"
        ]


def _follow(story: Story, strategy: str, chosen: Iterable[int], connect: Connect) -> Iterator[str]:
    """Complaints about the chosen views; a view is dropped from sight at its first failure."""
    mill = connect()
    for table in story.tables:
        mill.sql(table.ddl)
    alive = []
    for number in chosen:
        question = story.questions[number]
        try:
            mill.sql(f"CREATE MATERIALIZED VIEW v{number} WITH (maintain = '{strategy}') AS\n{question.sql}")
            alive.append(number)
        except Exception as error:
            yield f"{question.title}: cannot be created\n{question.sql}\n{_describe(error)}"
    for step, batch in enumerate(story.batches):
        apply(mill, batch)
        for number in tuple(alive):
            question = story.questions[number]
            if wrong := _compare(mill, number, question, story.answers[step][number]):
                alive.remove(number)
                yield f"{question.title}: wrong after batch {step}\n{question.sql}\n{wrong}"


def _follow_one(story: Story, strategy: str, number: int, connect: Connect) -> list[str]:
    try:
        return list(_follow(story, strategy, (number,), connect))
    except Exception as error:
        question = story.questions[number]
        return [f"{question.title}: rejects a batch\n{question.sql}\n{_describe(error)}"]


def _compare(mill: Any, number: int, question: Question, answer: Answer) -> str:
    table = mill.view(f"v{number}").to_arrow()
    if wrong := disagreement(question, rows_of(table), answer):
        return wrong
    columns = table.column_names
    if any(name is not None and name != column for name, column in zip(question.names, columns, strict=False)):
        return f"columns {columns}\ninstead of {question.names}"
    return ""


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
