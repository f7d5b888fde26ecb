"""The ends of a batch: keeping it, undoing it, and emptying a pool that lives for one batch only."""

from __future__ import annotations

from viewmill.engines.local.chains import clear_chains, unlink_dead
from viewmill.engines.local.wordcode import inlined_words, words
from viewmill.engines.local.hashing import tag_of_words
from viewmill.engines.local.layout import (
    ALIVE,
    EMITTED,
    ENTRIES,
    ENTRY_LIMIT,
    FIRST_FREE,
    FREE,
    HIGH,
    INDEXED,
    JOURNAL,
    KEYS,
    LANES,
    LIVE,
    LIVING,
    MASK,
    OUT_LIMIT,
    OUT_PEAK,
    SHRINK_JOURNAL,
    SHRINK_OUT,
    SLOT_ROOM,
    SLOTS,
    WEIGHTS,
    WIDTH,
)
from viewmill.engines.local.raw import Int, peek, peek_byte, poke, poke_byte
from viewmill.engines.local.records import grow, set_mask
from viewmill.engines.local.tables import erase_at, fill_with_zeros, mask_for, place_of

LONG = 2**16
"""Rows in OUT or the journal from which on memory that few rows use is given back."""


@inlined_words
def free_record(block: Int, record: Int) -> None:
    keys, width = peek(block, KEYS), peek(block, WIDTH)
    slots, mask = peek(block, SLOTS), peek(block, MASK)
    tag = tag_of_words(keys + 8 * record * width, width)
    erase_at(slots, mask, place_of(slots, mask, tag | (record + 1)))
    poke_byte(peek(block, LIVE), record, 0)
    poke(peek(block, FREE), record, peek(block, FIRST_FREE))
    poke(block, FIRST_FREE, record)
    poke(block, INDEXED, peek(block, INDEXED) - 1)


@words
def sweep(block: Int) -> None:
    """End the batch: free the records that died in it and empty the journal."""
    unlink_dead(block)
    stride = 1 + peek(block, LANES)
    journal, live = peek(block, JOURNAL), peek(block, LIVE)
    for entry in range(peek(block, ENTRIES)):
        record = peek(journal, entry * stride)
        if record < 0:
            record = ~record
        if peek_byte(live, record) & ALIVE:
            poke_byte(live, record, ALIVE)
        else:
            free_record(block, record)


@words
def give_back(block: Int) -> Int:
    """Return the memory that an earlier large batch needed, unless this one came near to it. Returns flags."""
    entries, flags = peek(block, ENTRIES), 0
    poke(block, ENTRIES, 0)
    if peek(block, ENTRY_LIMIT) > max(LONG, 8 * entries):
        flags |= grow(block, SHRINK_JOURNAL, 2 * entries)
    if peek(block, OUT_LIMIT) > max(LONG, 8 * peek(block, OUT_PEAK)):
        flags |= grow(block, SHRINK_OUT, 2 * peek(block, OUT_PEAK))
    poke(block, OUT_PEAK, 0)
    return flags


@words
def restore(block: Int) -> None:
    """Put the old weights back. What the batch inserted is dead after this."""
    lanes = peek(block, LANES)
    live, weights = peek(block, LIVE), peek(block, WEIGHTS)
    living = peek(block, LIVING)
    for entry in range(peek(block, ENTRIES)):
        base = peek(block, JOURNAL) + 8 * entry * (1 + lanes)
        record = peek(base, 0)
        if record < 0:
            record = ~record
        some = 0
        for lane in range(lanes):
            some |= peek(base, 1 + lane)
            poke(weights, record * lanes + lane, peek(base, 1 + lane))
        alive = ALIVE if some != 0 else 0
        living += alive - (peek_byte(live, record) & ALIVE)
        poke_byte(live, record, alive)
    poke(block, LIVING, living)


@words
def empty(block: Int) -> None:
    """Forget every record of a pool that is not journalled, in time that follows their number.

    The next batch is taken to be about as large: the part of the index in use shrinks with what it held.
    """
    high = peek(block, HIGH)
    if high == 0:
        return
    clear_chains(block)
    slots, mask, keys, width = peek(block, SLOTS), peek(block, MASK), peek(block, KEYS), peek(block, WIDTH)
    if mask < 8 * high:
        fill_with_zeros(slots, mask + 1)
    else:
        for record in range(high):
            tag = tag_of_words(keys + 8 * record * width, width)
            poke(slots, place_of(slots, mask, tag | (record + 1)), 0)
    fill_with_zeros(peek(block, WEIGHTS), high * peek(block, LANES))
    live = peek(block, LIVE)
    for record in range(high):
        poke_byte(live, record, 0)
    poke(block, HIGH, 0)
    poke(block, INDEXED, 0)
    poke(block, LIVING, 0)
    set_mask(block, min(mask, mask_for(4 * high, peek(block, SLOT_ROOM))))


@inlined_words
def end(block: Int) -> Int:
    """What `begin`, `rollback` and `clear` have in common, of either kind of pool."""
    poke(block, EMITTED, 0)
    return give_back(block)
