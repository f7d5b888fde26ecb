"""A draft applies operations in order, is checked whole, and changes nothing until it is committed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill import types
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.errors import DataError
from viewmill.tables import BaseTable, Draft

COLUMNS = (ColumnInfo("id", types.INT, False), ColumnInfo("v", types.STRING))


def table(*rows, key=("id",), stored=True):
    base = BaseTable(RelationInfo("t", COLUMNS, key, stored=stored))
    draft = Draft(base)
    for row in rows:
        draft.insert(row)
    base.commit(draft.changes)
    return base


def test_insert_then_delete_is_nothing():
    draft = Draft(table())
    draft.insert((1, "a"))
    draft.delete((1, "a"))
    assert draft.changes == {}


def test_an_update_sees_the_insert_before_it():
    draft = Draft(table())
    draft.insert((1, "a"))
    draft.update((1, "b"))
    draft.check()
    assert draft.changes == {(1, "b"): 1}


def test_updates_of_one_key_chain():
    draft = Draft(table((1, "a")))
    draft.update((1, "b"))
    draft.update((1, "c"))
    draft.check()
    assert draft.changes == {(1, "a"): -1, (1, "c"): 1}


def test_the_key_index_follows_updates():
    base = table((1, "a"), (2, "b"))
    draft = Draft(base)
    draft.update((1, "z"))
    draft.delete_key((2,))
    base.commit(draft.changes)
    assert base.rows == {(1, "z"): 1} and base.by_key == {(1,): (1, "z")}


def test_two_rows_with_one_key_are_refused_whole():
    draft = Draft(table((1, "a")))
    draft.insert((1, "b"))
    with pytest.raises(DataError) as caught:
        draft.check()
    assert caught.value.message == ("table \"t\" would have two rows with primary key id = 1: (1, 'a') and (1, 'b')")
    draft.delete((1, "a"))
    draft.check()
    assert draft.changes == {(1, "a"): -1, (1, "b"): 1}


def test_the_same_row_twice_breaks_the_key_too():
    draft = Draft(table((1, "a")))
    draft.insert((1, "a"))
    with pytest.raises(DataError, match="two rows with primary key id = 1"):
        draft.check()


def test_a_key_that_two_rows_have_is_ambiguous():
    draft = Draft(table((1, "a")))
    draft.insert((1, "b"))
    with pytest.raises(DataError, match="two rows now have primary key id = 1"):
        draft.delete_key((1,))


def test_absent_rows_and_keys_are_refused():
    draft = Draft(table((1, "a")))
    with pytest.raises(DataError, match="a row that is not there") as caught:
        draft.delete((1, "b"))
    assert "the row with this key is (1, 'a')" in caught.value.hint
    with pytest.raises(DataError, match="no row has primary key id = 9"):
        draft.delete_key((9,))
    with pytest.raises(DataError, match="no row has primary key id = 9"):
        draft.update((9, "x"))
    draft.delete((1, "a"))
    with pytest.raises(DataError, match="a row that is not there"):
        draft.delete((1, "a"))


def test_without_a_key_rows_repeat():
    base = table((1, "a"), (1, "a"), key=())
    draft = Draft(base)
    draft.delete((1, "a"))
    base.commit(draft.changes)
    assert base.rows == {(1, "a"): 1}


def test_a_refused_operation_leaves_the_draft_as_it_was():
    draft = Draft(table((1, "a")))
    draft.insert((2, "b"))
    with pytest.raises(DataError), draft.atomic():
        draft.insert((3, "c"))
        draft.delete((1, "a"))
        draft.delete((7, "x"))
    draft.check()
    assert draft.changes == {(2, "b"): 1}


def test_what_is_not_stored_is_not_checked():
    base = table(stored=False)
    draft = Draft(base)
    draft.delete((1, "a"))
    draft.insert((2, "b"))
    draft.insert((2, "c"))
    draft.check()
    base.commit(draft.changes)
    assert base.rows == {} and base.touched


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"))), st.lists(st.integers(0, 3), unique=True))
def test_many_rows_at_once_are_each_of_them(rows, there):
    outcomes = []
    for at_once in (True, False):
        base = table(*((key, "a") for key in there))
        draft = Draft(base)
        draft.insert((9, "z"))
        if at_once:
            draft.insert_all(rows)
        for row in () if at_once else rows:
            draft.insert(row)
        try:
            draft.check()
        except DataError as error:
            outcomes.append(error.message)
        else:
            base.commit(draft.changes)
            outcomes.append((base.rows, base.by_key))
    assert outcomes[0] == outcomes[1]


@given(st.lists(st.tuples(st.sampled_from(["insert", "delete", "update"]), st.integers(0, 3), st.sampled_from("ab"))))
def test_batches_equal_single_operations(operations):
    """A batch whose operations are each allowed alone does what they do one by one."""
    single, whole = table(), table()
    draft = Draft(whole)
    for verb, key, value in operations:
        step = Draft(single)
        try:
            getattr(step, verb)((key, value))
            step.check()
        except DataError:
            continue
        single.commit(step.changes)
        getattr(draft, verb)((key, value))
    draft.check()
    whole.commit(draft.changes)
    assert whole.rows == single.rows and whole.by_key == single.by_key
