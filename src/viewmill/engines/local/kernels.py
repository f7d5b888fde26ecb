"""The C functions of a pool: `flags = function(block, 0)`, called by address.

They are compiled once and kept on disk, so generated code that calls them is not made longer by them. The control block
holds the addresses of what it calls (`layout.MERGE` and so on): `call(peek(block, MERGE), block, 0)`. The flags are
raw.OVERFLOW and raw.FULL; after either, the pool must be rolled back. What takes long, `merge` and `put`, is given the
address of flags instead of 0 if readers may come in on the way (`gate.py`).
"""

from __future__ import annotations

from viewmill.engines.local.chains import first_of_chain, link_everything, link_new, next_of_chain
from viewmill.engines.local.hashing import tag_of_words
from viewmill.engines.local.journal import empty, end, restore, sweep
from viewmill.engines.local.layout import ALIVE, EMITTED, LANES, LIVE, LIVING, SLOTS, WIDTH
from viewmill.engines.local.libraries import Library
from viewmill.engines.local.merging import change_rows, drop_unkept, find_chunk, seek
from viewmill.engines.local.ordered_loops import (
    first_of_tree,
    next_of_tree,
    plant_listed,
    plant_new,
    root_at,
    sum_between,
    touch_nodes,
)
from viewmill.engines.local.raw import CHUNK, Int, peek, peek_byte, poke, room_for_chunk
from viewmill.engines.local.records import journalled, weights_at
from viewmill.engines.local.tables import copy_slots as copy_slots_words
from viewmill.engines.local.tables import record_in
from viewmill.engines.local.tables import spread_slots as spread_slots_words

POOLS = Library("pools", branches=True)
LOOKUPS = Library("lookups")
"""What only Python calls, and mostly nobody: it is compiled when it is needed."""

copy_slots = POOLS.export(copy_slots_words)
spread_slots = POOLS.export(spread_slots_words)


@POOLS.export
def merge(block: Int, polled: Int) -> Int:
    """Add the EMITTED rows of OUT to the pool, and there are none left. New records are in every slice."""
    if peek(block, EMITTED) == 0:
        return 0
    tags, records = room_for_chunk(), room_for_chunk()
    flags = change_rows(block, 0, tags, records, polled)
    return flags | link_new(block, tags, records, polled) | plant_new(block, polled)


@POOLS.export
def put(block: Int, polled: Int) -> Int:
    """As `merge`, but the rows replace the contents. Only what differs is in the journal."""
    if not journalled(block):
        empty(block)
    if peek(block, EMITTED) == 0 and peek(block, LIVING) == 0:
        return 0
    tags, records = room_for_chunk(), room_for_chunk()
    flags = change_rows(block, 1, tags, records, polled)
    flags |= drop_unkept(block)
    return flags | link_new(block, tags, records, polled) | plant_new(block, polled)


@POOLS.export
def begin(block: Int, _: Int) -> Int:
    """End the batch before, freeing what it emptied, and start one. What is not journalled starts empty."""
    if journalled(block):
        sweep(block)
    else:
        empty(block)
    return end(block)


@POOLS.export
def rollback(block: Int, _: Int) -> Int:
    """Undo the batch, and start another. What is not journalled starts empty."""
    if journalled(block):
        restore(block)
        sweep(block)
    else:
        empty(block)
    return end(block)


@POOLS.export
def clear(block: Int, _: Int) -> Int:
    """Remove every record: as one more change of the batch, or, if nothing is journalled, as if it never was."""
    poke(block, EMITTED, 0)
    if not journalled(block):
        empty(block)
        return end(block)
    return drop_unkept(block)


@POOLS.export
def link_all(block: Int, number: Int) -> Int:
    """Fill the new slice `number`."""
    return link_everything(block, number, room_for_chunk(), room_for_chunk())


@POOLS.export
def plant_all(block: Int, number: Int, records: Int, count: Int) -> Int:
    """Fill the new ordered index `number`: `records` is a list of all that are in the unique index."""
    return plant_listed(block, number, records, count)


@POOLS.export
def touch(block: Int, record: Int) -> Int:
    """Tell the ordered indexes that the weights of a record have changed."""
    touch_nodes(block, record)
    return 0


@LOOKUPS.export
def look_up(block: Int, keys: Int, total: Int, out: Int) -> Int:
    """The weights of many keys, 0 where there are none."""
    tags, records = room_for_chunk(), room_for_chunk()
    width, lanes = peek(block, WIDTH), peek(block, LANES)
    for start in range(0, total, CHUNK):
        count = min(CHUNK, total - start)
        find_chunk(block, keys + 8 * start * width, width, count, tags, records)
        for number in range(count):
            record = peek(records, number)
            weights = weights_at(block, record)
            for lane in range(lanes):
                poke(out, (start + number) * lanes + lane, peek(weights, lane) if record >= 0 else 0)
    return 0


@POOLS.export
def find_all(block: Int, request: Int) -> Int:
    """The living records of many keys, or -1. Found one by one, each of them waits for memory; together, they do not.

    A request is four words: where the keys are, how many words from one to the next, how many there are, and where to
    write the records.
    """
    tags, records = room_for_chunk(), room_for_chunk()
    rows, stride, total, out = peek(request, 0), peek(request, 1), peek(request, 2), peek(request, 3)
    live = peek(block, LIVE)
    for start in range(0, total, CHUNK):
        count = min(CHUNK, total - start)
        find_chunk(block, rows + 8 * start * stride, stride, count, tags, records)
        for number in range(count):
            record = peek(records, number)
            living = record >= 0 and peek_byte(live, record) & ALIVE
            poke(out, start + number, record if living else -1)
    return 0


@LOOKUPS.export
def find(block: Int, key: Int) -> Int:
    """The living record of the key at an address, or -1."""
    width = peek(block, WIDTH)
    record = record_in(peek(peek(block, SLOTS), seek(block, key, width, tag_of_words(key, width))))
    if record < 0 or peek_byte(peek(block, LIVE), record) & ALIVE == 0:
        return -1
    return record


@LOOKUPS.export
def first(block: Int, number: Int, key: Int) -> Int:
    """The first living record of a slice with the sub-key at an address, or -1."""
    return first_of_chain(block, number, key)


@LOOKUPS.export
def after(block: Int, number: Int, record: Int) -> Int:
    """The next living record of the slice, or -1."""
    return next_of_chain(block, number, record)


@LOOKUPS.export
def root(block: Int, number: Int, key: Int) -> Int:
    """The root of the tree of an ordered index with the sub-key at an address, or -1."""
    return root_at(block, number, key)


@LOOKUPS.export
def add_up(block: Int, number: Int, top: Int, lane: Int, low: Int, high: Int, flags: Int) -> Int:
    """The sum of a lane over the keys in (low, high] of a tree."""
    return sum_between(block, number, top, lane, low, high, flags)


@LOOKUPS.export
def outermost(block: Int, number: Int, top: Int, lane: Int, side: Int) -> Int:
    """The least record of a tree (`side` 0), or the greatest (1), with a weight in a lane, or -1."""
    return first_of_tree(block, number, top, lane, side)


@LOOKUPS.export
def following(block: Int, number: Int, record: Int, lane: Int, side: Int) -> Int:
    """The next record from that side on with a weight in a lane, or -1."""
    return next_of_tree(block, number, record, lane, side)
