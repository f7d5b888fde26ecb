"""Compiled loops over the memory of a dictionary: find strings, keep new ones, and put strings together again.

Strings lie one behind the other in a *heap* of bytes; string `code` is at `starts[code]` up to `starts[code + 1]`. A
hash table, a power of two long, finds them. A taken slot holds 31 bits of the string's hash and whether it is binary in
its upper half, and the code plus one in its lower half; 0 is an empty slot. Where a slot would like to be is said by
other bits of the hash, so the upper half tells nearly always whether the string is the one looked for.

Nothing here allocates. What finds no room stops, and says where; who called makes room and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from viewmill.engines.local.libraries import Library
from viewmill.engines.local.raw import (
    CHUNK,
    Int,
    fold,
    peek,
    peek_byte,
    peek_half,
    poke,
    poke_byte,
    prefetch,
    room_for_chunk,
    word_at,
)
from viewmill.engines.local.recent import SHORT, forget_all, make_recent, recent_code, room_for_recent
from viewmill.engines.local.wordcode import WORD, Instruction, inlined_words, words

STRINGS = Library("strings")

# The control block: where everything is, and how much of it. Generated code reads the first two.
HEAP = 0  # uint8 [ROOM]
STARTS = 1  # int64 [LIMIT + 1]
MARKS = 2  # uint8 [LIMIT], the bits below
SLOTS = 3  # int64 [MASK + 1]
MASK = 4  # number of slots, less one
COUNT = 5  # strings
LIMIT = 6  # how many there is room for
ROOM = 7  # bytes there is room for
BLOCK = 8

BINARY = 1  # a binary; a text of the same bytes is another string
DERIVED = 2  # not seen as data when it was new: a function of another string

_NULL = -(2**63)
_LOWER = 2**32 - 1
_MANY = 512  # rows among which it is worth to look for strings that were there before
_PAUSE = 15  # chunks for which it is not looked after one where that was in vain
_HASH = -(2**33)  # the upper half without its last bit, which says whether the string is binary

# Odd numbers with about as many ones as zeros, nothing else.
_K0 = 0x2D358DCCAA6C78A5
_K1 = 0x1BB67AE8584CAA73
_K2 = 0x4B33A62ED433D4A3


def instruction(generate: Callable[..., Any]) -> Any:
    """LLVM code that functions of words call like one of them."""
    return Instruction(generate)


# --- memory that is not aligned


@instruction
def _load_half(builder: Any, address: Any) -> Any:
    """32 bits, without sign."""
    return builder.zext(builder.load(builder.inttoptr(address, ir.IntType(32).as_pointer()), align=1), WORD)


@instruction
def _store_word(builder: Any, address: Any, value: Any) -> Any:
    builder.store(value, builder.inttoptr(address, WORD.as_pointer()), align=1)
    return WORD(0)


@words
def _hashed(at: Int, length: Int) -> Int:
    """A hash of `length` bytes. The last words overlap those before, so that no byte outside is read."""
    a, b, state = 0, 0, _K0
    if length > 16:
        done = 0
        while done + 16 < length:
            state = fold(word_at(at + done) ^ _K1, word_at(at + done + 8) ^ state)
            done += 16
        a, b = word_at(at + length - 16), word_at(at + length - 8)
    elif length >= 8:
        a, b = word_at(at), word_at(at + length - 8)
    elif length >= 4:
        a, b = _load_half(at), _load_half(at + length - 4)
    elif length > 0:
        a = (peek_byte(at, 0) << 16) | (peek_byte(at, length >> 1) << 8) | peek_byte(at, length - 1)
    return fold(_K2 ^ length, fold(a ^ _K1, b ^ state))


@words
def _same(p: Int, q: Int, length: Int) -> Int:
    if length >= 8:
        done = 0
        while done + 8 < length:
            if word_at(p + done) != word_at(q + done):
                return False
            done += 8
        return word_at(p + length - 8) == word_at(q + length - 8)
    if length >= 4:
        return _load_half(p) == _load_half(q) and _load_half(p + length - 4) == _load_half(q + length - 4)
    same = True
    for i in range(length):
        same = same and peek_byte(p, i) == peek_byte(q, i)
    return same


@words
def _copy(source: Int, target: Int, length: Int) -> Int:
    if length >= 8:
        done = 0
        while done + 8 < length:
            _store_word(target + done, word_at(source + done))
            done += 8
        _store_word(target + length - 8, word_at(source + length - 8))
    else:
        for i in range(length):
            poke_byte(target, i, peek_byte(source, i))


# --- finding and keeping


@inlined_words
def _slot_hash(hash_: Int, mark: Int) -> Int:
    """The upper half of a string's slot."""
    return (hash_ & _HASH) | ((mark & BINARY) << 32)


@words
def _interned(block: Int, at: Int, length: Int, mark: Int, hash_: Int) -> Int:
    """The code of a string, new or known; -1 if it is new and there is no room."""
    slots, mask = peek(block, SLOTS), peek(block, MASK)
    heap, starts = peek(block, HEAP), peek(block, STARTS)
    upper = _slot_hash(hash_, mark)
    home = hash_ & mask
    slot = peek(slots, home)
    while slot != 0:
        if (slot & ~_LOWER) == upper:
            code = (slot & _LOWER) - 1
            start = peek(starts, code)
            if peek(starts, code + 1) - start == length and _same(heap + start, at, length):
                return code
        home = (home + 1) & mask
        slot = peek(slots, home)
    count = peek(block, COUNT)
    start = peek(starts, count)
    if count == peek(block, LIMIT) or start + length > peek(block, ROOM):
        return -1
    _copy(at, heap + start, length)
    poke(starts, count + 1, start + length)
    poke_byte(peek(block, MARKS), count, mark)
    poke(slots, home, upper | (count + 1))
    poke(block, COUNT, count + 1)
    return count


