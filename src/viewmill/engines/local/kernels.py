"""Compiled loops over the arrays of a record pool.

A pool maps keys (a row of int64 codes) to a weight. Its arrays travel together as `Arrays`, those of one slice index as
`Slice`; kernels change them in place, allocate nothing that outlives the call, and never grow anything: who calls makes
room first (`Pool.reserve`), or asks `room`.

A hash table is one int64 array, a power of two long. A taken slot holds the upper half of the key's hash (its *tag*) in
its upper half and the record number plus one in its lower half; 0 is an empty slot. The tag alone says where the slot
would like to be, and nearly always whether the key matches, so probing, deleting and growing a table read no keys.
Because the home of a tag is monotone in the tag, growing a table walks both tables in order.

Law of a batch: a record touched in it is in the journal once, with the weight it had before. A record whose weight
becomes zero is dead at once but keeps its place in the indexes until the batch ends (`sweep`), so the same key coming
back finds its record again, and undoing a batch is putting the old weights back: it needs no memory. `find`, `first`
and `after` pass over the dead; a scan tests `live[record] & ALIVE`.

The functions below the line "for generated code" are also what generated triggers call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Weights: TypeAlias = NDArray[Any]  # int64 or float64
Int: TypeAlias = Any  # int64 in compiled code
Weight: TypeAlias = Any  # int64 or float64
Key: TypeAlias = tuple[int, ...]  # as long as the key, or as the sub-key of a slice
F = TypeVar("F", bound=Callable[..., Any])


class Arrays(NamedTuple):
    """What a pool consists of, in the order kernels receive it."""

    keys: Ints  # [capacity, width]
    weights: Weights  # [capacity], 0 where the record is dead or free
    live: NDArray[np.uint8]  # [capacity], the bits below
    free: Ints  # [capacity], the next free record, -1 at the end of the list
    slots: Ints  # [a power of two], the unique index
    counts: Ints  # [6], the counters below
    journal_records: Ints  # [journal], touched records in order; ~record if the batch inserted it
    journal_weights: Weights  # [journal], their weights before the batch


class Slice(NamedTuple):
    """A hash index on some key columns: sub-key to a doubly linked chain of records."""

    columns: Ints  # positions of the sub-key's columns in the key
    heads: Ints  # [a power of two], sub-key to the first record of its chain
    nexts: Ints  # [capacity], the next record of the chain, -1 at its end
    prevs: Ints  # [capacity], the previous one, -1 at its start
    counts: Ints  # [3], the counters below


# Arrays.counts
LIVE = 0  # records with a weight
INDEXED = 1  # records in the unique index: the live ones, and those that died in this batch
LIMIT = 2  # how many the arrays have room for
HIGH = 3  # records from here on were never used
FREE = 4  # first record of the free list, or -1
JOURNAL = 5  # entries in the journal

# Slice.counts
CHAINS = 0  # sub-keys in the index
CHAIN_LIMIT = 1  # how many `heads` has room for
LINKED = 2  # journal entries seen: records inserted by later ones are not in a chain yet

# Arrays.live
ALIVE = np.uint8(1)
TOUCHED = np.uint8(2)  # in the journal of this batch
KEPT = np.uint8(4)  # named by the rows of a `:=` under way

# Rows are handled in chunks: short loops that hash, then probe, then update let cache misses overlap.
CHUNK = 256

_MOST = np.int64(2**63 - 1)
_LEAST = np.int64(-(2**63))
_UPPER = np.int64(-(2**32))
_LOWER = np.int64(2**32 - 1)
_SEED = np.uint64(0x2545F4914F6CDD1D)
_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xD6E8FEB86659FD93)
_29 = np.uint64(29)
_32 = np.uint64(32)


def kernel(function: F) -> F:
    """Compile on first use, keep the machine code on disk, and let other threads run meanwhile."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@kernel
def mix(state: np.uint64, code: Int) -> np.uint64:
    state = (state ^ np.uint64(code)) * _FIRST
    state = (state ^ (state >> _29)) * _SECOND
    return state ^ (state >> _32)


@kernel
def tag_of_row(rows: Ints, row: Int) -> Int:
    state = _SEED
    for column in range(rows.shape[1]):
        state = mix(state, rows[row, column])
    return np.int64(state) & _UPPER


