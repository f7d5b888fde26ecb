"""Records of a pool: making room for them, taking new ones, freeing them, noting them in the journal.

Law of a batch: a record touched in it is in the journal once, with the weights it had before. A record whose weights
become zero is dead at once but keeps its place in the indexes until the batch ends, so the same key coming back finds
its record again, and undoing a batch is putting the old weights back: it needs no memory.

A pool that is not journalled holds what one batch needs for itself. Its records are 0 to HIGH - 1 in the order they
came; none is freed before all are.
"""

from __future__ import annotations

from viewmill.engines.local.hashing import tag_of_words
from viewmill.engines.local.layout import (
    CAPACITY,
    ENTRIES,
    ENTRY_LIMIT,
    FIRST_FREE,
    GROW,
    GROW_JOURNAL,
    GROW_RECORDS,
    GROWN,
    HIGH,
    INDEXED,
    JOURNAL,
    KEYS,
    LANES,
    LIMIT,
    LIVE,
    LOOK_AHEAD,
    MASK,
    NEEDED,
    POOL,
    SLOT_ROOM,
    SLOTS,
    SOON,
    STRIDE,
    TOUCHED,
    WEIGHTS,
    WIDTH,
)
from viewmill.engines.local.raw import FULL, Int, call, peek, poke, poke_byte
from viewmill.engines.local.tables import erase_at, fill_with_zeros, limit_of, mask_for, place_for, place_of
from viewmill.engines.local.wordcode import inlined_words, words


@inlined_words
def journalled(block: Int) -> Int:
    return peek(block, ENTRY_LIMIT) >= 0


@inlined_words
def key_at(block: Int, record: Int) -> Int:
    """Where the key of a record is."""
    return peek(block, KEYS) + 8 * record * peek(block, STRIDE)


@inlined_words
def weights_at(block: Int, record: Int) -> Int:
    """Where the weights of a record are."""
    return peek(block, WEIGHTS) + 8 * record * peek(block, STRIDE)


@inlined_words
def row_words(block: Int) -> Int:
    """Words of a row in OUT: as many as a record has."""
    return peek(block, STRIDE)


@inlined_words
def tag_of_record(block: Int, record: Int) -> Int:
    return tag_of_words(key_at(block, record), peek(block, WIDTH))


# Room


@inlined_words
def grow(block: Int, what: Int, needed: Int) -> Int:
    """Ask the owner of the pool for room. Every address in the block may be another after this."""
    poke(block, NEEDED, needed)
    call(peek(block, GROW), peek(block, POOL), what)
    return 0 if peek(block, NEEDED) == GROWN else FULL


@words
def room_for_records(block: Int, rows: Int) -> Int:
    """Make room for so many new records. Returns flags."""
    wanted = peek(block, INDEXED) + rows
    if wanted > peek(block, SOON):
        full = grow(block, LOOK_AHEAD, rows)
        if full:
            return full
    if wanted <= peek(block, LIMIT):
        return 0
    if wanted <= peek(block, CAPACITY) and wanted <= limit_of(peek(block, SLOT_ROOM) - 1):
        widen(block, wanted)
        return 0
    return grow(block, GROW_RECORDS, rows)


@words
def widen(block: Int, wanted: Int) -> None:
    """Use more of the memory of the unique index. Only a pool that is not journalled uses less than all of it."""
    slots = peek(block, SLOTS)
    fill_with_zeros(slots, peek(block, MASK) + 1)
    mask = mask_for(4 * wanted, peek(block, SLOT_ROOM))
    for record in range(peek(block, HIGH)):
        tag = tag_of_record(block, record)
        poke(slots, place_for(slots, mask, tag), tag | (record + 1))
    set_mask(block, mask)


@inlined_words
def set_mask(block: Int, mask: Int) -> None:
    poke(block, MASK, mask)
    poke(block, LIMIT, min(peek(block, CAPACITY), limit_of(mask)))


@inlined_words
def room_for_entries(block: Int, entries: Int) -> Int:
    """Make room in the journal. Returns flags."""
    if journalled(block) and peek(block, ENTRIES) + entries > peek(block, ENTRY_LIMIT):
        return grow(block, GROW_JOURNAL, entries)
    return 0


# Taking, touching, freeing


@inlined_words
def note(block: Int, entry: Int, record: Int) -> None:
    """Write to the journal that a record is touched, and its weights. There must be room."""
    lanes, number = peek(block, LANES), peek(block, ENTRIES)
    base, weights = peek(block, JOURNAL) + 8 * number * (1 + lanes), weights_at(block, record)
    poke(base, 0, entry)
    for lane in range(lanes):
        poke(base, 1 + lane, peek(weights, lane))
    poke(block, ENTRIES, number + 1)


@inlined_words
def touched(block: Int, record: Int, state: Int) -> Int:
    """The state of a record about to change: in the journal, if there is one."""
    if state & TOUCHED or not journalled(block):
        return state
    note(block, record, record)
    return state | TOUCHED


@inlined_words
def take_record(block: Int, at: Int, tag: Int, row: Int) -> Int:
    """A record, dead as yet, for the key at `row`, indexed at the empty slot `at`. There must be room."""
    width, record = peek(block, WIDTH), peek(block, FIRST_FREE)
    if record >= 0:
        # There is one record at most where keys have no words.
        poke(block, FIRST_FREE, peek(key_at(block, record), 0) if width > 0 else -1)
    else:
        record = peek(block, HIGH)
        poke(block, HIGH, record + 1)
    poke(peek(block, SLOTS), at, tag | (record + 1))
    poke(block, INDEXED, peek(block, INDEXED) + 1)
    key = key_at(block, record)
    for column in range(width):
        poke(key, column, peek(row, column))
    if journalled(block):
        note(block, ~record, record)
        poke_byte(peek(block, LIVE), record, TOUCHED)
    return record


@inlined_words
def free_record(block: Int, record: Int) -> None:
    """Give up a record whose weights are zero, and its place in the unique index."""
    slots, mask = peek(block, SLOTS), peek(block, MASK)
    erase_at(slots, mask, place_of(slots, mask, tag_of_record(block, record) | (record + 1)))
    poke_byte(peek(block, LIVE), record, 0)
    if peek(block, WIDTH) > 0:
        poke(key_at(block, record), 0, peek(block, FIRST_FREE))
    poke(block, FIRST_FREE, record)
    poke(block, INDEXED, peek(block, INDEXED) - 1)