@STRINGS.export
def intern_one(block: Int, at: Int, length: Int, mark: Int) -> Int:
    return _interned(block, at, length, mark, _hashed(at, length))


@inlined_words
def _offset(offsets: Int, wide: Int, row: Int) -> Int:
    return peek(offsets, row) if wide else peek_half(offsets, row)


@inlined_words
def is_valid(bitmap: Int, bit: Int) -> Int:
    return bitmap == 0 or ((peek_byte(bitmap, bit >> 3) >> (bit & 7)) & 1) != 0


@words
def _recent_rows(
    recent: Int, data: Int, offsets: Int, wide: Int, bitmap: Int, first: Int, row: Int, upto: Int, safe: Int, out: Int
) -> Int:
    """Codes of the rows that are recent strings, -1 for all others. Returns how many those are."""
    missed = 0
    start = _offset(offsets, wide, first + row)
    for i in range(row, upto):
        end = _offset(offsets, wide, first + i + 1)
        code = -1
        if end - start <= SHORT and start <= safe and is_valid(bitmap, first + i):
            code = recent_code(recent, data + start, end - start)
        poke(out, i, code)
        missed += code < 0
        start = end
    return missed


@STRINGS.export
def intern_rows(
    block: Int, data: Int, offsets: Int, wide: Int, bitmap: Int, first: Int, row: Int, rows: Int, mark: Int, out: Int
) -> Int:
    """Codes of the rows from `row` on of an Arrow array that starts at its element `first`; the row where it stopped.

    `wide` says whether offsets have 64 bits or 32, `bitmap` which rows are not NULL (0: none is). Rows are handled in
    chunks. Recent strings are done at once; for the others, one short loop hashes and asks for the slots, and the next
    one finds them in the cache. Where many are not recent, it is asked for few chunks only.
    """
    hashes, recent = room_for_chunk(), room_for_recent()
    slots, mask = peek(block, SLOTS), peek(block, MASK)
    safe = _offset(offsets, wide, first + rows) - SHORT if rows >= _MANY else -1  # up to where SHORT bytes can be read
    if safe >= 0:
        forget_all(recent)
    pause = 0
    while row < rows:
        upto = min(row + CHUNK, rows)
        asked, missed = safe >= 0 and pause == 0, upto - row
        pause = max(pause - 1, 0)
        if asked:
            missed = _recent_rows(recent, data, offsets, wide, bitmap, first, row, upto, safe, out)
            # The first chunk has every string for the first time.
            pause = _PAUSE if missed * 4 > CHUNK and row > CHUNK else 0
        for i in range(row, upto if missed > 0 else row):
            if not asked or peek(out, i) == -1:
                start = _offset(offsets, wide, first + i)
                hash_ = _hashed(data + start, _offset(offsets, wide, first + i + 1) - start)
                poke(hashes, i - row, hash_)
                prefetch(slots, hash_ & mask)
        for i in range(row, upto if missed > 0 else row):
            if not asked or peek(out, i) == -1:
                start, end = _offset(offsets, wide, first + i), _offset(offsets, wide, first + i + 1)
                code = _NULL
                if is_valid(bitmap, first + i):
                    code = _interned(block, data + start, end - start, mark, peek(hashes, i - row))
                    if code < 0:
                        return i
                    if asked and end - start <= SHORT and start <= safe:
                        make_recent(recent, data + start, end - start, code)
                poke(out, i, code)
        row = upto
    return row


@STRINGS.export
def refill(block: Int) -> Int:
    """Enter every string into an empty table."""
    slots, mask = peek(block, SLOTS), peek(block, MASK)
    heap, starts, marks = peek(block, HEAP), peek(block, STARTS), peek(block, MARKS)
    for code in range(peek(block, COUNT)):
        start = peek(starts, code)
        hash_ = _hashed(heap + start, peek(starts, code + 1) - start)
        home = hash_ & mask
        while peek(slots, home) != 0:
            home = (home + 1) & mask
        poke(slots, home, _slot_hash(hash_, peek_byte(marks, code)) | (code + 1))


# --- strings out


@STRINGS.export
def measure(starts: Int, count: Int, codes: Int, rows: Int, offsets: Int) -> Int:
    """The offsets (int64) of the strings with these codes, and their length in all; -1 if there is no such code."""
    total = 0
    poke(offsets, 0, 0)
    for i in range(rows):
        code = peek(codes, i)
        if code != _NULL:
            if code < 0 or code >= count:
                return -1
            total += peek(starts, code + 1) - peek(starts, code)
        poke(offsets, i + 1, total)
    return total


@STRINGS.export
def gather(heap: Int, starts: Int, codes: Int, rows: Int, offsets: Int, out: Int) -> Int:
    """The bytes of the strings with these codes, one behind the other."""
    for i in range(rows):
        code = peek(codes, i)
        if code != _NULL:
            at = peek(offsets, i)
            _copy(heap + peek(starts, code), out + at, peek(offsets, i + 1) - at)