@kernel
def tag_of_columns(keys: Ints, record: Int, columns: Ints) -> Int:
    state = _SEED
    for column in columns:
        state = mix(state, keys[record, column])
    return np.int64(state) & _UPPER


@kernel
def tag_of_key(key: Key) -> Int:
    state = _SEED
    if len(key) > 0:  # an empty tuple has no loop that could be typed
        for code in key:
            state = mix(state, code)
    return np.int64(state) & _UPPER


@kernel
def home(tag: Int, size: Int) -> Int:
    """Where the slot of a tag would like to be: the tag as a fraction of the table."""
    return np.int64(((np.uint64(tag) >> _32) * np.uint64(size)) >> _32)


@kernel
def seek_row(keys: Ints, slots: Ints, rows: Ints, row: Int, tag: Int) -> Int:
    """The place of the row's slot, or of the empty slot where it belongs."""
    at = home(tag, len(slots))
    while True:
        slot = slots[at]
        if slot == 0:
            return at
        if slot & _UPPER == tag:
            record = (slot & _LOWER) - 1
            column = 0
            while column < rows.shape[1] and keys[record, column] == rows[row, column]:
                column += 1
            if column == rows.shape[1]:
                return at
        at = (at + 1) & (len(slots) - 1)


@kernel
def equals_key(keys: Ints, record: Int, key: Key) -> bool:
    if len(key) > 0:
        for column, code in enumerate(key):
            if keys[record, column] != code:
                return False
    return True


@kernel
def seek_key(keys: Ints, slots: Ints, key: Key, tag: Int) -> Int:
    """As `seek_row`, for a key held in a tuple."""
    at = home(tag, len(slots))
    while True:
        slot = slots[at]
        if slot == 0 or (slot & _UPPER == tag and equals_key(keys, (slot & _LOWER) - 1, key)):
            return at
        at = (at + 1) & (len(slots) - 1)


@kernel
def erase_at(slots: Ints, hole: Int) -> None:
    """Empty a slot, and shift back those after it that only passed by, so that no tombstones remain."""
    mask = len(slots) - 1
    at = hole
    while True:
        at = (at + 1) & mask
        slot = slots[at]
        if slot == 0:
            break
        if (at - home(slot & _UPPER, len(slots))) & mask >= (at - hole) & mask:
            slots[hole] = slot
            hole = at
    slots[hole] = 0


@kernel
def place_of(slots: Ints, slot: Int) -> Int:
    """Where a slot that is in the table is."""
    at = home(slot & _UPPER, len(slots))
    while slots[at] != slot:
        at = (at + 1) & (len(slots) - 1)
    return at


@kernel
def copy_slots(old: Ints, new: Ints) -> None:
    """Move a table into a larger empty one."""
    mask = len(new) - 1
    for slot in old:
        if slot != 0:
            at = home(slot & _UPPER, len(new))
            while new[at] != 0:
                at = (at + 1) & mask
            new[at] = slot


@kernel
def note(pool: Arrays, entry: Int, old: Weight) -> None:
    """Write one entry of the journal."""
    at = pool.counts[JOURNAL]
    pool.journal_records[at] = entry
    pool.journal_weights[at] = old
    pool.counts[JOURNAL] = at + 1


@kernel
def set_weight(pool: Arrays, record: Int, weight: Weight) -> None:
    state = pool.live[record]
    if state & TOUCHED == 0:
        note(pool, record, pool.weights[record])
    alive = np.uint8(weight != 0)
    pool.counts[LIVE] += np.int64(alive) - np.int64(state & ALIVE)
    pool.live[record] = (state & KEPT) | TOUCHED | alive
    pool.weights[record] = weight


@kernel
def take_record(pool: Arrays, at: Int, tag: Int, weight: Weight) -> Int:
    """A record for a new key, indexed at the empty slot `at`; the caller fills in the key."""
    record = pool.counts[FREE]
    if record >= 0:
        pool.counts[FREE] = pool.free[record]
    else:
        record = pool.counts[HIGH]
        pool.counts[HIGH] = record + 1
    pool.slots[at] = tag | (record + 1)
    pool.counts[INDEXED] += 1
    pool.counts[LIVE] += 1
    pool.weights[record] = weight
    pool.live[record] = ALIVE | TOUCHED
    note(pool, ~record, 0)
    return record


