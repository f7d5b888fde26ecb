"""Hash tables of slots, as the unique index and the slices use them.

A table is a power of two of words. A taken slot holds the upper half of the key's hash (its *tag*, never 0) in its
upper half and the record number plus one in its lower half; 0 is an empty slot. Slots come in *buckets* of eight, a
cache line, that are compared with a tag at once: a search reads one bucket, unless that is full, and branches on
nothing that is hard to foresee. The tag alone says which bucket it would like to be in, and nearly always whether the
key matches, so probing, deleting and growing a table read no keys.

Law: a slot is in the first bucket from its home on, going round, that was not full of others when it came; no bucket
between its home and where it is has an empty slot.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from viewmill.engines.local.hashing import LOWER, UPPER, home
from viewmill.engines.local.raw import Int, peek, poke
from viewmill.engines.local.wordcode import WORD, inlined_words, instruction, words

BUCKET = 8
SMALLEST_TABLE = 16
_SLOTS = ir.VectorType(WORD, BUCKET)


def load_limit(size: int) -> int:
    """How many entries a hash table of this size may hold: with five eighths, few buckets are full."""
    return size * 5 // 8


def table_size(entries: int) -> int:
    """The smallest power of two that may hold so many entries."""
    size = SMALLEST_TABLE
    while load_limit(size) < entries:
        size *= 2
    return size


@inlined_words
def record_in(slot: Int) -> Int:
    """The record of a slot, -1 if it is empty."""
    return (slot & LOWER) - 1


@inlined_words
def limit_of(mask: Int) -> Int:
    return (mask + 1) * 5 >> 3


@inlined_words
def mask_for(entries: Int, most: Int) -> Int:
    """The mask of the smallest table that may hold so many entries, no table being larger than `most` slots."""
    size = SMALLEST_TABLE
    while size < most and limit_of(size - 1) < entries:
        size *= 2
    return size - 1


# Buckets


@instruction
def equal_slots(builder: Any, bucket: Any, bits: Any, word: Any) -> Any:
    """A bit for every slot of the bucket at an address: whether it is this word, as far as `bits` go."""
    slots = builder.load(builder.inttoptr(bucket, _SLOTS.as_pointer()), align=8)
    same = builder.icmp_unsigned("==", builder.and_(slots, _all(builder, bits)), _all(builder, word))
    return builder.zext(builder.bitcast(same, ir.IntType(BUCKET)), WORD)


def _all(builder: Any, word: Any) -> Any:
    one = builder.insert_element(_SLOTS(ir.Undefined), word, ir.IntType(32)(0))
    places = ir.VectorType(ir.IntType(32), BUCKET)(None)
    return builder.shuffle_vector(one, _SLOTS(ir.Undefined), places)


@instruction
def first_bit(builder: Any, word: Any) -> Any:
    """The number of the lowest bit that is set. Some must be."""
    return builder.cttz(word, ir.IntType(1)(1))


@inlined_words
def tagged(slots: Int, at: Int, tag: Int) -> Int:
    """Which slots of the bucket at `at` have this tag."""
    return equal_slots(slots + 8 * at, UPPER, tag)


@inlined_words
def vacant(slots: Int, at: Int) -> Int:
    """Which slots of the bucket at `at` are empty."""
    return equal_slots(slots + 8 * at, -1, 0)


# Slots


@inlined_words
def seek_tag(slots: Int, mask: Int, tag: Int) -> Int:
    """The first slot with this tag, or 0. It is nearly always that of the key."""
    at = home(tag, mask)
    found = tagged(slots, at, tag)
    while found == 0:
        if vacant(slots, at):
            return 0
        at = (at + BUCKET) & mask
        found = tagged(slots, at, tag)
    return peek(slots, at + first_bit(found))


@inlined_words
def place_for(slots: Int, mask: Int, tag: Int) -> Int:
    """The empty place where a new slot belongs."""
    at = home(tag, mask)
    free = vacant(slots, at)
    while free == 0:
        at = (at + BUCKET) & mask
        free = vacant(slots, at)
    return at + first_bit(free)


@inlined_words
def place_of(slots: Int, mask: Int, slot: Int) -> Int:
    """Where a slot that is in the table is. It is found also across buckets that lost slots meanwhile."""
    at = home(slot & UPPER, mask)
    found = equal_slots(slots + 8 * at, -1, slot)
    while found == 0:
        at = (at + BUCKET) & mask
        found = equal_slots(slots + 8 * at, -1, slot)
    return at + first_bit(found)


@words
def erase_at(slots: Int, mask: Int, hole: Int) -> Int:
    """Empty a slot. If its bucket was full, one that found no place there takes the hole, and leaves another."""
    bucket = hole & -BUCKET
    full = vacant(slots, bucket) == 0
    poke(slots, hole, 0)
    at = bucket
    while full:
        at = (at + BUCKET) & mask
        full = vacant(slots, at) == 0
        for place in range(at, at + BUCKET):
            slot = peek(slots, place)
            # The slot wanted the bucket of the hole or one before it.
            if slot != 0 and (at - home(slot & UPPER, mask)) & mask >= (at - bucket) & mask:
                poke(slots, hole, slot)
                poke(slots, place, 0)
                hole, bucket = place, at
                break
    return 0


@words
def copy_slots(old: Int, old_size: Int, new: Int, mask: Int) -> Int:
    """Move a table into a larger empty one."""
    for number in range(old_size):
        slot = peek(old, number)
        if slot != 0:
            poke(new, place_for(new, mask, slot & UPPER), slot)
    return 0


@words
def spread_slots(slots: Int, old_size: Int, mask: Int) -> Int:
    """Make a larger table of one in its first slots, where it is. 0 if they are all there, but not in order.

    The old table moves to the end, and from there each slot, in turn, to its home, which is before those that have not
    moved. If it finds no room before them and is put among them, it moves again with them. Only if it went round, it
    may stand behind buckets that are emptied later.
    """
    start = mask + 1 - old_size
    for number in range(old_size):
        poke(slots, start + number, peek(slots, number))
    fill_with_zeros(slots, old_size)
    ordered = 1
    for number in range(start, mask + 1):
        slot = peek(slots, number)
        if slot != 0:
            poke(slots, number, 0)
            place = place_for(slots, mask, slot & UPPER)
            poke(slots, place, slot)
            if place < home(slot & UPPER, mask):
                ordered = 0
    return ordered


@inlined_words
def fill_with_zeros(base: Int, count: Int) -> None:
    for at in range(count):
        poke(base, at, 0)
