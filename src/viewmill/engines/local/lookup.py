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
of the tuple, from words, so that Numba has no types to find inside them. From Python, ask the pool.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils

from viewmill.engines.local.chains import next_of_chain, slice_at
from viewmill.engines.local.compiling import intrinsic
from viewmill.engines.local.hashing import home, tag_of_key
from viewmill.engines.local.layout import ALIVE, CHAIN_MASK, COLUMNS, HEADS, KEY_STRIDE, KEYS, LIVE, MASK, SLOTS
from viewmill.engines.local.raw import Int, peek, peek_byte, prefetch
from viewmill.engines.local.tables import BUCKET, first_bit, record_in, tagged, vacant
from viewmill.engines.local.wordcode import WORD, WordFunction, WordModule, inlined_words, instruction, words


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
def _alive(block: Int, record: Int) -> Int:
    return peek_byte(peek(block, LIVE), record) & ALIVE


@inlined_words
def _expect(block: Int, *key: Int) -> Int:
    prefetch(peek(block, SLOTS), home(tag_of_key(*key), peek(block, MASK)))
    return 0


@words
def _find(block: Int, *key: Int) -> Int:
    slots, mask, keys, stride = peek(block, SLOTS), peek(block, MASK), peek(block, KEYS), peek(block, KEY_STRIDE)
    tag = tag_of_key(*key)
    at = home(tag, mask)
    while True:
        found = tagged(slots, at, tag)
        while found:
            record = record_in(peek(slots, at + first_bit(found)))
            if _is_key(keys + 8 * stride * record, *key):
                return record if _alive(block, record) else -1
            found &= found - 1
        if vacant(slots, at):
            return -1
        at = (at + BUCKET) & mask


@words
def _first(block: Int, number: Int, *key: Int) -> Int:
    index = slice_at(block, number)
    heads, mask, columns = peek(index, HEADS), peek(index, CHAIN_MASK), peek(index, COLUMNS)
    keys, stride = peek(block, KEYS), peek(block, KEY_STRIDE)
    tag = tag_of_key(*key)
    at = home(tag, mask)
    while True:
        found = tagged(heads, at, tag)
        while found:
            record = record_in(peek(heads, at + first_bit(found)))
            if _has_sub_key(keys + 8 * stride * record, columns, *key):
                return record if _alive(block, record) else next_of_chain(block, number, record)
            found &= found - 1
        if vacant(heads, at):
            return -1
        at = (at + BUCKET) & mask


def _in_generated_code(function: WordFunction, *arguments: Any) -> Any:
    """The type of an intrinsic, and the code of it."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        flat: list[Any] = []
        for kind, value in zip(signature.args, values, strict=True):
            flat += _words(target, builder, kind, value)
        return builder.call(WordModule(builder.module).function(function, len(flat)), flat)

    return types.int64(*arguments), generate


def _words(target: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """An argument, or the elements of a tuple, as words."""
    if not isinstance(kind, types.BaseTuple):
        return [target.cast(builder, value, kind, types.int64)]
    kinds: Any = kind
    unpack: Any = cgutils.unpack_tuple
    parts = zip(kinds, unpack(builder, value), strict=True)
    return [target.cast(builder, part, each, types.int64) for each, part in parts]


@intrinsic
def expect(context: Any, block: Any, key: Any) -> Any:
    """Have the memory fetched that a later `find` of this key reads first. Worth it a dozen rows ahead."""
    return _in_generated_code(_expect, block, key)


@intrinsic
def find(context: Any, block: Any, key: Any) -> Any:
    """The living record of a key, or -1."""
    return _in_generated_code(_find, block, key)


@intrinsic
def first(context: Any, block: Any, number: Any, key: Any) -> Any:
    """The first living record whose columns of slice `number` are `key` (in the order of the slice), or -1."""
    return _in_generated_code(_first, block, number, key)


@intrinsic
def after(context: Any, block: Any, number: Any, record: Any) -> Any:
    """The next living record of the slice, or -1."""
    return _in_generated_code(next_of_chain, block, number, record)


@intrinsic
def alive(context: Any, block: Any, record: Any) -> Any:
    """1 if the record has a weight in some lane, else 0."""
    return _in_generated_code(_alive, block, record)


# By the names they have in code that is made of words alone
find_words, first_words, after_words, alive_words = _find, _first, next_of_chain, _alive