def overflows(old: Weight, delta: Weight) -> bool:
    """Whether the sum of two weights leaves the range of int64; never true of doubles.

    Asked before adding: compiled code takes it that signed sums do not wrap, and drops any test of the sum itself.
    """
    return bool(old > _MOST - delta if delta > 0 else old < _LEAST - delta)


def never_overflows(old: Weight, delta: Weight) -> bool:
    return False


@overload(overflows)
def overflows_by_type(old: Weight, delta: Weight) -> Callable[[Weight, Weight], bool]:
    return overflows if isinstance(old, types.Integer) else never_overflows


@kernel
def hash_chunk(rows: Ints, start: Int, stop: Int, tags: Ints) -> None:
    for row in range(start, stop):
        tags[row - start] = tag_of_row(rows, row)


@kernel
def guess_chunk(keys: Ints, slots: Ints, tags: Ints, records: Ints, touched: Ints) -> None:
    """Read what probing will most likely read, without branches, so that the cache misses of all rows overlap."""
    for at in range(len(tags)):
        record = np.int64(slots[home(tags[at], len(slots))] & _LOWER) - 1
        records[at] = record if record >= 0 else 0
    if keys.shape[1] > 0:
        for at in range(len(tags)):
            touched[at] = keys[records[at], 0]


@kernel
def find_chunk(keys: Ints, slots: Ints, rows: Ints, start: Int, stop: Int, tags: Ints, records: Ints) -> None:
    """The record of every row of a chunk, or -1. The second half of `tags` is scratch."""
    guess_chunk(keys, slots, tags[: stop - start], records, tags[CHUNK:])
    for row in range(start, stop):
        at = seek_row(keys, slots, rows, row, tags[row - start])
        records[row - start] = (slots[at] & _LOWER) - 1


@kernel
def insert_row(pool: Arrays, rows: Ints, row: Int, weight: Weight, tag: Int) -> Int:
    """The record that holds the row's key, as it is, or ~record of a new one with this weight."""
    at = seek_row(pool.keys, pool.slots, rows, row, tag)
    if pool.slots[at] != 0:
        return (pool.slots[at] & _LOWER) - 1
    record = take_record(pool, at, tag, weight)
    for column in range(rows.shape[1]):
        pool.keys[record, column] = rows[row, column]
    return ~record


@kernel
def add_chunk(pool: Arrays, rows: Ints, deltas: Weights, start: Int, stop: Int, tags: Ints, records: Ints) -> Int:
    """Add each delta to its record. The row that overflows, or -1."""
    for row in range(start, stop):
        delta = deltas[row]
        record = records[row - start]
        if delta == 0:
            continue
        if record < 0:  # unless an earlier row of the chunk brought the same key
            record = insert_row(pool, rows, row, delta, tags[row - start])
        if record >= 0:
            old = pool.weights[record]
            if overflows(old, delta):
                return row
            set_weight(pool, record, old + delta)
    return -1


@kernel
def put_chunk(pool: Arrays, rows: Ints, weights: Weights, start: Int, stop: Int, tags: Ints, records: Ints) -> Int:
    """Give each record its new weight and mark it as kept; rows with one key add up. The row that overflows, or -1."""
    for row in range(start, stop):
        weight = weights[row]
        record = records[row - start]
        if record < 0 and weight != 0:
            record = insert_row(pool, rows, row, weight, tags[row - start])
            if record < 0:
                pool.live[~record] |= KEPT
        if record >= 0:
            old = pool.weights[record]
            new = weight
            if pool.live[record] & KEPT:
                if overflows(old, weight):
                    return row
                new = old + weight
            if new != old:
                set_weight(pool, record, new)
            pool.live[record] |= KEPT
    return -1


@kernel
def put(pool: Arrays, rows: Ints, weights: Weights, start: Int) -> Int:
    """The first half of `:=`. Returns as `merge` does; `drop_unkept` is the second half."""
    tags = np.empty(2 * CHUNK, np.int64)
    records = np.empty(CHUNK, np.int64)
    while start < len(weights):
        stop = min(start + CHUNK, len(weights))
        if room(pool) < stop - start:
            return start
        hash_chunk(rows, start, stop, tags)
        find_chunk(pool.keys, pool.slots, rows, start, stop, tags, records)
        failed = put_chunk(pool, rows, weights, start, stop, tags, records)
        if failed >= 0:
            return ~failed
        start = stop
    return start


