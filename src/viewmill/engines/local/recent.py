"""Short strings that were met a moment ago, with their codes.

Many columns have few different strings, all of them short. Their codes are found here, in a small table that holds the
bytes of the strings themselves, filled up with zeros, so that strings of any length are compared without a branch.
Found by way of the dictionary, a string of 3 to 7 bytes costs 20 ns, nearly all of it for branches that cannot be
foreseen; here, 5 ns.

The table is on the stack of the function that goes through one column, so it cannot outlive what the codes mean. It is
indexed by a hash; a string takes the place of another that has the same.
"""

from __future__ import annotations

from typing import Any

from viewmill.engines.local.raw import Int, fold, peek, poke, word_at
from viewmill.engines.local.wordcode import WORD, inlined_words, instruction, words

SHORT = 24  # bytes of the longest string, and how many there must be to read at the start of any
_ENTRIES = 512

# Words of an entry
_BYTES = 0  # three of them
_LENGTH = 3  # and one more, so that 0 is no string
_CODE = 4
_WORDS = 8

_K0 = 0x2D358DCCAA6C78A5
_K1 = 0x1BB67AE8584CAA73


@instruction
def room_for_recent(builder: Any) -> Any:
    """The address of a table on the stack, gone when the function returns."""
    with builder.goto_entry_block():
        room = builder.alloca(WORD, size=_ENTRIES * _WORDS)
    return builder.ptrtoint(room, WORD)


@instruction
def _first_bytes(builder: Any, word: Any, count: Any) -> Any:
    """The first bytes of a word, the others 0. All of them if `count` is more than 7, none if it is less than 1."""
    bits = builder.and_(builder.shl(count, WORD(3)), WORD(63))
    some = builder.and_(word, builder.sub(builder.shl(WORD(1), bits), WORD(1)))
    some = builder.select(builder.icmp_signed(">", count, WORD(0)), some, WORD(0))
    return builder.select(builder.icmp_signed(">", count, WORD(7)), word, some)


@inlined_words
def _entry(recent: Int, a: Int, b: Int, c: Int, length: Int) -> Int:
    number = fold(a ^ _K1, b ^ c ^ _K0 ^ length) & (_ENTRIES - 1)
    return recent + 8 * number * _WORDS


@words
def forget_all(recent: Int) -> None:
    for number in range(_ENTRIES):
        poke(recent, number * _WORDS + _LENGTH, 0)


@inlined_words
def recent_code(recent: Int, at: Int, length: Int) -> Int:
    """The code of a short string, or -1."""
    a = _first_bytes(word_at(at), length)
    b = _first_bytes(word_at(at + 8), length - 8)
    c = _first_bytes(word_at(at + 16), length - 16)
    entry = _entry(recent, a, b, c, length)
    differing = (peek(entry, _BYTES) ^ a) | (peek(entry, _BYTES + 1) ^ b) | (peek(entry, _BYTES + 2) ^ c)
    return peek(entry, _CODE) if (differing | (peek(entry, _LENGTH) ^ (length + 1))) == 0 else -1


@words
def make_recent(recent: Int, at: Int, length: Int, code: Int) -> None:
    """Note the code of a short string."""
    a = _first_bytes(word_at(at), length)
    b = _first_bytes(word_at(at + 8), length - 8)
    c = _first_bytes(word_at(at + 16), length - 16)
    entry = _entry(recent, a, b, c, length)
    poke(entry, _BYTES, a)
    poke(entry, _BYTES + 1, b)
    poke(entry, _BYTES + 2, c)
    poke(entry, _LENGTH, length + 1)
    poke(entry, _CODE, code)
