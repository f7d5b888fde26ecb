"""The slices of a pool in compiled code: chains of records that agree in some columns.

A table maps a sub-key to the first record of its chain; the chains run through an array as long as the pool, in which
a record has the one before it and the next one side by side: linking and unlinking moves no memory. `index` is the
address of the slice's part of the control block.
"""

from __future__ import annotations

from viewmill.engines.local.hashing import home, tag_of_columns, tag_of_words
from viewmill.engines.local.layout import (
    ALIVE,
    CHAIN_LIMIT,
    CHAIN_MASK,
    CHAINS,
    COLUMNS,
    ENTRIES,
    FIRST_SLICE,
    GROW_SLICE,
    HEAD_ROOM,
    HEADS,
    HIGH,
    JOURNAL,
    LANES,
    LINKED,
    LINKS,
    LIVE,
    SLICE_WORDS,
    SLICES,
)
from viewmill.engines.local.polling import poll
from viewmill.engines.local.raw import CHUNK, Int, peek, peek_byte, peek_half, poke, poke_half, prefetch
from viewmill.engines.local.records import grow, journalled, key_at
from viewmill.engines.local.tables import (
    BUCKET,
    erase_at,
    fill_with_zeros,
    first_bit,
    limit_of,
    mask_for,
    place_for,
    place_of,
    record_in,
    seek_tag,
    tagged,
    vacant,
)
from viewmill.engines.local.wordcode import inlined_words, words

AHEAD = 8  # entries: about as long as memory takes


@inlined_words
def slice_at(block: Int, number: Int) -> Int:
    return block + 8 * (FIRST_SLICE + number * SLICE_WORDS)


@inlined_words
def before_it(links: Int, record: Int) -> Int:
    return peek_half(links, 2 * record)


@inlined_words
def after_it(links: Int, record: Int) -> Int:
    return peek_half(links, 2 * record + 1)


@inlined_words
def set_before(links: Int, record: Int, other: Int) -> None:
    poke_half(links, 2 * record, other)


@inlined_words
def set_after(links: Int, record: Int, other: Int) -> None:
    poke_half(links, 2 * record + 1, other)


@inlined_words
def tag_in(block: Int, index: Int, record: Int) -> Int:
    return tag_of_columns(key_at(block, record), peek(index, COLUMNS))


@inlined_words
def same_chain(block: Int, index: Int, one: Int, other: Int) -> Int:
    columns, left, right = peek(index, COLUMNS), key_at(block, one), key_at(block, other)
    for number in range(peek(columns, 0)):
        column = peek(columns, number + 1)
        if peek(left, column) != peek(right, column):
            return False
    return True


@inlined_words
def seek_chain(block: Int, index: Int, record: Int, tag: Int) -> Int:
    """The place of the chain this record belongs to, or the empty one where it starts."""
    heads, mask = peek(index, HEADS), peek(index, CHAIN_MASK)
    at = home(tag, mask)
    while True:
        found = tagged(heads, at, tag)
        while found:
            place = at + first_bit(found)
            if same_chain(block, index, record_in(peek(heads, place)), record):
                return place
            found &= found - 1
        free = vacant(heads, at)
        if free:
            return at + first_bit(free)
        at = (at + BUCKET) & mask


@words
def link(block: Int, index: Int, record: Int, tag: Int) -> None:
    """Put a record at the start of its chain. There must be room for one more chain."""
    heads, links = peek(index, HEADS), peek(index, LINKS)
    place = seek_chain(block, index, record, tag)
    following = record_in(peek(heads, place))
    if following >= 0:
        set_before(links, following, record)
    else:
        poke(index, CHAINS, peek(index, CHAINS) + 1)
    set_before(links, record, -1)
    set_after(links, record, following)
    poke(heads, place, tag | (record + 1))


@words
def room_for_chain(block: Int, number: Int) -> Int:
    """Make room for one more chain. Returns flags."""
    index = slice_at(block, number)
    wanted = peek(index, CHAINS) + 1
    if wanted <= peek(index, CHAIN_LIMIT):
        return 0
    if wanted <= limit_of(peek(index, HEAD_ROOM) - 1):
        widen_heads(block, index, wanted)
        return 0
    return grow(block, GROW_SLICE + number, wanted)