@kernel
def drop_unkept(pool: Arrays, start: Int) -> Int:
    """Zero every live record that no row named. The record where the journal was full, or the high-water mark."""
    for record in range(start, pool.counts[HIGH]):
        state = pool.live[record]
        if state & KEPT:
            pool.live[record] = state & ~KEPT
        elif state & ALIVE:
            if pool.counts[JOURNAL] == len(pool.journal_records):
                return record
            set_weight(pool, record, 0)
    return pool.counts[HIGH]


@kernel
def restore(pool: Arrays) -> None:
    """Put the old weights back. What the batch inserted is dead after this, and goes with `sweep`."""
    for entry in range(pool.counts[JOURNAL]):
        record = pool.journal_records[entry]
        if record < 0:
            record = ~record
        set_weight(pool, record, pool.journal_weights[entry])


@kernel
def sweep(pool: Arrays) -> None:
    """End the batch: free the records that died in it and empty the journal. `unlink_dead` every slice before."""
    for entry in range(pool.counts[JOURNAL]):
        record = pool.journal_records[entry]
        if record < 0:
            record = ~record
        if pool.live[record] & ALIVE:
            pool.live[record] = ALIVE
        else:
            erase_at(pool.slots, place_of(pool.slots, tag_of_row(pool.keys, record) | (record + 1)))
            pool.live[record] = 0
            pool.free[record] = pool.counts[FREE]
            pool.counts[FREE] = record
            pool.counts[INDEXED] -= 1
    pool.counts[JOURNAL] = 0


@kernel
def seek_chain(keys: Ints, index: Slice, record: Int, tag: Int) -> Int:
    """The place of the chain this record belongs to, or of the empty slot where it would start."""
    at = home(tag, len(index.heads))
    while True:
        slot = index.heads[at]
        if slot == 0:
            return at
        if slot & _UPPER == tag:
            first = (slot & _LOWER) - 1
            same = True
            for column in index.columns:
                same = same and keys[first, column] == keys[record, column]
            if same:
                return at
        at = (at + 1) & (len(index.heads) - 1)


@kernel
def unlink(keys: Ints, index: Slice, record: Int) -> None:
    """Take a record out of its chain. Only the first one of a chain is known to the table."""
    before, after = index.prevs[record], index.nexts[record]
    if after >= 0:
        index.prevs[after] = before
    if before >= 0:
        index.nexts[before] = after
        return
    tag = tag_of_columns(keys, record, index.columns)
    at = place_of(index.heads, tag | (record + 1))
    if after >= 0:
        index.heads[at] = tag | (after + 1)
    else:
        erase_at(index.heads, at)
        index.counts[CHAINS] -= 1


@kernel
def unlink_dead(pool: Arrays, index: Slice) -> None:
    """Take the records that died in this batch out of their chains, just before `sweep`."""
    for entry in range(pool.counts[JOURNAL]):
        record = pool.journal_records[entry]
        if record < 0:
            record = ~record
        if pool.live[record] & ALIVE == 0:
            unlink(pool.keys, index, record)
    index.counts[LINKED] = 0


@kernel
def matches(keys: Ints, record: Int, columns: Ints, key: Key) -> bool:
    if len(key) > 0:
        for position, code in enumerate(key):
            if keys[record, columns[position]] != code:
                return False
    return True


@kernel
def fill_key(keys: Ints, record: Int, key: Key) -> None:
    if len(key) > 0:
        for column, code in enumerate(key):
            keys[record, column] = code


@kernel
def lookup(pool: Arrays, rows: Ints, out: Weights) -> None:
    """The weight of every row, 0 where it has none."""
    tags = np.empty(2 * CHUNK, np.int64)
    records = np.empty(CHUNK, np.int64)
    for start in range(0, len(out), CHUNK):
        stop = min(start + CHUNK, len(out))
        hash_chunk(rows, start, stop, tags)
        find_chunk(pool.keys, pool.slots, rows, start, stop, tags, records)
        for row in range(start, stop):
            record = records[row - start]
            out[row] = pool.weights[record] if record >= 0 else 0


