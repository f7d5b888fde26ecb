"""Reading pools in generated code. A pool is the address of its control block, a key is a tuple of codes.

    record = find(block, (a, b))                # the record of a key, or -1
    record = first(block, 0, (b,))              # the first record of a slice, or -1
    while record >= 0:
        ...
        record = after(block, 0, record)
    for record in range(peek(block, HIGH)):     # all records
        if alive(block, record):
            ...

A record that died in this batch is still in the indexes; all of these pass over it. They are compiled for the length
of the tuple. From Python, ask the pool.
"""

from __future__ import annotations

from typing import Any

from viewmill.engines.local.chains import next_of_chain, slice_at
from viewmill.engines.local.hashing import home, tag_of_key
from viewmill.engines.local.layout import ALIVE, CHAIN_MASK, COLUMNS, HEADS, KEYS, LIVE, MASK, SLOTS, STRIDE
from viewmill.engines.local.raw import Int, peek, peek_byte, prefetch
from viewmill.engines.local.tables import BUCKET, first_bit, record_in, tagged, vacant
from viewmill.engines.local.wordcode import WORD, inlined_words, instruction, words


@instruction
def _is_key(builder: Any, base: Any, *key: Any) -> Any:
    """Not 0 if these words are at `base`."""
    pointer, differing = builder.inttoptr(base, WORD.as_pointer()), WORD(0)
    for column, word in enumerate(key):
        held = builder.load(builder.gep(pointer, [WORD(column)]))
        differing = builder.or_(differing, builder.xor(held, word))
    return builder.zext(builder.icmp_unsigned("==", differing, WORD(0)), WORD)


@instruction
def _has_sub_key(builder: Any, base: Any, columns: Any, *key: Any) -> Any:
    """Not 0 if these words are in the columns of a slice, of the record at `base`."""
    pointer, positions = builder.inttoptr(base, WORD.as_pointer()), builder.inttoptr(columns, WORD.as_pointer())
    differing = WORD(0)
    for number, word in enumerate(key):
        column = builder.load(builder.gep(positions, [WORD(number + 1)]))
        differing = builder.or_(differing, builder.xor(builder.load(builder.gep(pointer, [column])), word))
    return builder.zext(builder.icmp_unsigned("==", differing, WORD(0)), WORD)


@inlined_words
def alive(block: Int, record: Int) -> Int:
    """1 if the record has a weight in some lane, else 0."""
    return peek_byte(peek(block, LIVE), record) & ALIVE


@inlined_words
def expect(block: Int, *key: Int) -> Int:
    """Have the memory fetched that a later `find` of this key reads first. Worth it a dozen rows ahead."""
    prefetch(peek(block, SLOTS), home(tag_of_key(*key), peek(block, MASK)))
    return 0


@words
def find(block: Int, *key: Int) -> Int:
    """The living record of a key, or -1."""
    slots, mask, keys, stride = peek(block, SLOTS), peek(block, MASK), peek(block, KEYS), peek(block, STRIDE)
    tag = tag_of_key(*key)
    at = home(tag, mask)
    while True:
        found = tagged(slots, at, tag)
        while found:
            record = record_in(peek(slots, at + first_bit(found)))
            if _is_key(keys + 8 * stride * record, *key):
                return record if alive(block, record) else -1
            found &= found - 1
        if vacant(slots, at):
            return -1
        at = (at + BUCKET) & mask


@words
def first(block: Int, number: Int, *key: Int) -> Int:
    """The first living record whose columns of slice `number` are `key` (in the order of the slice), or -1."""
    index = slice_at(block, number)
    heads, mask, columns = peek(index, HEADS), peek(index, CHAIN_MASK), peek(index, COLUMNS)
    keys, stride = peek(block, KEYS), peek(block, STRIDE)
    tag = tag_of_key(*key)
    at = home(tag, mask)
    while True:
        found = tagged(heads, at, tag)
        while found:
            record = record_in(peek(heads, at + first_bit(found)))
            if _has_sub_key(keys + 8 * stride * record, columns, *key):
                return record if alive(block, record) else next_of_chain(block, number, record)
            found &= found - 1
        if vacant(heads, at):
            return -1
        at = (at + BUCKET) & mask


after = next_of_chain
"""The next living record of the slice, or -1."""
