"""Hashes of keys. A hash is a *tag*: 32 bits in the upper half of a word, the lower half free for a record number.

One multiplication and one shift for every word of the key, and one multiplication at the end, so that words which
differ only in their upper bits (doubles, multiples of a power of two) reach all bits of the tag. A key in a row of
words, in some columns of a record, and in a tuple has the same tag.
"""

from __future__ import annotations

from typing import Any

from viewmill.engines.local.raw import Int, peek
from viewmill.engines.local.wordcode import WORD, inlined_words, instruction, shift_right

UPPER = -(2**32)
LOWER = 2**32 - 1
NOT_EMPTY = 2**32  # set in every tag

SEED = 0x2545F4914F6CDD1D
FACTOR = 0x9E3779B97F4A7C15
LAST = 0xD6E8FEB86659FD93


@inlined_words
def mix(state: Int, code: Int) -> Int:
    state = (state ^ code) * FACTOR
    return state ^ shift_right(state, 32)


@inlined_words
def tag_of_state(state: Int) -> Int:
    return state * LAST & UPPER | NOT_EMPTY


@inlined_words
def tag_of_words(base: Int, width: Int) -> Int:
    """The tag of a key that stands in `width` words at `base`."""
    state = SEED
    for column in range(width):
        state = mix(state, peek(base, column))
    return tag_of_state(state)


@inlined_words
def tag_of_columns(base: Int, columns: Int) -> Int:
    """The tag of a sub-key: `columns` is the address of their number, then their positions in the key at `base`."""
    state = SEED
    for column in range(peek(columns, 0)):
        state = mix(state, peek(base, peek(columns, column + 1)))
    return tag_of_state(state)


@instruction
def tag_of_key(builder: Any, *key: Any) -> Any:
    """The tag of a key given word by word."""
    state = WORD(SEED)
    for word in key:
        state = builder.mul(builder.xor(state, word), WORD(FACTOR))
        state = builder.xor(state, builder.lshr(state, WORD(32)))
    tag = builder.and_(builder.mul(state, WORD(LAST)), WORD(UPPER))
    return builder.or_(tag, WORD(NOT_EMPTY))


@inlined_words
def home(tag: Int, mask: Int) -> Int:
    """The first slot of the bucket where a tag would like to be: the tag as a fraction of the table."""
    return shift_right(shift_right(tag, 32) * (mask + 1), 32) & -8