@words
def widen_heads(block: Int, index: Int, wanted: Int) -> None:
    """Use more of the memory of the table. Only a pool that is not journalled uses less than all of it."""
    heads = peek(index, HEADS)
    fill_with_zeros(heads, peek(index, CHAIN_MASK) + 1)
    mask = mask_for(4 * wanted, peek(index, HEAD_ROOM))
    for record in range(peek(index, LINKED)):
        if before_it(peek(index, LINKS), record) < 0:
            tag = tag_in(block, index, record)
            poke(heads, place_for(heads, mask, tag), tag | (record + 1))
    set_chain_mask(index, mask)


@inlined_words
def set_chain_mask(index: Int, mask: Int) -> None:
    poke(index, CHAIN_MASK, mask)
    poke(index, CHAIN_LIMIT, limit_of(mask))


@words
def link_new(block: Int, tags: Int, records: Int, polled: Int) -> Int:
    """Bring every slice up to date with the records that came since the last call. Returns flags."""
    end = peek(block, ENTRIES) if journalled(block) else peek(block, HIGH)
    for number in range(peek(block, SLICES)):
        index = slice_at(block, number)
        while peek(index, LINKED) < end:
            start = peek(index, LINKED)
            poll(polled, start)
            count = min(CHUNK, end - start)
            for at in range(count):
                poke(records, at, new_record(block, start + at))
            full = link_chunk(block, number, count, tags, records)
            if full:
                return full
    return 0


@inlined_words
def new_record(block: Int, number: Int) -> Int:
    """The record that an entry of the journal says is new, or a negative number if it says no such thing."""
    if journalled(block):
        return ~peek(peek(block, JOURNAL), number * (1 + peek(block, LANES)))
    return number


@words
def link_chunk(block: Int, number: Int, count: Int, tags: Int, records: Int) -> Int:
    """Link the records of a chunk that are not negative, counting all of them as seen. Returns flags.

    As when rows are merged, short loops ask for the memory that the next one reads.
    """
    index = slice_at(block, number)
    heads, mask = peek(index, HEADS), peek(index, CHAIN_MASK)
    for at in range(count):
        if peek(records, at) >= 0:
            tag = tag_in(block, index, peek(records, at))
            poke(tags, at, tag)
            prefetch(heads, home(tag, mask))
    for at in range(count):
        if peek(records, at) >= 0:
            head = record_in(seek_tag(heads, mask, peek(tags, at)))
            prefetch(key_at(block, head), 0)
            prefetch(peek(index, LINKS), head)
    for at in range(count):
        if peek(records, at) >= 0:
            full = room_for_chain(block, number)
            if full:
                return full
            link(block, index, peek(records, at), peek(tags, at))
        poke(index, LINKED, peek(index, LINKED) + 1)
    return 0


@words
def link_everything(block: Int, number: Int, tags: Int, records: Int) -> Int:
    """Fill a new slice with everything that is in the unique index. Returns flags."""
    index, high = slice_at(block, number), peek(block, HIGH)
    for start in range(0, high, CHUNK):
        count = min(CHUNK, high - start)
        for at in range(count):
            indexed = peek_byte(peek(block, LIVE), start + at) != 0 or not journalled(block)
            poke(records, at, start + at if indexed else -1)
        full = link_chunk(block, number, count, tags, records)
        if full:
            return full
    poke(index, LINKED, peek(block, ENTRIES) if journalled(block) else high)
    return 0


@words
def first_of_chain(block: Int, number: Int, key: Int) -> Int:
    """The first living record with the sub-key at an address, or -1."""
    index = slice_at(block, number)
    heads, mask, columns = peek(index, HEADS), peek(index, CHAIN_MASK), peek(index, COLUMNS)
    tag = tag_of_words(key, peek(columns, 0))
    at = home(tag, mask)
    while True:
        found = tagged(heads, at, tag)
        while found:
            record = record_in(peek(heads, at + first_bit(found)))
            if has_sub_key(key_at(block, record), columns, key):
                if peek_byte(peek(block, LIVE), record) & ALIVE:
                    return record
                return next_of_chain(block, number, record)
            found &= found - 1
        if vacant(heads, at):
            return -1
        at = (at + BUCKET) & mask


