"""Compiled loops that turn columns of Arrow memory into codes.

Each looks at all rows and says whether every one is *plain*: within the limits given, and without a remainder. If not,
what it wrote is of no use, and who called takes the rows one by one.

The loops without NULLs have no branches, so that they are compiled to vector instructions.
"""

from __future__ import annotations

from typing import Any

from viewmill.engines.local.interning import instruction, is_valid
from viewmill.engines.local.libraries import Library
from viewmill.engines.local.raw import Int, call, peek, peek_half, poke
from viewmill.engines.local.wordcode import words

COLUMNS = Library("columns")

_NULL = -(2**63)
_NAN = 0x7FF8000000000000
_INFINITY = 0x7FF0000000000000
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF


@instruction
def _quotient(builder: Any, word: Any, per: Any) -> Any:
    return builder.sdiv(word, per)


@instruction
def _remainder(builder: Any, word: Any, per: Any) -> Any:
    return builder.srem(word, per)


@words
def _words_plain(source: Int, rows: Int, low: Int, high: Int) -> Int:
    """Whether all words are from `low` to `high`."""
    outside = 0
    for i in range(rows):
        word = peek(source, i)
        outside |= (word < low) | (word > high)
    return outside == 0


@words
def _decimals_plain(source: Int, rows: Int, low: Int, high: Int) -> Int:
    """Whether all numbers of 128 bits are from `low` to `high`: the upper word repeats the sign of the lower."""
    outside = 0
    for i in range(rows):
        lower = peek(source, 2 * i)
        outside |= (lower < low) | (lower > high) | (peek(source, 2 * i + 1) != (lower >> 63))
    return outside == 0


@words
def _doubles_plain(source: Int, rows: Int) -> Int:
    """Whether there is no zero with a sign, and no NaN but one."""
    other = 0
    for i in range(rows):
        word = peek(source, i)
        other |= (word == _NULL) | (((word & _MAGNITUDE) > _INFINITY) & (word != _NAN))
    return other == 0


@words
def _scale_words(
    source: Int, step: Int, bitmap: Int, first: Int, rows: Int, low: Int, high: Int, times: Int, per: Int, out: Int
) -> Int:
    """`word * times / per` for every `step`-th word: the lower ones of decimals if that is 2."""
    plain = True
    for i in range(rows):
        if is_valid(bitmap, first + i):
            word = peek(source, i * step)
            if word < low or word > high or (step == 2 and peek(source, 2 * i + 1) != (word >> 63)):
                plain = False
            if per == 1:
                poke(out, i, word * times)
            else:
                plain = plain and _remainder(word, per) == 0
                poke(out, i, _quotient(word, per))
        else:
            poke(out, i, _NULL)
    return plain


@words
def _widen_halves(source: Int, bitmap: Int, first: Int, rows: Int, low: Int, high: Int, times: Int, out: Int) -> Int:
    """`half * times` for numbers of 32 bits."""
    outside = 0
    if bitmap == 0:
        for i in range(rows):
            half = peek_half(source, i)
            outside |= (half < low) | (half > high)
            poke(out, i, half * times)
        return outside == 0
    for i in range(rows):
        if is_valid(bitmap, first + i):
            half = peek_half(source, i)
            outside |= (half < low) | (half > high)
            poke(out, i, half * times)
        else:
            poke(out, i, _NULL)
    return outside == 0


@words
def _normal_doubles(source: Int, bitmap: Int, first: Int, rows: Int, out: Int) -> Int:
    """The same doubles with one zero and one NaN."""
    for i in range(rows):
        word = peek(source, i)
        if not is_valid(bitmap, first + i):
            word = _NULL
        elif word == _NULL:
            word = 0
        elif (word & _MAGNITUDE) > _INFINITY:
            word = _NAN
        poke(out, i, word)


# --- all columns of a batch at once

# A struct of the Arrow C data interface, in words
_NULLS = 1
_OFFSET = 2
_BUFFERS = 5
_CHILDREN = 6
_RELEASE = 8

# What is to be done with a column: words of a plan
INDEX = 0  # its position in the batch
PLACE = 1  # the number of the pair of words that says where its codes are: address and stride
NOT_NULL = 2  # NULLs are refused
FORM = 3  # one of those below
LOW, HIGH, TIMES, PER = 4, 5, 6, 7  # limits of the numbers; `number * times / per` is the code
PLAN = 8

