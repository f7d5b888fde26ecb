"""Strings by number: against a Python dict, in every form that Arrow has for them."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.engines.local import dictionary as module
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.scalars import NULL
from viewmill.errors import DataError, InternalError
from viewmill.types import BINARY, STRING

# Every length that hashing, comparing and copying treat in its own way, and texts that differ in one place.
texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.text("ab", max_size=20),
    st.sampled_from(["", "\0", "\0\0", "é", "ß", "漢字", "😀", "x" * 8, "x" * 16, "x" * 17, "x" * 5000]),
)
optional = st.lists(st.none() | texts, max_size=60)
KINDS = [pa.string(), pa.large_string(), pa.string_view()]


class Model:
    """What a dictionary is, in Python."""

    def __init__(self):
        self.numbers = {}

    def code(self, value):
        return NULL if value is None else self.numbers.setdefault(value, len(self.numbers))


@given(st.lists(st.tuples(optional, st.sampled_from(KINDS), st.integers(0, 3)), max_size=6))
def test_columns_are_numbered_in_order_of_appearance(batches):
    dictionary, model = Dictionary(), Model()
    for values, kind, skipped in batches:
        array = pa.array(values, kind)[skipped:]
        assert dictionary.codes(array).tolist() == [model.code(value) for value in values[skipped:]]
    assert len(dictionary) == len(model.numbers)
    for value, code in model.numbers.items():
        assert dictionary.value(code) == value
        assert dictionary.code(value) == code


@given(st.lists(st.one_of(texts, st.binary(max_size=20), texts.map(str.encode)), max_size=80))
def test_values_one_by_one(values):
    dictionary, model = Dictionary(), Model()
    assert [dictionary.code(value) for value in values] == [model.code(value) for value in values]
    again = [dictionary.value(dictionary.code(value)) for value in values]
    assert again == values and list(map(type, again)) == list(map(type, values))


def test_a_text_and_a_binary_of_the_same_bytes_are_two():
    dictionary = Dictionary()
    kinds = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)]
    assert dictionary.code("ab") == 0
    assert [dictionary.codes(pa.array([b"ab"], kind)).tolist() for kind in kinds] == [[1]] * 4
    assert [dictionary.codes(pa.array(["ab"], kind)).tolist() for kind in KINDS] == [[0]] * 3
    assert dictionary.value(0) == "ab" and dictionary.value(1) == b"ab"
    assert dictionary.values(np.array([1, NULL]), BINARY).equals(pa.array([b"ab", None], pa.binary()))


@given(optional, st.data())
def test_values_of_codes(values, data):
    dictionary = Dictionary()
    codes = dictionary.codes(pa.array(values, pa.string()))
    order = data.draw(st.permutations(range(len(values))))
    expected = pa.array([values[i] for i in order], pa.string())
    got = dictionary.values(codes[np.array(order, np.int64)])
    got.validate(full=True)
    assert got.equals(expected)


def test_strided_codes():
    dictionary = Dictionary()
    rows = np.array([[dictionary.code("a"), 7], [dictionary.code("b"), 7]])
    assert dictionary.values(rows[:, 0]).to_pylist() == ["a", "b"]


def test_many_strings_and_long_ones():
    dictionary = Dictionary()
    values = [f"text {i} " + "y" * (i % 70) for i in range(30_000)]
    array = pa.array(values)
    assert dictionary.codes(array).tolist() == list(range(30_000))
    assert dictionary.codes(array.take(pa.array([29_999, 5]))).tolist() == [29_999, 5]
    long = "z" * 300_000
    assert dictionary.code(long) == 30_000 and dictionary.value(30_000) == long
    assert dictionary.codes(pa.array([long])).tolist() == [30_000]


def test_strings_with_one_hash():
    """The bytes of a factor of the hash take away everything that follows them."""
    factor = (0x1BB67AE8584CAA73).to_bytes(8, "little")
    values = [factor + f"{i:08}".encode() for i in range(200)]
    dictionary = Dictionary()
    assert dictionary.codes(pa.array(values)).tolist() == list(range(200))
    assert [dictionary.code(value) for value in values] == list(range(200))
    assert dictionary.codes(pa.array(values[::-1])).tolist() == list(range(199, -1, -1))


def test_few_different_values_take_little_memory():
    dictionary = Dictionary()
    before = dictionary.nbytes
    dictionary.codes(pa.array(["a", "b", "c"] * 100_000))
    assert dictionary.nbytes == before


def test_values_that_python_remembers_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "_REMEMBERED", 10)
    dictionary = Dictionary()
    for _ in range(3):
        assert [dictionary.code(str(i)) for i in range(25)] == list(range(25))
    assert len(dictionary._known) <= 10


@given(st.lists(texts, max_size=50), st.lists(st.one_of(texts, st.binary(max_size=9)), max_size=50))
def test_ranks_are_the_order_of_bytes(first, second):
    dictionary = Dictionary()
    for values in (first, second):
        for value in values:
            dictionary.code(value)
        data = [_bytes(dictionary.value(code)) for code in range(len(dictionary))]
        ranks = dictionary.rank_table()
        assert len(ranks) == len(dictionary)
        assert sorted(ranks.tolist()) == list(range(len(dictionary)))
        ordered = [data[code] for code in np.argsort(ranks)]
        assert ordered == sorted(data)


def _bytes(value):
    return value.encode() if isinstance(value, str) else value


def test_ranks_follow_growth_and_are_kept_meanwhile():
    dictionary = Dictionary()
    dictionary.code("m")
    ranks = dictionary.rank_table()
    assert dictionary.rank_table() is ranks
    dictionary.code("a")
    assert dictionary.rank_table().tolist() == [1, 0]


def test_what_is_no_text_is_refused_and_forgotten():
    dictionary = Dictionary()
    dictionary.code("good")
    bad = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    with pytest.raises(DataError, match="UTF-8"):
        dictionary.codes(bad)
    assert len(dictionary) == 1
    assert dictionary.code("next") == 1 and dictionary.code("fine") == 2 and dictionary.code("good") == 0
    with pytest.raises(DataError, match="surrogate"):
        dictionary.code("\ud800")


def test_codes_that_are_not_there():
    dictionary = Dictionary()
    dictionary.code("a")
    for code in (-1, 1, NULL):
        with pytest.raises(InternalError):
            dictionary.value(code)
    with pytest.raises(InternalError):
        dictionary.values(np.array([0, 1]))


def test_more_than_an_arrow_array_holds_comes_in_chunks(monkeypatch):
    monkeypatch.setattr(module, "_ARROW_LIMIT", 10)
    dictionary = Dictionary()
    values = ["abcd", "efgh", None, "ijkl", "", "mnop"]
    got = dictionary.values(dictionary.codes(pa.array(values)))
    assert isinstance(got, pa.ChunkedArray) and got.type == pa.string()
    assert got.to_pylist() == values
    with pytest.raises(DataError, match="too long"):
        dictionary.values(np.array([dictionary.code("x" * 11)]))


def test_empty_columns():
    dictionary = Dictionary()
    for kind in (*KINDS, pa.binary(), pa.binary(3)):
        assert len(dictionary.codes(pa.array([], kind))) == 0
        assert dictionary.codes(pa.array([None, None], kind)).tolist() == [NULL, NULL]
    assert dictionary.values(np.empty(0, np.int64), STRING).equals(pa.array([], pa.string()))
    assert len(dictionary) == 0 and len(dictionary.rank_table()) == 0


def test_readers_while_it_grows():
    """What a code means does not change under a reader, wherever its bytes are moved to."""
    dictionary = Dictionary()
    first = [f"early {i}" for i in range(100)]
    codes = dictionary.codes(pa.array(first))
    wrong, done = [], threading.Event()

    def read():
        while not done.is_set():
            if dictionary.values(codes).to_pylist() != first or dictionary.value(17) != "early 17":
                wrong.append(True)

    reader = threading.Thread(target=read)
    reader.start()
    for batch in range(40):
        dictionary.codes(pa.array([f"{batch} {i}" for i in range(2000)]))
    done.set()
    reader.join()
    assert not wrong