@inlined_words
def has_sub_key(words_of_record: Int, columns: Int, key: Int) -> Int:
    for number in range(peek(columns, 0)):
        if peek(words_of_record, peek(columns, number + 1)) != peek(key, number):
            return False
    return True


@words
def next_of_chain(block: Int, number: Int, record: Int) -> Int:
    """The next living record of the chain, or -1."""
    links, live = peek(slice_at(block, number), LINKS), peek(block, LIVE)
    record = after_it(links, record)
    while record >= 0 and peek_byte(live, record) & ALIVE == 0:
        record = after_it(links, record)
    return record


@words
def unlink(block: Int, index: Int, record: Int) -> None:
    """Take a record out of its chain. Only the first one of a chain is known to the table."""
    links = peek(index, LINKS)
    before, following = before_it(links, record), after_it(links, record)
    if following >= 0:
        set_before(links, following, before)
    if before >= 0:
        set_after(links, before, following)
        return
    tag = tag_in(block, index, record)
    heads, mask = peek(index, HEADS), peek(index, CHAIN_MASK)
    at = place_of(heads, mask, tag | (record + 1))
    if following >= 0:
        poke(heads, at, tag | (following + 1))
    else:
        erase_at(heads, mask, at)
        poke(index, CHAINS, peek(index, CHAINS) - 1)


@inlined_words
def ask_for_neighbours(block: Int, index: Int, journal: Int, stride: Int, entry: Int, entries: Int) -> None:
    """Have fetched what is changed some entries later: the links of records in two steps, then those of the neighbours
    of one that died, or what the table says of its chain.
    """
    links, live = peek(index, LINKS), peek(block, LIVE)
    if entry + 2 * AHEAD < entries:
        record = entry_record(journal, stride, entry + 2 * AHEAD)
        prefetch(links, record)
        prefetch(live + record, 0)
        prefetch(key_at(block, record), 0)
    if entry + AHEAD < entries:
        record = entry_record(journal, stride, entry + AHEAD)
        if peek_byte(live, record) & ALIVE == 0:
            before, following = before_it(links, record), after_it(links, record)
            if following >= 0:
                prefetch(links, following)
            if before >= 0:
                prefetch(links, before)
            else:
                prefetch(peek(index, HEADS), home(tag_in(block, index, record), peek(index, CHAIN_MASK)))


@inlined_words
def entry_record(journal: Int, stride: Int, entry: Int) -> Int:
    """The record of an entry, new or not."""
    record = peek(journal + stride * entry, 0)
    return ~record if record < 0 else record


@words
def unlink_dead(block: Int) -> None:
    """Take the records that died in this batch out of their chains, just before they are freed."""
    stride = 8 * (1 + peek(block, LANES))
    journal, live = peek(block, JOURNAL), peek(block, LIVE)
    for number in range(peek(block, SLICES)):
        index = slice_at(block, number)
        for entry in range(peek(block, ENTRIES)):
            ask_for_neighbours(block, index, journal, stride, entry, peek(block, ENTRIES))
            record = peek(journal + stride * entry, 0)
            if record < 0:
                # A pool that could not grow holds records that are in no chain.
                record = ~record if entry < peek(index, LINKED) else -1
            if record >= 0 and peek_byte(live, record) & ALIVE == 0:
                unlink(block, index, record)
        poke(index, LINKED, 0)


@words
def clear_chains(block: Int) -> None:
    """Empty every slice of a pool that is not journalled, in time that follows the number of records."""
    for number in range(peek(block, SLICES)):
        index = slice_at(block, number)
        heads, mask, linked = peek(index, HEADS), peek(index, CHAIN_MASK), peek(index, LINKED)
        if mask < 8 * linked:
            fill_with_zeros(heads, mask + 1)
        else:
            for record in range(linked):
                if before_it(peek(index, LINKS), record) < 0:
                    poke(heads, place_of(heads, mask, tag_in(block, index, record) | (record + 1)), 0)
        set_chain_mask(index, min(mask, mask_for(4 * peek(index, CHAINS), peek(index, HEAD_ROOM))))
        poke(index, CHAINS, 0)
        poke(index, LINKED, 0)
