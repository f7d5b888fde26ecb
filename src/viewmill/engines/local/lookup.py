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
from numba.extending import intrinsic

from viewmill.engines.local.chains import next_of_chain, slice_at
from viewmill.engines.local.hashing import UPPER, home, tag_of_key
from viewmill.engines.local.layout import ALIVE, CHAIN_MASK, COLUMNS, HEADS, KEYS, LIVE, MASK, SLOTS, WIDTH
from viewmill.engines.local.raw import Int, peek, peek_byte
from viewmill.engines.local.tables import record_in
from viewmill.engines.local.wordcode import WORD, Instruction, WordFunction, WordModule, inlined_words, words


@Instruction
def _is_key(builder: Any, base: Any, *key: Any) -> Any:
    """Not 0 if these words are at `base`."""
    pointer, differing = builder.inttoptr(base, WORD.as_pointer()), WORD(0)
    for column, word in enumerate(key):
        held = builder.load(builder.gep(pointer, [WORD(column)]))
        differing = builder.or_(differing, builder.xor(held, word))
    return builder.zext(builder.icmp_unsigned("==", differing, WORD(0)), WORD)


@Instruction
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


@words
def _find(block: Int, *key: Int) -> Int:
    slots, mask, keys, width = peek(block, SLOTS), peek(block, MASK), peek(block, KEYS), peek(block, WIDTH)
    tag = tag_of_key(*key)
    at = home(tag, mask)
    while True:
        slot = peek(slots, at)
        if slot == 0:
            return -1
        record = record_in(slot)
        if slot & UPPER == tag and _is_key(keys + 8 * width * record, *key):
            return record if _alive(block, record) else -1
        at = (at + 1) & mask


@words
def _first(block: Int, number: Int, *key: Int) -> Int:
    index = slice_at(block, number)
    heads, mask, columns = peek(index, HEADS), peek(index, CHAIN_MASK), peek(index, COLUMNS)
    keys, width = peek(block, KEYS), peek(block, WIDTH)
    tag = tag_of_key(*key)
    at = home(tag, mask)
    while True:
        slot = peek(heads, at)
        if slot == 0:
            return -1
        record = record_in(slot)
        if slot & UPPER == tag and _has_sub_key(keys + 8 * width * record, columns, *key):
            return record if _alive(block, record) else next_of_chain(block, number, record)
        at = (at + 1) & mask


def _in_generated_code(function: WordFunction, *arguments: Any) -> Any:
    """The type of an intrinsic, and the code of it."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        flat: list[Any] = []
        for kind, value in zip(signature.args, values, strict=True):
            parts = zip(kind.types, cgutils.unpack_tuple(builder, value)) if _is_tuple(kind) else [(kind, value)]
            flat += [target.cast(builder, part, each, types.int64) for each, part in parts]
        return builder.call(WordModule(builder.module).function(function, len(flat)), flat)

    return types.int64(*arguments), generate


def _is_tuple(kind: Any) -> bool:
    return isinstance(kind, types.BaseTuple)


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
