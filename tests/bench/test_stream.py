"""Streams: every row once, in proportion; and deletes only of what is there."""

from __future__ import annotations

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from viewmill.bench.stream import Churn, Piece, first_half, interleave, present, second_half, whole

quick = settings(max_examples=50)
COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 60), min_size=1)
SIZES = st.sampled_from((1, 2, 3, 10, 100))


def rows(pieces):
    return [(piece.table, row) for piece in pieces for row in range(piece.start, piece.stop)]


@quick
@given(COUNTS, SIZES)
def test_a_stream_has_every_row_once(counts, size):
    pieces = list(interleave(whole(counts), size))
    assert sorted(rows(pieces)) == sorted((table, row) for table, count in counts.items() for row in range(count))
    assert all(0 < piece.rows <= size for piece in pieces)


@quick
@given(COUNTS, SIZES)
def test_the_rows_of_a_table_come_in_order(counts, size):
    for table in counts:
        mine = [row for name, row in rows(interleave(whole(counts), size)) if name == table]
        assert mine == sorted(mine)


@quick
@given(COUNTS, SIZES)
def test_two_halves_are_the_whole(counts, size):
    halves = [*interleave(first_half(counts), size), *interleave(second_half(counts), size)]
    assert sorted(rows(halves)) == sorted(rows(interleave(whole(counts), size)))


def test_tables_end_together():
    pieces = list(interleave({"large": range(1000), "small": range(10)}, 1))
    for share in (0.25, 0.5, 0.75):
        seen = [piece.table for piece in pieces[: int(len(pieces) * share)]]
        assert abs(seen.count("small") - 10 * share) <= 1


def replay(counts, changes):
    """The rows that are there after changes, each of which must be possible."""
    there = set(rows(interleave(whole(counts), 1)))
    for change in changes:
        deleted = set(rows([change.deleted])) if change.deleted else set()
        inserted = set(rows([change.inserted])) if change.inserted else set()
        assert deleted or inserted
        assert deleted <= there, "only what is there can go"
        assert not inserted & there, "only what is not there can come"
        assert {table for table, _ in deleted | inserted} == {change.table}
        assert change.rows == len(deleted) + len(inserted)
        there = there - deleted | inserted
    return there


@quick
@given(COUNTS, SIZES, st.integers(0, 5))
def test_churn_makes_valid_changes(counts, size, seed):
    churn = Churn(counts, size, seed)
    replay(counts, [*churn.prime(), *islice(churn, 50)])


@quick
@given(COUNTS, SIZES)
def test_what_is_not_missing_is_present(counts, size):
    churn = Churn(counts, size)
    missing = {}
    changes = [*churn.prime(), *islice(churn, 30)]
    for change in changes:
        if change.deleted:
            missing[change.deleted] = None
        if change.inserted:
            del missing[change.inserted]
    found = present(counts, missing)
    assert set(found) == set(counts)
    assert sorted(row for runs in found.values() for row in rows(runs)) == sorted(replay(counts, changes))


def test_churn_has_batches_of_the_size_and_a_nearly_full_table():
    churn = Churn({"t": 100_000}, 1000)
    list(churn.prime())
    changes = list(islice(churn, 300))
    assert {change.rows for change in changes} == {1000}
    assert len({change.deleted for change in changes}) > 50


def test_churn_takes_turns_in_proportion():
    churn = Churn({"large": 90_000, "small": 10_000}, 10)
    list(churn.prime())
    turns = [change.table for change in islice(churn, 1000)]
    assert 80 <= turns.count("small") <= 120


def test_single_rows_alternate():
    churn = Churn({"t": 100}, 1)
    list(churn.prime())
    kinds = [change.inserted is None for change in islice(churn, 10)]
    assert kinds == [False, True] * 5


def test_a_table_of_one_row_is_left_alone():
    churn = Churn({"t": 1, "empty": 0}, 10)
    assert not list(churn.prime()) and not list(churn)
    assert present({"t": 1, "empty": 0}, ()) == {"t": [Piece("t", 0, 1)], "empty": []}
