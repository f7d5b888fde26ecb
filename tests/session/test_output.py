"""Reading orders, cuts and hides."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.errors import DataError
from viewmill.output import Presentation, present
from viewmill.sql.bound import SortKey


def column(rows, *order, **how):
    return [row[0] for row in present({(value,): 1 for value in rows}, Presentation(order=order, **how))]


def test_nulls_stand_where_asked():
    rows = [2, None, 1]
    assert column(rows, SortKey(0, False, True)) == [None, 1, 2]
    assert column(rows, SortKey(0, False, False)) == [1, 2, None]
    assert column(rows, SortKey(0, True, True)) == [None, 2, 1]
    assert column(rows, SortKey(0, True, False)) == [2, 1, None]


def test_nan_is_the_greatest_number():
    assert [str(x) for x in column([math.nan, math.inf, 1.0, None], SortKey(0, True, False))] == [
        "nan",
        "inf",
        "1.0",
        "None",
    ]


def test_ties_are_broken_by_the_whole_row():
    rows = {(1, "b"): 1, (1, None): 1, (0, "z"): 2, (1, "a"): 1}
    how = Presentation(order=(SortKey(0, True, False),))
    assert present(rows, how) == [(1, None), (1, "a"), (1, "b"), (0, "z"), (0, "z")]


def test_limit_and_offset_count_repeated_rows():
    assert present({(1,): 3, (2,): 1}, Presentation(order=(SortKey(0, False, True),), limit=2, offset=2)) == [
        (1,),
        (2,),
    ]
    assert column([3, 1, 2], limit=2) == [1, 2]
    assert column([3, 1, 2], limit=0) == []
    assert column([3, 1, 2], offset=5) == []


def test_hidden_columns_sort_but_are_not_shown():
    how = Presentation(hidden=1, order=(SortKey(1, False, True),))
    assert present({("a", 2): 1, ("b", 1): 1}, how) == [("b",), ("a",)]


def test_a_negative_count_is_an_error():
    with pytest.raises(DataError, match="removed more often than it was added"):
        present({(1,): -1}, Presentation())


@given(st.dictionaries(st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from("xyz")), st.integers(1, 3)))
def test_order_does_not_depend_on_arrival(rows):
    how = Presentation(order=(SortKey(1, True, True), SortKey(0, False, False)))
    assert present(rows, how) == present(dict(reversed(rows.items())), how)
