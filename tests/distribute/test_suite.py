"""The small queries of the SQL suite, distributed: nested queries, outer joins, limits, NULLs and doubles."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from distribute.stories import changes, compiled, distributed_at_random, wrong
from oracle import questions_of
from workload import SUITE

from viewmill.distribute import distribute

QUERIES = Path(__file__).parents[1] / "fixtures" / "queries"
THEMES = sorted(file.stem for file in QUERIES.glob("*.txt"))
QUICK = ("exists", "group_by", "joins_inner", "joins_outer", "nested_subqueries", "self_joins", "distinct_aggregates")


def theme_program(theme, strategy="auto"):
    views = {f"v{i}": question.sql for i, question in enumerate(questions_of(QUERIES / f"{theme}.txt"))}
    return compiled(tuple(table.ddl for table in SUITE), views, strategy)


def story(theme):
    return changes(SUITE, crc32(theme.encode()))


@pytest.mark.parametrize(
    "theme", [pytest.param(theme, marks=() if theme in QUICK else pytest.mark.exhaustive) for theme in THEMES]
)
def test_distributed_equals_undistributed(theme):
    program, catalog = theme_program(theme)
    assert not wrong(program, catalog, distribute(program, catalog), story(theme))


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["recursive", "first_order"])
@pytest.mark.parametrize("theme", THEMES)
def test_stores_anywhere(theme, strategy):
    program, catalog = theme_program(theme, strategy)
    distributed = distributed_at_random(program, catalog, crc32(f"{theme} {strategy}".encode()))
    assert not wrong(program, catalog, distributed, story(theme))