# For generated code ---------------------------------------------------------------------------------------------------


@kernel
def room(pool: Arrays) -> Int:
    """How many rows fit, whatever their keys, before the pool must grow."""
    return min(pool.counts[LIMIT] - pool.counts[INDEXED], len(pool.journal_records) - pool.counts[JOURNAL])


@kernel
def find(pool: Arrays, key: Key) -> Int:
    """The live record of a key, or -1."""
    at = seek_key(pool.keys, pool.slots, key, tag_of_key(key))
    record = (pool.slots[at] & _LOWER) - 1
    if record >= 0 and pool.live[record] & ALIVE:
        return record
    return -1


@kernel
def first(pool: Arrays, index: Slice, key: Key) -> Int:
    """The first live record whose indexed columns are `key` (in the order of the index), or -1."""
    tag = tag_of_key(key)
    at = home(tag, len(index.heads))
    while True:
        slot = index.heads[at]
        if slot == 0:
            return -1
        record = (slot & _LOWER) - 1
        if slot & _UPPER == tag and matches(pool.keys, record, index.columns, key):
            return record if pool.live[record] & ALIVE else after(pool, index, record)
        at = (at + 1) & (len(index.heads) - 1)


@kernel
def after(pool: Arrays, index: Slice, record: Int) -> Int:
    """The next live record of the slice, or -1."""
    record = index.nexts[record]
    while record >= 0 and pool.live[record] & ALIVE == 0:
        record = index.nexts[record]
    return record


@kernel
def add(pool: Arrays, key: Key, delta: Weight) -> bool:
    """Add to the weight of one key; `link_new` every slice after. Needs `room` for one row. False if it overflows."""
    tag = tag_of_key(key)
    at = seek_key(pool.keys, pool.slots, key, tag)
    record = (pool.slots[at] & _LOWER) - 1
    if record >= 0:
        old = pool.weights[record]
        if overflows(old, delta):
            return False
        if delta != 0:
            set_weight(pool, record, old + delta)
    elif delta != 0:
        fill_key(pool.keys, take_record(pool, at, tag, delta), key)
    return True


@kernel
def merge(pool: Arrays, rows: Ints, deltas: Weights, start: Int) -> Int:
    """Add each weight to the record of its row, from row `start` on; `link_new` every slice after.

    Returns the number of rows when all are in; a smaller number if the pool must grow before that row; or, if a row
    overflows, ~row: the pool then holds the rows before it, and the caller rolls back.
    """
    tags = np.empty(2 * CHUNK, np.int64)
    records = np.empty(CHUNK, np.int64)
    while start < len(deltas):
        stop = min(start + CHUNK, len(deltas))
        if room(pool) < stop - start:
            return start
        hash_chunk(rows, start, stop, tags)
        find_chunk(pool.keys, pool.slots, rows, start, stop, tags, records)
        failed = add_chunk(pool, rows, deltas, start, stop, tags, records)
        if failed >= 0:
            return ~failed
        start = stop
    return start


@kernel
def link(keys: Ints, index: Slice, record: Int) -> None:
    """Put a new record at the start of its chain."""
    tag = tag_of_columns(keys, record, index.columns)
    at = seek_chain(keys, index, record, tag)
    following = (index.heads[at] & _LOWER) - 1
    if following >= 0:
        index.prevs[following] = record
    else:
        index.counts[CHAINS] += 1
    index.nexts[record] = following
    index.prevs[record] = -1
    index.heads[at] = tag | (record + 1)


@kernel
def link_new(pool: Arrays, index: Slice) -> bool:
    """Link every record inserted since the last call. False if the index must grow first; call again then."""
    for entry in range(index.counts[LINKED], pool.counts[JOURNAL]):
        if pool.journal_records[entry] < 0:
            if index.counts[CHAINS] == index.counts[CHAIN_LIMIT]:
                index.counts[LINKED] = entry
                return False
            link(pool.keys, index, ~pool.journal_records[entry])
    index.counts[LINKED] = pool.counts[JOURNAL]
    return True
