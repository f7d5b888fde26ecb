"""What counts as the same answer."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from viewmill.bench.queries import Query
from viewmill.bench.truth import compare, difference, disagreement, same_value


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1, True),
        (1, 2, False),
        (1, True, False),
        (None, None, True),
        (None, 0, False),
        ("a", "a", True),
        (Decimal("1.10"), Decimal("1.10"), True),
        (Decimal("1.10"), Decimal("1.11"), False),
        (Decimal("1.1"), Decimal("1.14"), True),  # one is rounded
        (Decimal("1.1"), Decimal("1.16"), False),
        (Decimal("0.33"), 1 / 3, True),
        (Decimal("0.34"), 1 / 3, False),
        (0.1 + 0.2, 0.3, True),
        (0.1, 0.1001, False),
        (3, 3.0, True),
        (10**17, 10**17 + 1, False),
    ],
)
def test_values(a, b, same):
    assert same_value(a, b) is same_value(b, a) is same


def test_multisets_count():
    assert difference([(1,), (1,), (2,)], [(2,), (1,), (1,)]) == ""
    assert "missing (1,)" in difference([(1,), (2,)], [(2,), (1,), (1,)])
    assert "extra (2, 0.5)" in difference([(1, 0.5), (2, 0.5)], [(1, 0.5)])
    assert difference([(1,)], [(2,), (1,)], part=True) == ""


def test_rows_that_tie_at_the_limit_may_be_others():
    answer, candidates = pa.table({"a": [1, 2], "b": [9, 5]}), pa.table({"a": [1, 2, 3], "b": [9, 5, 5]})
    assert compare(pa.table({"a": [1, 3], "b": [9, 5]}), answer, candidates, ("b",)) == ""
    assert "extra" in compare(pa.table({"a": [1, 4], "b": [9, 5]}), answer, candidates, ("b",))
    assert "sorted by" in compare(pa.table({"a": [2, 3], "b": [5, 5]}), answer, candidates, ("b",))
    assert "1 rows instead of 2" in compare(pa.table({"a": [1], "b": [9]}), answer, candidates, ("b",))
    assert "columns b, a" in compare(pa.table({"b": [9], "a": [1]}), answer, candidates, ("b",))


def test_against_duckdb():
    query = Query("v", "select a, sum(b) as s\nfrom t\ngroup by a\norder by s desc\nlimit 1", ("t",))
    tables = {"t": pa.table({"a": [1, 1, 2], "b": [3, 4, 5]})}
    assert disagreement(query, pa.table({"a": [1], "s": [7]}), tables) == ""
    assert "extra (1, 8)" in disagreement(query, pa.table({"a": [1], "s": [8]}), tables)
