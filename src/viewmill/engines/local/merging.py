"""Adding rows to a pool, and replacing what it holds by rows.

The rows are those in OUT: key words, then a weight for every lane. They are handled in chunks: short loops that hash,
then find, then insert what is new, then change weights. Each loop asks for the memory that the next one reads, so that
cache misses overlap; on 1.5 million groups that is worth a factor of four.

A sum of integers must fit at every row, in the order given; if one does not, the pool goes on with what is left of it
and says so, and whoever called undoes the batch. A sum of doubles that is zero has the bits of 0.0.
"""

from __future__ import annotations

from viewmill.engines.local.hashing import home, tag_of_words
from viewmill.engines.local.lanes import is_double, lane_sum, wraps
from viewmill.engines.local.layout import (
    ALIVE,
    DOUBLES,
    EMITTED,
    ENTRIES,
    HIGH,
    INDEXED,
    JOURNAL,
    KEPT,
    KEYS,
    LANES,
    LIVE,
    LIVING,
    MASK,
    OUT,
    OUT_PEAK,
    SLOT_ROOM,
    SLOTS,
    STRIDE,
    TOUCHED,
    WEIGHTS,
    WIDTH,
)
from viewmill.engines.local.ordered_loops import touch_chunk, touch_nodes
from viewmill.engines.local.polling import poll
from viewmill.engines.local.raw import (
    CHUNK,
    OVERFLOW,
    Int,
    peek,
    peek_byte,
    poke,
    poke_byte,
    prefetch,
)
from viewmill.engines.local.records import (
    journalled,
    key_at,
    room_for_entries,
    room_for_records,
    row_words,
    set_mask,
    take_record,
    touched,
    weights_at,
)
from viewmill.engines.local.tables import BUCKET, first_bit, mask_for, record_in, seek_tag, tagged, vacant
from viewmill.engines.local.wordcode import inlined_words, words


@words
def change_rows(block: Int, replace: Int, tags: Int, records: Int, polled: Int) -> Int:
    """Go through the rows of OUT, adding or replacing. Returns flags."""
    emitted, rows, stride = peek(block, EMITTED), peek(block, OUT), row_words(block)
    poke(block, EMITTED, 0)
    poke(block, OUT_PEAK, max(peek(block, OUT_PEAK), emitted))
    if peek(block, INDEXED) == 0 and not journalled(block):
        set_mask(block, max(peek(block, MASK), mask_for(emitted, peek(block, SLOT_ROOM))))
    flags = 0
    for start in range(0, emitted, CHUNK):
        poll(polled, start)
        count = min(CHUNK, emitted - start)
        chunk = rows + 8 * start * stride
        missing = find_chunk(block, chunk, stride, count, tags, records)
        full = room_for_entries(block, count)
        if missing > 0 and full == 0:
            full = room_for_records(block, missing)
        if full:
            return flags | full
        if missing > 0:
            insert_chunk(block, chunk, count, tags, records)
        if replace:
            flags |= put_chunk(block, chunk, count, records)
        else:
            flags |= add_chunk(block, chunk, count, records)
        touch_chunk(block, count, records)
    return flags


# Finding


@inlined_words
def same_words(left: Int, right: Int, width: Int) -> Int:
    for column in range(width):
        if peek(left, column) != peek(right, column):
            return False
    return True


@inlined_words
def seek(block: Int, row: Int, width: Int, tag: Int) -> Int:
    """The place of the row's slot, or of the empty slot where it belongs."""
    slots, mask, at = peek(block, SLOTS), peek(block, MASK), home(tag, peek(block, MASK))
    while True:
        found = tagged(slots, at, tag)
        while found:
            place = at + first_bit(found)
            if same_words(key_at(block, record_in(peek(slots, place))), row, width):
                return place
            found &= found - 1
        free = vacant(slots, at)
        if free:
            return at + first_bit(free)
        at = (at + BUCKET) & mask


@inlined_words
def find_rows(block: Int, rows: Int, stride: Int, count: Int, width: Int, tags: Int, records: Int) -> Int:
    """The record of every row of a chunk, or -1, and its tag. Returns how many there are without a record."""
    slots, mask, live = peek(block, SLOTS), peek(block, MASK), peek(block, LIVE)
    keys, size = peek(block, KEYS), peek(block, STRIDE)
    for number in range(count):
        tag = tag_of_words(rows + 8 * number * stride, width)
        poke(tags, number, tag)
        prefetch(slots, home(tag, mask))
    for number in range(count):
        record = record_in(seek_tag(slots, mask, peek(tags, number)))
        poke(records, number, record)
        prefetch(keys, record * size)
        prefetch(keys, record * size + size - 1)  # it may end in another line
        prefetch(live + record, 0)
    missing = 0
    for number in range(count):
        record, row = peek(records, number), rows + 8 * number * stride
        if record >= 0 and not same_words(keys + 8 * record * size, row, width):
            record = record_in(peek(slots, seek(block, row, width, peek(tags, number))))
            poke(records, number, record)
        missing += record < 0
    return missing


@words
def find_chunk(block: Int, rows: Int, stride: Int, count: Int, tags: Int, records: Int) -> Int:
    """`find_rows`, compiled for the usual widths and for any."""
    width = peek(block, WIDTH)
    if width == 1:
        return find_rows(block, rows, stride, count, 1, tags, records)
    if width == 2:
        return find_rows(block, rows, stride, count, 2, tags, records)
    if width == 3:
        return find_rows(block, rows, stride, count, 3, tags, records)
    return find_rows(block, rows, stride, count, width, tags, records)


