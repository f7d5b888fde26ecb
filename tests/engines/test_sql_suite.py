"""Hundreds of small queries, maintained every way, against DuckDB.

Each file of `fixtures/queries` is a theme. All its queries are views of one mill, so that they share stores; after
every batch each of them must equal DuckDB's answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from follow import WAYS, Story, failures, tell, ways
from oracle import difference, questions_of
from workload import SUITE, Batch, Churn, Database

QUERIES = Path(__file__).parents[1] / "fixtures" / "queries"
THEMES = sorted(file.stem for file in QUERIES.glob("*.txt"))
SALT = 6  # of those tried, the one that leaves the fewest answers empty


@cache
def story(theme: str) -> Story:
    return tell(SUITE, questions_of(QUERIES / f"{theme}.txt"), steps(seed=crc32(theme.encode()) + SALT))


def steps(seed: int) -> Iterator[tuple[Batch, Database]]:
    """What a theme lives through: tables that fill, change, empty, fill again and change."""
    churn = Churn(SUITE, seed)
    yield churn.start(rows=12), churn.snapshot()
    for _ in range(3):
        yield churn.step(), churn.snapshot()
    yield churn.clear(), churn.snapshot()
    yield churn.start(rows=8), churn.snapshot()
    yield churn.step(), churn.snapshot()


@pytest.mark.parametrize(WAYS, ways("recursive"), indirect=["executor"])
@pytest.mark.parametrize("theme", THEMES)
def test_views_follow_their_queries(theme: str, executor: str, strategy: str) -> None:
    wrong = failures(story(theme), strategy)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("theme", THEMES)
def test_queries_have_something_to_say(theme: str) -> None:
    """An answer that never changes proves nothing. Up to a third of a theme may be about emptiness itself."""
    first, *later = story(theme).answers
    silent = [
        question.title
        for number, question in enumerate(story(theme).questions)
        if not any(difference(answer[number].rows, first[number].rows) for answer in later)
    ]
    assert 3 * len(silent) <= len(first), silent