LOOK = 0  # nothing but to look for NULLs
WORDS = 1  # numbers of 64 bits
DECIMALS = 2  # numbers of 128 bits
HALVES = 3  # numbers of 32 bits
DOUBLES = 4
TEXTS = 5  # with offsets of 32 bits
LONG_TEXTS = 6  # with offsets of 64 bits

MORE = 2  # what is plain, but for texts that a dictionary has no room for: their pairs have no address


@words
def _encoded(plan: Int, source: Int, bitmap: Int, first: Int, rows: Int, out: Int, pair: Int) -> Int:
    """Codes at `out`, unless the column has them already; whether it is plain."""
    form, low, high = peek(plan, FORM), peek(plan, LOW), peek(plan, HIGH)
    times, per = peek(plan, TIMES), peek(plan, PER)
    poke(pair, 0, out)
    poke(pair, 1, 1)
    if form == HALVES:
        return _widen_halves(source + first * 4, bitmap, first, rows, low, high, times, out)
    step = 2 if form == DECIMALS else 1
    at = source + first * 8 * step
    if form == DOUBLES:
        if bitmap == 0 and _doubles_plain(at, rows):
            poke(pair, 0, at)
        else:
            _normal_doubles(at, bitmap, first, rows, out)
        return True
    if bitmap != 0 or times != 1 or per != 1:
        return _scale_words(at, step, bitmap, first, rows, low, high, times, per, out)
    poke(pair, 0, at)
    poke(pair, 1, step)
    return _decimals_plain(at, rows, low, high) if step == 2 else _words_plain(at, rows, low, high)


# The memory of a batch, in words: a pair for each column of the relation and one for the weights, the weight that all
# rows have, the batch as a struct, and codes
STRUCT = 10


def head(width: int) -> int:
    """Words before the struct, for a relation of so many columns."""
    return 2 * width + 3


@COLUMNS.export
def encode_batch(memory: Int, width: Int, rows: Int, weight: Int, plans: Int, columns: Int, dictionary: Int) -> Int:
    """Carry out the plans for columns of a batch; whether all are plain: 0, 1, or `MORE` if texts found no room.

    Each plan has room for its codes behind the struct, one behind the other. The struct is released: who called keeps
    the arrays. `dictionary` is the address of one, and of the function that enters rows into it.
    """
    for pair in range(width):
        poke(memory, 2 * pair, 0)
        poke(memory, 2 * pair + 1, 0)
    before = 2 * width + 3
    poke(memory, 2 * width, memory + 8 * (before - 1))
    poke(memory, 2 * width + 1, 0)
    poke(memory, before - 1, weight)
    batch = memory + 8 * before
    out = batch + 8 * STRUCT
    plain, more = True, False
    for number in range(columns):
        plan = plans + number * PLAN * 8
        form = peek(plan, FORM)
        column = peek(peek(batch, _CHILDREN), peek(plan, INDEX))
        first = peek(batch, _OFFSET) + peek(column, _OFFSET)
        buffers = peek(column, _BUFFERS)
        bitmap = peek(buffers, 0)
        if peek(column, _NULLS) == 0:  # -1 if it is not known how many there are
            bitmap = 0
        at, pair = out + number * rows * 8, memory + peek(plan, PLACE) * 16
        if bitmap != 0 and peek(plan, NOT_NULL) != 0:
            plain = False
        elif form == TEXTS or form == LONG_TEXTS:
            poke(pair, 0, at)
            poke(pair, 1, 1)
            wide = form == LONG_TEXTS
            texts, offsets = peek(buffers, 2), peek(buffers, 1)
            enter, block = peek(dictionary, 1), peek(dictionary, 0)
            if rows > 0 and call(enter, block, texts, offsets, wide, bitmap, first, 0, rows, 0, at) != rows:
                poke(pair, 0, 0)
                more = True
        elif form != LOOK:
            if not _encoded(plan, peek(buffers, 1), bitmap, first, rows, at, pair):
                plain = False
    call(peek(batch, _RELEASE), batch, 0)
    return (MORE if more else 1) if plain else 0
