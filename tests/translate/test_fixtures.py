"""SQL and the algebra it becomes, one file for each construct. Where lines break is up to the fixture."""

from __future__ import annotations

import pytest
from fixture_cases import FIXTURES, cases
from translate.spark_sql import bound, catalog_of
from workload import SUITE

from viewmill.algebra.text import parse, show
from viewmill.translate import translate

FILES = ("select", "conditions", "joins", "aggregates", "subqueries", "set_operations")
CATALOG = catalog_of(SUITE)


@pytest.mark.parametrize(("sql", "algebra"), [case for file in FILES for case in cases(f"translate/{file}.txt")])
def test_translation(sql: str, algebra: str) -> None:
    assert show(translate(bound(sql, CATALOG)).expr) == show(parse(algebra))


def test_every_file_is_read() -> None:
    assert {file.stem for file in (FIXTURES / "translate").glob("*.txt")} == {*FILES, "hard_queries"}
