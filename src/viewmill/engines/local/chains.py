"""The slices of a pool in compiled code: chains of records that agree in some columns.

A table maps a sub-key to the first record of its chain; the chains run through two arrays as long as the pool, so
linking and unlinking a record moves no memory. `index` is the address of the slice's part of the control block.
"""

from __future__ import annotations

from viewmill.engines.local.wordcode import inlined_words, words
from viewmill.engines.local.hashing import UPPER, home, tag_of_columns, tag_of_words
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
    KEYS,
    LANES,
    LINKED,
    LIVE,
    NEXTS,
    PREVS,
    SLICE_WORDS,
    SLICES,
    WIDTH,
)
from viewmill.engines.local.raw import Int, peek, peek_byte, poke
from viewmill.engines.local.records import grow, journalled
from viewmill.engines.local.tables import erase_at, fill_with_zeros, limit_of, mask_for, place_of, record_in


@inlined_words
def slice_at(block: Int, number: Int) -> Int:
    return block + 8 * (FIRST_SLICE + number * SLICE_WORDS)


@inlined_words
def tag_in(block: Int, index: Int, record: Int) -> Int:
    return tag_of_columns(peek(block, KEYS) + 8 * record * peek(block, WIDTH), peek(index, COLUMNS))


@inlined_words
def same_chain(block: Int, index: Int, one: Int, other: Int) -> Int:
    columns, width = peek(index, COLUMNS), peek(block, WIDTH)
    left, right = peek(block, KEYS) + 8 * one * width, peek(block, KEYS) + 8 * other * width
    for number in range(peek(columns, 0)):
        column = peek(columns, number + 1)
        if peek(left, column) != peek(right, column):
            return False
    return True


@words
def link(block: Int, index: Int, record: Int) -> None:
    """Put a record at the start of its chain. There must be room for one more chain."""
    tag = tag_in(block, index, record)
    heads, mask = peek(index, HEADS), peek(index, CHAIN_MASK)
    at = home(tag, mask)
    while True:
        slot = peek(heads, at)
        following = record_in(slot)
        if slot == 0 or (slot & UPPER == tag and same_chain(block, index, following, record)):
            break
        at = (at + 1) & mask
    if following >= 0:
        poke(peek(index, PREVS), following, record)
    else:
        poke(index, CHAINS, peek(index, CHAINS) + 1)
    poke(peek(index, NEXTS), record, following)
    poke(peek(index, PREVS), record, -1)
    poke(heads, at, tag | (record + 1))


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
        if peek(peek(index, PREVS), record) < 0:
            tag = tag_in(block, index, record)
            at = home(tag, mask)
            while peek(heads, at) != 0:
                at = (at + 1) & mask
            poke(heads, at, tag | (record + 1))
    set_chain_mask(index, mask)


@inlined_words
def set_chain_mask(index: Int, mask: Int) -> None:
    poke(index, CHAIN_MASK, mask)
    poke(index, CHAIN_LIMIT, limit_of(mask))


@words
def link_new(block: Int) -> Int:
    """Bring every slice up to date with the records that came since the last call. Returns flags."""
    end = peek(block, ENTRIES) if journalled(block) else peek(block, HIGH)
    stride = 8 * (1 + peek(block, LANES))
    for number in range(peek(block, SLICES)):
        index = slice_at(block, number)
        while peek(index, LINKED) < end:
            at = peek(index, LINKED)
            record = ~peek(peek(block, JOURNAL) + stride * at, 0) if journalled(block) else at
            if record >= 0:
                flags = room_for_chain(block, number)
                if flags != 0:
                    return flags
                link(block, index, record)
            poke(index, LINKED, at + 1)
    return 0


@words
def link_everything(block: Int, number: Int) -> Int:
    """Fill a new slice with everything that is in the unique index. Returns flags."""
    index = slice_at(block, number)
    for record in range(peek(block, HIGH)):
        if peek_byte(peek(block, LIVE), record) != 0 or not journalled(block):
            flags = room_for_chain(block, number)
            if flags != 0:
                return flags
            link(block, index, record)
    poke(index, LINKED, peek(block, ENTRIES) if journalled(block) else peek(block, HIGH))
    return 0


@words
def first_of_chain(block: Int, number: Int, key: Int) -> Int:
    """The first living record with the sub-key at an address, or -1."""
    index = slice_at(block, number)
    heads, mask, columns, width = peek(index, HEADS), peek(index, CHAIN_MASK), peek(index, COLUMNS), peek(block, WIDTH)
    tag = tag_of_words(key, peek(columns, 0))
    at = home(tag, mask)
    while True:
        slot = peek(heads, at)
        record = record_in(slot)
        if slot == 0:
            return -1
        if slot & UPPER == tag and has_sub_key(peek(block, KEYS) + 8 * record * width, columns, key):
            if peek_byte(peek(block, LIVE), record) & ALIVE:
                return record
            return next_of_chain(block, number, record)
        at = (at + 1) & mask


@inlined_words
def has_sub_key(words_of_record: Int, columns: Int, key: Int) -> Int:
    for number in range(peek(columns, 0)):
        if peek(words_of_record, peek(columns, number + 1)) != peek(key, number):
            return False
    return True


@words
def next_of_chain(block: Int, number: Int, record: Int) -> Int:
    """The next living record of the chain, or -1."""
    nexts, live = peek(slice_at(block, number), NEXTS), peek(block, LIVE)
    record = peek(nexts, record)
    while record >= 0 and peek_byte(live, record) & ALIVE == 0:
        record = peek(nexts, record)
    return record


@words
def unlink(block: Int, index: Int, record: Int) -> None:
    """Take a record out of its chain. Only the first one of a chain is known to the table."""
    before, following = peek(peek(index, PREVS), record), peek(peek(index, NEXTS), record)
    if following >= 0:
        poke(peek(index, PREVS), following, before)
    if before >= 0:
        poke(peek(index, NEXTS), before, following)
        return
    tag = tag_in(block, index, record)
    heads, mask = peek(index, HEADS), peek(index, CHAIN_MASK)
    at = place_of(heads, mask, tag | (record + 1))
    if following >= 0:
        poke(heads, at, tag | (following + 1))
    else:
        erase_at(heads, mask, at)
        poke(index, CHAINS, peek(index, CHAINS) - 1)


@words
def unlink_dead(block: Int) -> None:
    """Take the records that died in this batch out of their chains, just before they are freed."""
    stride = 8 * (1 + peek(block, LANES))
    journal, live = peek(block, JOURNAL), peek(block, LIVE)
    for number in range(peek(block, SLICES)):
        index = slice_at(block, number)
        for entry in range(peek(block, ENTRIES)):
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
                if peek(peek(index, PREVS), record) < 0:
                    poke(heads, place_of(heads, mask, tag_in(block, index, record) | (record + 1)), 0)
        set_chain_mask(index, min(mask, mask_for(4 * peek(index, CHAINS), peek(index, HEAD_ROOM))))
        poke(index, CHAINS, 0)
        poke(index, LINKED, 0)
