"""Records of a pool: making room for them, taking new ones, noting them in the journal.

Law of a batch: a record touched in it is in the journal once, with the weights it had before. A record whose weights
become zero is dead at once but keeps its place in the indexes until the batch ends, so the same key coming back finds
its record again, and undoing a batch is putting the old weights back: it needs no memory.

A pool that is not journalled holds what one batch needs for itself. Its records are 0 to HIGH - 1 in the order they
came; none is freed before all are.
"""

from __future__ import annotations

from viewmill.engines.local.wordcode import inlined_words, words
from viewmill.engines.local.hashing import home, tag_of_words
from viewmill.engines.local.layout import (
    CAPACITY,
    ENTRIES,
    ENTRY_LIMIT,
    FIRST_FREE,
    FREE,
    GROW,
    GROW_JOURNAL,
    GROW_RECORDS,
    HIGH,
    INDEXED,
    JOURNAL,
    KEYS,
    LANES,
    LIMIT,
    LIVE,
    MASK,
    NEEDED,
    POOL,
    SLOT_ROOM,
    SLOTS,
    TOUCHED,
    WEIGHTS,
    WIDTH,
)
from viewmill.engines.local.raw import Int, call, peek, poke, poke_byte
from viewmill.engines.local.tables import fill_with_zeros, limit_of, mask_for


@inlined_words
def journalled(block: Int) -> Int:
    return peek(block, ENTRY_LIMIT) >= 0


@inlined_words
def grow(block: Int, what: Int, needed: Int) -> Int:
    """Ask the owner of the pool for room. Every address in the block may be another after this."""
    poke(block, NEEDED, needed)
    return call(peek(block, GROW), peek(block, POOL), what)


@words
def room_for_records(block: Int, rows: Int) -> Int:
    """Make room for so many new records. Returns flags."""
    wanted = peek(block, INDEXED) + rows
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
    keys, width = peek(block, KEYS), peek(block, WIDTH)
    for record in range(peek(block, HIGH)):
        tag = tag_of_words(keys + 8 * width * record, width)
        at = home(tag, mask)
        while peek(slots, at) != 0:
            at = (at + 1) & mask
        poke(slots, at, tag | (record + 1))
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


@inlined_words
def note(block: Int, entry: Int, record: Int) -> None:
    """Write to the journal that a record is touched, and its weights. There must be room."""
    lanes = peek(block, LANES)
    number = peek(block, ENTRIES)
    base = peek(block, JOURNAL) + 8 * number * (1 + lanes)
    poke(base, 0, entry)
    weights = peek(block, WEIGHTS) + 8 * record * lanes
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
def take_record(block: Int, at: Int, tag: Int, row: Int, width: Int) -> Int:
    """A record, dead as yet, for the key at `row`, indexed at the empty slot `at`. There must be room."""
    record = peek(block, FIRST_FREE)
    if record >= 0:
        poke(block, FIRST_FREE, peek(peek(block, FREE), record))
    else:
        record = peek(block, HIGH)
        poke(block, HIGH, record + 1)
    poke(peek(block, SLOTS), at, tag | (record + 1))
    poke(block, INDEXED, peek(block, INDEXED) + 1)
    keys = peek(block, KEYS) + 8 * record * width
    for column in range(width):
        poke(keys, column, peek(row, column))
    if journalled(block):
        note(block, ~record, record)
        poke_byte(peek(block, LIVE), record, TOUCHED)
    return record
