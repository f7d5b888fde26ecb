"""Hash tables of slots, as the unique index and the slices use them.

A table is a power of two of words. A taken slot holds the upper half of the key's hash (its *tag*) in its upper half
and the record number plus one in its lower half; 0 is an empty slot. The tag alone says where the slot would like to
be, and nearly always whether the key matches, so probing, deleting and growing a table read no keys. Because the home
of a tag is monotone in the tag, growing a table walks both tables in order.
"""

from __future__ import annotations

from viewmill.engines.local.wordcode import inlined_words, words
from viewmill.engines.local.hashing import LOWER, UPPER, home
from viewmill.engines.local.raw import Int, peek, poke

SMALLEST_TABLE = 16


def load_limit(size: int) -> int:
    """How many entries a hash table of this size may hold: five eighths keep probes short."""
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


@inlined_words
def place_of(slots: Int, mask: Int, slot: Int) -> Int:
    """Where a slot that is in the table is. It is found also across slots that were emptied meanwhile."""
    at = home(slot & UPPER, mask)
    while peek(slots, at) != slot:
        at = (at + 1) & mask
    return at


@words
def erase_at(slots: Int, mask: Int, hole: Int) -> Int:
    """Empty a slot, and shift back those after it that only passed by, so that no tombstones remain."""
    at = hole
    while True:
        at = (at + 1) & mask
        slot = peek(slots, at)
        if slot == 0:
            poke(slots, hole, 0)
            return 0
        if (at - home(slot & UPPER, mask)) & mask >= (at - hole) & mask:
            poke(slots, hole, slot)
            hole = at


@words
def copy_slots(old: Int, old_size: Int, new: Int, mask: Int) -> Int:
    """Move a table into a larger empty one."""
    for number in range(old_size):
        slot = peek(old, number)
        if slot != 0:
            at = home(slot & UPPER, mask)
            while peek(new, at) != 0:
                at = (at + 1) & mask
            poke(new, at, slot)
    return 0


@inlined_words
def fill_with_zeros(base: Int, words: Int) -> None:
    for at in range(words):
        poke(base, at, 0)