# Inserting


@inlined_words
def any_weight(weights: Int, lanes: Int) -> Int:
    some = 0
    for lane in range(lanes):
        some |= peek(weights, lane)
    return some


@words
def insert_chunk(block: Int, rows: Int, count: Int, tags: Int, records: Int) -> None:
    """Take a record for every row without one, unless its weights are zero."""
    width, lanes, stride = peek(block, WIDTH), peek(block, LANES), row_words(block)
    for number in range(count):
        row, tag = rows + 8 * number * stride, peek(tags, number)
        if peek(records, number) < 0 and any_weight(row + 8 * width, lanes) != 0:
            at = seek(block, row, width, tag)
            record = record_in(peek(peek(block, SLOTS), at))
            if record < 0:  # no earlier row of the chunk has brought the same key
                record = take_record(block, at, tag, row)
            poke(records, number, record)


# Changing weights


@inlined_words
def add_rows(block: Int, rows: Int, count: Int, records: Int, lanes: Int, doubles: Int) -> Int:
    """Add the weights of every row to its record's. Returns flags."""
    live, living, base, size = peek(block, LIVE), peek(block, LIVING), peek(block, WEIGHTS), peek(block, STRIDE)
    journal, entries, noting = peek(block, JOURNAL), peek(block, ENTRIES), journalled(block)
    all_deltas, stride = rows + 8 * peek(block, WIDTH), row_words(block)
    wrapped = 0
    for number in range(count):
        record = peek(records, number)
        if record >= 0:
            weights, deltas = base + 8 * record * size, all_deltas + 8 * number * stride
            state = peek_byte(live, record)
            if noting and state & TOUCHED == 0:
                entry = journal + 8 * entries * (1 + lanes)
                poke(entry, 0, record)
                for lane in range(lanes):
                    poke(entry, 1 + lane, peek(weights, lane))
                entries += 1
                state |= TOUCHED
            some = 0
            for lane in range(lanes):
                old, delta, real = peek(weights, lane), peek(deltas, lane), is_double(doubles, lane)
                new = lane_sum(old, delta, real)
                wrapped |= wraps(old, delta, new, real)
                some |= new
                poke(weights, lane, new)
            alive = some != 0
            living += alive - (state & ALIVE)
            poke_byte(live, record, (state & ~ALIVE) | alive)
    poke(block, ENTRIES, entries)
    poke(block, LIVING, living)
    return OVERFLOW if wrapped < 0 else 0


@words
def add_chunk(block: Int, rows: Int, count: Int, records: Int) -> Int:
    """`add_rows`, compiled for one lane of integers, for several, and for any lanes."""
    lanes, doubles = peek(block, LANES), peek(block, DOUBLES)
    if doubles != 0:
        return add_rows(block, rows, count, records, lanes, doubles)
    if lanes == 1:
        return add_rows(block, rows, count, records, 1, 0)
    return add_rows(block, rows, count, records, lanes, 0)


@inlined_words
def set_alive(block: Int, record: Int, state: Int, some: Int) -> None:
    alive = ALIVE if some != 0 else 0
    poke(block, LIVING, peek(block, LIVING) + alive - (state & ALIVE))
    poke_byte(peek(block, LIVE), record, (state & ~ALIVE) | alive)


@words
def put_chunk(block: Int, rows: Int, count: Int, records: Int) -> Int:
    """Give every record its new weights and mark it as kept; rows with one key add up. Returns flags."""
    lanes, doubles, stride, width = peek(block, LANES), peek(block, DOUBLES), row_words(block), peek(block, WIDTH)
    wrapped = 0
    for number in range(count):
        record = peek(records, number)
        if record >= 0:
            state = peek_byte(peek(block, LIVE), record)
            weights, given = weights_at(block, record), rows + 8 * (number * stride + width)
            some, differs = 0, 0
            for lane in range(lanes):
                old, real = peek(weights, lane), is_double(doubles, lane)
                base = old if state & KEPT else 0
                new = lane_sum(base, peek(given, lane), real)
                wrapped |= wraps(base, peek(given, lane), new, real)
                some |= new
                differs |= new ^ old
            if differs != 0:
                state = touched(block, record, state)
            for lane in range(lanes):
                base = peek(weights, lane) if state & KEPT else 0
                poke(weights, lane, lane_sum(base, peek(given, lane), is_double(doubles, lane)))
            set_alive(block, record, state | KEPT, some)
    return OVERFLOW if wrapped < 0 else 0


@words
def drop_unkept(block: Int) -> Int:
    """Zero every living record that no row named, and forget which were named. Returns flags."""
    lanes, full = peek(block, LANES), 0
    for record in range(peek(block, HIGH)):
        state = peek_byte(peek(block, LIVE), record)
        if state & KEPT:
            poke_byte(peek(block, LIVE), record, state & ~KEPT)
        elif state & ALIVE and full == 0:
            full = room_for_entries(block, 1)
            if full == 0:
                state = touched(block, record, state)
                touch_nodes(block, record)
                for lane in range(lanes):
                    poke(weights_at(block, record), lane, 0)
                set_alive(block, record, state, 0)
    return full
