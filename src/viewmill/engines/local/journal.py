"""The ends of a batch: keeping it, undoing it, and emptying a pool that lives for one batch only."""

from __future__ import annotations

from viewmill.engines.local.chains import AHEAD, clear_chains, entry_record, unlink_dead
from viewmill.engines.local.hashing import home
from viewmill.engines.local.layout import (
    ALIVE,
    EMITTED,
    ENTRIES,
    ENTRY_LIMIT,
    HIGH,
    INDEXED,
    JOURNAL,
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
)
from viewmill.engines.local.ordered_loops import touch_nodes, uproot_dead
from viewmill.engines.local.raw import Int, peek, peek_byte, poke, poke_byte, prefetch
from viewmill.engines.local.records import free_record, grow, key_at, set_mask, tag_of_record, weights_at
from viewmill.engines.local.tables import fill_with_zeros, mask_for, place_of
from viewmill.engines.local.wordcode import inlined_words, words

LONG = 2**16
"""Rows in OUT or the journal from which on memory that few rows use is given back."""


@words
def sweep(block: Int) -> None:
    """End the batch: free the records that died in it and empty the journal."""
    unlink_dead(block)
    uproot_dead(block)
    stride = 8 * (1 + peek(block, LANES))
    journal, live = peek(block, JOURNAL), peek(block, LIVE)
    for entry in range(peek(block, ENTRIES)):
        ask_for_slots(block, journal, stride, entry, peek(block, ENTRIES))
        record = entry_record(journal, stride, entry)
        if peek_byte(live, record) & ALIVE:
            poke_byte(live, record, ALIVE)
        else:
            free_record(block, record)


@inlined_words
def ask_for_slots(block: Int, journal: Int, stride: Int, entry: Int, entries: Int) -> None:
    """Have fetched what is read some entries later: keys of records in two steps, and slots of those that died."""
    live = peek(block, LIVE)
    if entry + 2 * AHEAD < entries:
        record = entry_record(journal, stride, entry + 2 * AHEAD)
        prefetch(live + record, 0)
        prefetch(key_at(block, record), 0)
    if entry + AHEAD < entries:
        record = entry_record(journal, stride, entry + AHEAD)
        if peek_byte(live, record) & ALIVE == 0:
            prefetch(peek(block, SLOTS), home(tag_of_record(block, record), peek(block, MASK)))


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
    lanes, live, living = peek(block, LANES), peek(block, LIVE), peek(block, LIVING)
    for number in range(peek(block, ENTRIES)):
        entry = peek(block, JOURNAL) + 8 * number * (1 + lanes)
        record = peek(entry, 0)
        if record < 0:
            record = ~record
        touch_nodes(block, record)
        weights, some = weights_at(block, record), 0
        for lane in range(lanes):
            some |= peek(entry, 1 + lane)
            poke(weights, lane, peek(entry, 1 + lane))
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
    slots, mask, live = peek(block, SLOTS), peek(block, MASK), peek(block, LIVE)
    if mask < 8 * high:
        fill_with_zeros(slots, mask + 1)
    else:
        for record in range(high):
            poke(slots, place_of(slots, mask, tag_of_record(block, record) | (record + 1)), 0)
    for record in range(high):
        poke_byte(live, record, 0)
        fill_with_zeros(weights_at(block, record), peek(block, LANES))
    poke(block, HIGH, 0)
    poke(block, INDEXED, 0)
    poke(block, LIVING, 0)
    set_mask(block, min(mask, mask_for(4 * high, peek(block, SLOT_ROOM))))


@inlined_words
def end(block: Int) -> Int:
    """What `begin`, `rollback` and `clear` have in common, of either kind of pool."""
    poke(block, EMITTED, 0)
    return give_back(block)
