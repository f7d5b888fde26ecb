"""Functions of strings by Arrow, and as tables for compiled code, have the values of the reference functions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.algebra.functions import evaluate_scalar
from viewmill.algebra.scalars import Call, Cast, Const, Var
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.libraries import Library
from viewmill.engines.local.raw import peek, poke
from viewmill.engines.local.scalars import NULL
from viewmill.engines.local.string_arrays import CannotVectorise, evaluate_texts
from viewmill.engines.local.string_tables import FAILED, UNKNOWN, StringTables, look_up
from viewmill.engines.local.values import decode
from viewmill.errors import DataError
from viewmill.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, decimal

TEXT = Var("text")

# Few letters, so that patterns match; characters of one to four bytes; what means something to patterns or regular
# expressions; ends of lines.
LETTERS = "aabbA%_\\.*[]()^$|+?{}é漢😀 \n\r\0-'x"
words = st.text(LETTERS, max_size=8)
texts = st.lists(st.one_of(words, st.text(st.characters(codec="utf-8"), max_size=6)), max_size=12)
patterns = st.one_of(words, st.text("ab%_\\", max_size=7), st.text("a%", max_size=4))
positions = st.integers(-6, 6)
escapes = st.sampled_from(["\\", "", "!", "a", "%", "_", "\\\\", "é"])


def consts(strategy):
    return strategy.map(Const)


# Strings of a string, then what is asked of them: every combination is a function of one string.
strings = st.recursive(
    st.just(TEXT),
    lambda inner: st.one_of(
        st.builds(lambda x, p: Call("substring", (x, p)), inner, consts(positions)),
        st.builds(lambda x, p, n: Call("substring", (x, p, n)), inner, consts(positions), consts(positions)),
        st.builds(lambda x, n: Call("left", (x, n)), inner, consts(positions)),
        st.builds(lambda x, n: Call("right", (x, n)), inner, consts(positions)),
        st.builds(lambda op, x: Call(op, (x,)), st.sampled_from(["upper", "lower"]), inner),
    ),
    max_leaves=3,
)
questions = st.one_of(
    st.builds(lambda x, p: Call("like", (x, p)), strings, consts(patterns)),
    st.builds(lambda x, p, e: Call("like", (x, p, e)), strings, consts(patterns), consts(escapes)),
    st.builds(
        lambda op, x, p: Call(op, (x, p)),
        st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "startswith", "endswith", "contains"]),
        strings,
        consts(words),
    ),
    st.builds(lambda x, items: Call("in", (x, *items)), strings, st.lists(consts(words), min_size=1, max_size=3)),
)
conditions = st.recursive(
    questions,
    lambda inner: st.one_of(
        st.builds(lambda op, a, b: Call(op, (a, b)), st.sampled_from(["and", "or"]), inner, inner),
        st.builds(lambda a: Call("not", (a,)), inner),
    ),
    max_leaves=3,
)
functions = st.one_of(strings, conditions, strings.map(lambda x: Call("length", (x,))))


def reference(function, values):
    return [evaluate_scalar(function, {"text": value}) for value in values]


@given(functions, texts, st.sampled_from([pa.string(), pa.large_string()]))
def test_arrow_computes_the_same(function, values, kind):
    try:
        got = evaluate_texts(function, pa.array(values, kind)).to_pylist()
    except CannotVectorise:
        assert not all(value.isascii() for value in values), "only letters beyond ASCII are left to Python"
        return
    assert got == reference(function, values)


@given(patterns, escapes, texts)
def test_like(pattern, escape, values):
    function = Call("like", (TEXT, Const(pattern), Const(escape)))
    assert evaluate_texts(function, pa.array(values, pa.string())).to_pylist() == reference(function, values)


@pytest.mark.parametrize("pattern", ["a%b", "a_b", "%a%b%", "_%b", "a%_", "%\n%b", "a\n_"])
@pytest.mark.parametrize("text", ["a\nb", "a\n\nb", "a\rb", "ab\n", "\nab", "a\n"])
def test_like_across_lines(pattern, text):
    function = Call("like", (TEXT, Const(pattern)))
    assert evaluate_texts(function, pa.array([text])).to_pylist() == reference(function, [text])


@given(positions, st.none() | positions, st.lists(st.text("aé漢😀", max_size=7), max_size=8))
def test_substring(position, length, values):
    args = (TEXT, Const(position)) if length is None else (TEXT, Const(position), Const(length))
    function = Call("substring", args)
    assert evaluate_texts(function, pa.array(values, pa.string())).to_pylist() == reference(function, values)


@pytest.mark.parametrize(
    "function",
    [
        Call("in", (TEXT, Const("a"), Const(None))),
        Call("=", (TEXT, Const(None))),
        Call("like", (TEXT, Const(None))),
        Call("concat", (TEXT, Const("!"))),
        Call("length", (Call("length", (TEXT,)),)),
        Call("case", (Call("=", (TEXT, Const("a"))), Const(1), Const(2))),
        Cast(TEXT, INT),
        Const(7),
        Var("other"),
    ],
    ids=repr,
)
def test_what_is_left_to_python(function):
    with pytest.raises(CannotVectorise):
        evaluate_texts(function, pa.array(["a", "b"]))


# --- tables


@Library("tests", kept=False).export
def looked_up_by(table, codes, rows, out, flags):
    for i in range(rows):
        poke(out, i, look_up(table, peek(codes, i), flags))


def looked_up(table, codes):
    """What compiled code finds, and the flags."""
    codes = np.array(codes, np.int64)
    out, flags = np.empty(len(codes), np.int64), np.zeros(1, np.int64)
    looked_up_by(table.address, codes.ctypes.data, len(codes), out.ctypes.data, flags.ctypes.data)
    return out.tolist(), int(flags[0])


def decoded(words, type_, dictionary):
    return [decode(word, type_, dictionary) for word in words]


def type_of(function):
    if function == TEXT or function.op in ("substring", "left", "right", "upper", "lower"):
        return STRING
    return INT if function.op == "length" else BOOLEAN


@given(functions, st.lists(st.lists(st.none() | words, max_size=8), max_size=3))
def test_compiled_code_finds_the_values(function, batches):
    dictionary = Dictionary()
    tables = StringTables(dictionary)
    type_ = type_of(function)
    table = tables.table(function, type_)
    address = table.address
    for values in batches:
        codes = dictionary.codes(pa.array(values, pa.string()))
        found, flags = looked_up(table, codes)
        assert flags == 0 and decoded(found, type_, dictionary) == reference(function, values)
    assert table.address == address and tables.table(function, type_) is table


@pytest.mark.parametrize(
    ("function", "type_"),
    [
        (Call("concat", (TEXT, Const("!"))), STRING),
        (Call("coalesce", (TEXT, Const("none"))), STRING),
        (Call("instr", (TEXT, Const("b"))), INT),
        (Call("case", (Call("like", (TEXT, Const("a%"))), Const(1), Const(None))), INT),
        (Call("reverse", (TEXT,)), STRING),
        (Cast(Call("length", (TEXT,)), BIGINT), BIGINT),
        (Cast(Call("length", (TEXT,)), decimal(10, 2)), decimal(10, 2)),
        (Call("sqrt", (Cast(Call("length", (TEXT,)), DOUBLE),)), DOUBLE),
    ],
    ids=repr,
)
def test_functions_that_only_python_has(function, type_):
    dictionary = Dictionary()
    table = StringTables(dictionary).table(function, type_)
    values = ["ab", None, "", "xb", "ab", "漢"]
    found, flags = looked_up(table, dictionary.codes(pa.array(values)))
    assert flags == 0 and decoded(found, type_, dictionary) == reference(function, values)


def test_a_function_may_be_used_on_its_own_results():
    dictionary = Dictionary()
    table = StringTables(dictionary).table(Call("concat", (TEXT, Const("!"))), STRING)
    codes = dictionary.codes(pa.array(["a", "b"]))
    for exclamations in range(1, 5):
        codes, _ = looked_up(table, codes)
        assert decoded(codes, STRING, dictionary) == ["a" + "!" * exclamations, "b" + "!" * exclamations]
    assert len(dictionary) == 10


def test_read_ahead_does_not_follow_results():
    dictionary = Dictionary()
    table = StringTables(dictionary).table(Call("substring", (TEXT, Const(2))), STRING)
    codes = dictionary.codes(pa.array([f"{i:03} bottles" for i in range(300, 500)]))
    for code in codes[::-1]:  # windows that end beyond the data
        looked_up(table, [code])
    found, _ = looked_up(table, codes)
    assert decoded(found, STRING, dictionary) == [f"{i % 100:02} bottles" for i in range(300, 500)]
    assert len(dictionary) == 300


def test_strings_of_other_columns_are_mostly_left_alone():
    dictionary = Dictionary()
    table = StringTables(dictionary).table(Call("upper", (TEXT,)), STRING)
    codes = dictionary.codes(pa.array(["x", "y"]))
    dictionary.codes(pa.array([f"a long comment {i}" for i in range(5000)]))
    looked_up(table, codes)
    assert len(dictionary) < 5100


def test_letters_beyond_ascii():
    dictionary = Dictionary()
    table = StringTables(dictionary).table(Call("upper", (TEXT,)), STRING)
    values = ["abc", "straße", "éa", "ŉ", "x"] * 10
    found, _ = looked_up(table, dictionary.codes(pa.array(values)))
    assert decoded(found, STRING, dictionary) == [value.upper() for value in values]
    found, _ = looked_up(table, dictionary.codes(pa.array([f"plain {i}" for i in range(50)])))
    assert decoded(found, STRING, dictionary) == [f"PLAIN {i}" for i in range(50)]


def test_binaries_among_the_strings():
    dictionary = Dictionary()
    table = StringTables(dictionary).table(Call("length", (TEXT,)), INT)
    codes = [dictionary.code(value) for value in ("abc", b"\xff\xff", "de", b"abc")]
    assert looked_up(table, [codes[0], codes[2]]) == ([3, 2], 0)


def test_an_error_counts_only_where_the_function_is_used():
    dictionary = Dictionary()
    tables = StringTables(dictionary)
    table = tables.table(Call("to_date", (TEXT,)), DATE)
    good, bad = dictionary.code("2024-01-31"), dictionary.code("soon")
    assert looked_up(table, [good, NULL]) == ([19753, NULL], 0)
    found, flags = looked_up(table, [good, bad, good])
    assert flags == FAILED and found[0] == found[2] == 19753
    error = tables.failure()
    assert isinstance(error, DataError) and error.message == "cannot cast 'soon' to date"
    # It is forgotten, and is there again when it is met again.
    assert looked_up(table, [good]) == ([19753], 0)
    assert looked_up(table, [bad])[1] == FAILED
    assert "soon" in str(tables.failure())


def test_a_value_that_looks_unknown_is_one_nevertheless():
    dictionary = Dictionary()
    table = StringTables(dictionary).table(Call("coalesce", (Cast(TEXT, BIGINT),)), BIGINT)
    code = dictionary.code(str(UNKNOWN))
    for _ in range(2):
        assert looked_up(table, [code]) == ([UNKNOWN], 0)


def test_numbers_of_more_than_64_bits_fail():
    dictionary = Dictionary()
    tables = StringTables(dictionary)
    table = tables.table(Call("coalesce", (Cast(TEXT, decimal(38, 0)),)), decimal(38, 0))
    assert looked_up(table, [dictionary.code("9" * 30)])[1] == FAILED
    assert "more than 64 bits" in str(tables.failure())


def test_covering_a_column_at_once():
    dictionary = Dictionary()
    tables = StringTables(dictionary)
    table = tables.table(Call("length", (TEXT,)), INT)
    codes = dictionary.codes(pa.array(["a", "bb", "a", "ccc"] * 50))
    table.cover(codes)
    assert looked_up(table, codes)[0] == [1, 2, 1, 3] * 50
    assert tables.nbytes >= 8 * 3


def test_ascii_texts_among_others_are_left_to_arrow(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "viewmill.engines.local.string_tables.evaluate_scalar",
        lambda function, env: asked.append(env["text"]) or evaluate_scalar(function, env),
    )
    dictionary = Dictionary()
    table = StringTables(dictionary).table(Call("lower", (TEXT,)), STRING)
    codes = dictionary.codes(pa.array(["A", "É", "B", "C"]))
    table.cover(codes)
    assert asked == ["É"]
    assert decoded(looked_up(table, codes)[0], STRING, dictionary) == ["a", "é", "b", "c"]


def test_a_few_strings_are_left_to_python_if_no_strings_come_of_them(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "viewmill.engines.local.string_tables.evaluate_scalar",
        lambda function, env: asked.append(env["text"]) or evaluate_scalar(function, env),
    )
    dictionary = Dictionary()
    table = StringTables(dictionary).table(Call("like", (TEXT, Const("%b%"))), BOOLEAN)
    few = dictionary.codes(pa.array(["a", "ab"]))
    assert looked_up(table, few)[0] == [0, 1] and asked == ["a", "ab"]
    many = dictionary.codes(pa.array([f"{i} b" for i in range(20)]))
    table.cover(many)
    assert looked_up(table, many)[0] == [1] * 20 and asked == ["a", "ab"]
