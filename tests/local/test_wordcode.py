"""Functions of words: compiled, they do what Python does with numbers that wrap at 64 bits."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.engines.local.libraries import Library
from viewmill.engines.local.raw import bits, double, peek, poke
from viewmill.engines.local.wordcode import inlined_words, parsed, shift_right, words
from viewmill.errors import InternalError

LIMIT = 1000
EDGES = [0, 1, -1, 2, 7, 63, 64, 999, 1000, 2**31, -(2**31), 2**63 - 1, -(2**63)]
WORDS = st.one_of(st.sampled_from(EDGES), st.integers(-(2**63), 2**63 - 1))


def arithmetic(a, b):
    c = a + b * 3 - 7
    c ^= a | b
    c -= -b
    c &= ~a
    return c << 3


def shifts(a, b):
    by = b & 31
    return (a >> by) + (a << 2)


def comparisons(a, b):
    less, same = a < b, a == b
    return less + 2 * same + 4 * (a >= b) + 8 * (a != LIMIT) + 16 * (not a) + 32 * (a > 0 and b > 0 or a <= -5)


def conditional(a, b):
    if a > b:
        big = a
    elif a == b:
        return -1
    else:
        big = b
    return big if big < LIMIT else min(a, b) ^ max(a, 17)


def swapped(a, b):
    a, b = b, a
    return a - b


def loops(a, b):
    total, n = 0, a & 15
    for i in range(n):
        if i == 3:
            continue
        for j in range(i, i + (b & 7), 2):
            if j > 12:
                break
            total += i * j
        i = 100
    while n > 0:
        n -= 1
        if n == b & 3:
            break
        total += n
    return total


def endless(a, b):
    while True:
        if a & 1 or a == 0:
            return a
        a = a >> 1


PLAIN = [arithmetic, shifts, comparisons, conditional, swapped, loops, endless]
LIBRARY = Library("words", kept=False)
COMPILED = {function: LIBRARY.export(function) for function in PLAIN}


def wrapped(value: int) -> int:
    return (int(value) + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("plain", PLAIN, ids=lambda function: function.__name__)
@given(WORDS, WORDS)
def test_words_are_numbers_that_wrap(plain, a, b):
    assert COMPILED[plain](a, b) == wrapped(plain(a, b))


@inlined_words
def doubled(a):
    return a + a


@words
def power(a, n):
    if n == 0:
        return 1
    return a * power(a, n - 1)


@words
def many(first, *rest):
    return doubled(first) + counted(first, *rest)


@words
def counted(first, *rest):
    return first


@LIBRARY.export
def calls(a):
    return power(doubled(a), 3) + many(a, a, a) * 1000


@LIBRARY.export
def memory(base, n):
    for i in range(n):
        poke(base, i, bits(double(peek(base, i)) + 0.5))
        poke(base, i, bits(double(peek(base, i)) * 2.0))
    return 0


@LIBRARY.export
def without_sign(a):
    return shift_right(a, 60)


def test_calls():
    assert calls(2) == 64 + 6 * 1000
    assert without_sign(-1) == 15


def test_doubles_are_words_in_memory():
    values = np.array([0.5, 1.25, -3.0])
    assert memory(values.ctypes.data, 3) == 0
    assert values.tolist() == [2.0, 3.5, -5.0]


def division(a):
    return a // 2


def chained(a):
    return 0 < a < 5


def unknown(a):
    return nowhere(a)  # noqa: F821


def too_early(a):
    if a:
        a = LIMIT + later  # noqa: F821
    later = a
    return later


def text(a):
    return "a"


def with_else(a):
    while a:
        a -= 1
    else:
        a = 7
    return a


@pytest.mark.parametrize("function", [division, chained, unknown, too_early, text, with_else], ids=lambda f: f.__name__)
def test_the_rest_of_python_is_refused(function):
    library = Library("refused", kept=False)
    with pytest.raises(InternalError, match=r"test_wordcode.py:\d+: no words for"):
        library.export(function)(1)


def test_libraries_are_kept_on_disk(tmp_path, monkeypatch):
    """A second process, here a second library of the same name, finds the machine code."""
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    first = Library("kept")
    assert first.export(swapped)(1, 5) == 4
    (file,) = tmp_path.rglob("kept-*.o")
    stamp = file.stat().st_mtime_ns
    second = Library("kept")
    assert second.export(swapped)(2, 5) == 3
    assert file.stat().st_mtime_ns == stamp


def test_a_library_works_where_nothing_can_be_written(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("VIEWMILL_CACHE", str(blocked))
    assert Library("kept").export(swapped)(1, 5) == 4


def test_functions_are_read_in_several_threads() -> None:
    lines = "".join(f"    x{i} = (a + {i}) * (a - {i}) + (a * {i})\n" for i in range(100))
    text = f"def f(a):\n{lines}    return a\n"

    def another_turn(*_: object) -> None:
        time.sleep(0.0001)  # other threads go on, wherever the collector has stopped this one

    def read(depth: int) -> int:
        return read(depth - 1) if depth else len(parsed(text).body)

    before = gc.get_threshold()
    gc.set_threshold(200)
    gc.callbacks.append(another_turn)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda number: read(number % 7 * 5), range(200)))
    finally:
        gc.callbacks.remove(another_turn)
        gc.set_threshold(*before)
    assert set(found) == {101}
