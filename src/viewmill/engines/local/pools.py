"""A store in memory: records of weights with a unique index and slice indexes, changed in batches that can be undone.

    pool = Pool(2, (False,), slices=((0,),))
    pool.begin()
    pool.merge(keys, weights)        # keys int64[n, 2], weights int64[n, 1] or int64[n]
    pool.changes()                   # (keys, old weights, new weights) of this batch
    pool.rollback()                  # or not, and begin() the next batch

Keys are int64 codes; what they stand for is known elsewhere, where NULL is the code -2**63. A record has a weight in
every *lane*, an int64 or a double by its bits: several stores with the same keys are one pool. A pool holds no record
that is zero in all lanes: it appears with its first weight and disappears when the weights cancel (doubles, when they
cancel exactly: whether a group of doubles exists is decided by a count kept beside it).

Compiled code sees a pool as the address of its control block (`layout.py`), and does all the work (`kernels.py`). What
is here owns the memory: when compiled code runs out of room it calls back (`_grow`), and goes on with the new arrays.

Law: after any sequence of merges, `rows()` is the sum of everything merged, key by key, without the zeros. `rollback`
restores what `rows()` was at `begin`, bit by bit; the order of records in scans and slices may differ. A pool that is
not journalled holds what one batch needs for itself: `begin`, `rollback` and `clear` all empty it.

A sum must fit at every row, in the order given: MAX, +1, -1 overflows although the total fits.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from viewmill.engines.local import kernels, layout
from viewmill.engines.local.indexes import Ints, SliceIndex, address, expect_wider, wider
from viewmill.engines.local.journal import LONG
from viewmill.engines.local.layout import FIRST_ORDER, FIRST_SLICE, MOST_ORDERS, ORDER_WORDS, SLICE_WORDS
from viewmill.engines.local.libraries import CFunction
from viewmill.engines.local.memory import Anonymous, Memory, Shared
from viewmill.engines.local.ordered import MOST_LANES as MOST_ORDERED_LANES
from viewmill.engines.local.ordered import Order, OrderedIndex
from viewmill.engines.local.raw import FULL, OVERFLOW
from viewmill.engines.local.tables import SMALLEST_TABLE, load_limit
from viewmill.errors import DataError, InternalError
from viewmill.interrupts import uninterrupted

SMALLEST_POOL = 8
# A slot keeps the record number in 32 bits, and a table has at most 2**32 slots.
MOST_RECORDS = 2**31
MOST_LANES = 64
# Slices that may be added to those a pool starts with, at least and at most: its control block cannot move.
SPARE_SLICES = 8
MOST_SPARE_SLICES = 64
# Rows handed over at once: few enough to be in the cache when they are read.
PIECE = 2**13
# Records from which on memory is made ready before it is needed
FIRST_LOOK = 2**15
_FILL = 2**16  # rows with one journal, where none is needed


class WeightOverflow(DataError):
    """A weight left the range of int64. The pool must be rolled back."""

    def __init__(self) -> None:
        super().__init__("integer overflow")


@dataclass(slots=True)
class Arrays:
    """What a pool consists of, besides its slices. Those that grow are replaced."""

    width: int
    block: Ints
    records: Ints  # [capacity, width + lanes]: who finds a key has its weights in the cache
    live: NDArray[np.uint8]  # [capacity]
    slots: Ints
    journal: Ints  # [entries, 1 + lanes]
    out: Ints  # [rows, width + lanes]

    @property
    def keys(self) -> Ints:
        return self.records[:, : self.width]

    @property
    def weights(self) -> Ints:
        return self.records[:, self.width :]

    def all(self) -> tuple[NDArray[Any], ...]:
        return self.block, self.records, self.live, self.slots, self.journal, self.out


class Pool:
    """The arrays of one store, and who grows them."""

    def __init__(
        self,
        width: int,
        doubles: tuple[bool, ...],
        slices: tuple[tuple[int, ...], ...] = (),
        *,
        memory: Memory | None = None,
        journalled: bool = True,
    ) -> None:
        if not 0 < len(doubles) <= MOST_LANES:
            raise InternalError(f"a pool of {len(doubles)} lanes")
        self.width = width
        self.doubles = doubles
        self.lanes = len(doubles)
        self.journalled = journalled
        self.failure: BaseException | None = None
        """Why the pool could not grow, when compiled code returned FULL."""
        self._memory = memory = memory or Anonymous()
        block_words = FIRST_SLICE + SLICE_WORDS * (len(slices) + _spare_slices(width))
        self.arrays = Arrays(
            width=width,
            block=memory.array((block_words,), np.int64),
            records=memory.array((SMALLEST_POOL, width + self.lanes), np.int64),
            live=memory.array((SMALLEST_POOL,), np.uint8),
            slots=memory.array((SMALLEST_TABLE,), np.int64),
            journal=memory.array((SMALLEST_POOL if journalled else 0, 1 + self.lanes), np.int64),
            out=_SCRATCH.array((SMALLEST_POOL, width + self.lanes), np.int64),
        )
        self.address = address(self.arrays.block)
        """By which compiled code knows the pool, as long as it lives."""
        self._indexes: list[SliceIndex] = []
        self._ordered: list[OrderedIndex] = []
        self._start_block()
        self._publish()
        for columns in slices:
            self.add_slice(columns)

    @classmethod
    def held(cls, block: Ints, memory: Shared) -> Pool:
        """The pool that another process left in shared memory, by its control block. It is to be taken over."""
        pool = object.__new__(cls)
        pool.width, pool.lanes = int(block[layout.WIDTH]), int(block[layout.LANES])
        pool.doubles = tuple(bool(block[layout.DOUBLES] >> lane & 1) for lane in range(pool.lanes))
        pool.journalled = True
        pool.failure = None
        pool._memory = memory
        nothing = np.zeros(0, np.int64)
        out = _SCRATCH.array((SMALLEST_POOL, pool.width + pool.lanes), np.int64)
        pool.arrays = Arrays(pool.width, block, nothing, nothing.view(np.uint8), nothing, nothing, out)
        pool.address = address(block)
        pool._indexes, pool._ordered = [], []
        pool._number, pool._moves = _numbered(pool), -1
        return pool

    def take_over(self, moved: int) -> None:
        """Go on where another process left a pool in shared memory, which it had `moved` bytes further down."""
        block, out = self.arrays.block, self.arrays.out
        if moved:
            block[self._pointers()] += moved
        block[_OURS] = _our_words()
        block[_SCRATCH_WORDS] = self._number, address(out), len(out), 0
        if block[layout.MOVES] != self._moves:
            self._find_arrays()

    def _pointers(self) -> list[int]:
        """The words of the block that hold addresses of arrays in its memory."""
        block = self.arrays.block
        found = list(_POINTERS)
        for number in range(int(block[layout.SLICES])):
            found += (FIRST_SLICE + SLICE_WORDS * number + word for word in _SLICE_POINTERS)
        for number in range(int(block[layout.ORDERS])):
            found += (FIRST_ORDER + ORDER_WORDS * number + word for word in _ORDER_POINTERS)
        return found

    def _find_arrays(self) -> None:
        """Make arrays of what the block tells."""
        arrays, block, at = self.arrays, self.arrays.block, cast(Shared, self._memory).at
        words = block[:FIRST_ORDER].tolist()
        capacity = words[layout.CAPACITY]
        arrays.records = at(words[layout.KEYS], (capacity, self.width + self.lanes), np.int64)
        arrays.live = at(words[layout.LIVE], (capacity,), np.uint8)
        arrays.slots = at(words[layout.SLOTS], (words[layout.SLOT_ROOM],), np.int64)
        arrays.journal = at(words[layout.JOURNAL], (words[layout.ENTRY_LIMIT], 1 + self.lanes), np.int64)
        shared = cast(Shared, self._memory)
        self._indexes = [
            SliceIndex.held(self._slice_words(number), capacity, shared) for number in range(words[layout.SLICES])
        ]
        self._ordered = [
            OrderedIndex.held(self._order_words(number), capacity, self.lanes, shared)
            for number in range(words[layout.ORDERS])
        ]
        self._moves = words[layout.MOVES]

    def free(self) -> None:
        """Give the memory back. The pool is no more."""
        arrays = self.arrays
        for array in (arrays.block, arrays.records, arrays.live, arrays.slots, arrays.journal):
            self._memory.release(array)
        indexes = [*(index.arrays for index in self._indexes), *(index.arrays for index in self._ordered)]
        for array in itertools.chain.from_iterable(indexes):
            self._memory.release(array)

    @property
    def slices(self) -> tuple[tuple[int, ...], ...]:
        """The columns of every slice, in the order of their numbers."""
        return tuple(index.columns for index in self._indexes)

    @property
    def orders(self) -> tuple[Order, ...]:
        """What the ordered indexes are by, in the order of their numbers."""
        return tuple(index.order for index in self._ordered)

    def ordered_index(self, number: int) -> OrderedIndex:
        return self._ordered[number]

    def slice_index(self, number: int) -> SliceIndex:
        return self._indexes[number]

    def __len__(self) -> int:
        return int(self.arrays.block[layout.LIVING])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, used or reserved."""
        own = sum(array.nbytes for array in self.arrays.all())
        own += sum(array.nbytes for index in self._indexes for array in index.arrays)
        return own + sum(array.nbytes for index in self._ordered for array in index.arrays)

    # Batches

    def begin(self) -> None:
        """End the batch before, freeing what it emptied, and start one with an empty journal."""
        self.check(kernels.begin(self.address, 0))

    def merge(self, keys: Ints, weights: Ints) -> None:
        """Add each row of weights to its key's."""
        rows = self._rows(keys, weights)
        for start in range(0, len(rows), PIECE):
            self.check(self._over(rows[start : start + PIECE], kernels.merge))

    def fill(self, keys: Ints, weights: Ints) -> None:
        """Add rows that are not to be undone, whatever their number: the batch is over after this."""
        self.begin()
        for start in range(0, len(keys), _FILL):
            upto = min(start + _FILL, len(keys))
            if self.arrays.block[layout.INDEXED] + len(keys) - start > self.arrays.block[layout.LIMIT]:
                self._make_room(len(keys) - start)
            self.merge(keys[start:upto], weights[start:upto])
            self.begin()

    def _make_room(self, rows: int) -> None:
        try:
            self._grow_records(rows)
        finally:
            self._publish()

    def set_all(self, keys: Ints, weights: Ints) -> None:
        """Replace the contents by these rows; rows with one key add up. Only what differs enters the journal."""
        self.check(self._over(self._rows(keys, weights), kernels.put))

    def clear(self) -> None:
        """Remove every record, as one more change of the batch."""
        self.check(kernels.clear(self.address, 0))

    def rollback(self) -> None:
        """Undo the batch, and start another."""
        self.check(kernels.rollback(self.address, 0))

    def check(self, flags: int) -> None:
        """Raise what the flags of compiled code stand for, if this pool raised them."""
        if flags & FULL:
            failure, self.failure = self.failure, None
            raise failure or KeyboardInterrupt  # which came before anything could be kept
        if flags & OVERFLOW:
            raise WeightOverflow

    def changes(self) -> tuple[Ints, Ints, Ints]:
        """What the batch changed so far: keys with their weights before it and now. Zeros stand for absence."""
        entries = self.arrays.block[layout.ENTRIES]
        touched = self.arrays.journal[:entries, 0]
        records = np.where(touched < 0, ~touched, touched)
        old, new = self.arrays.journal[:entries, 1:], self.arrays.weights[records]
        changed = (old != new).any(axis=1)
        return self.arrays.keys[records[changed]], old[changed], new[changed]

    def rest(self) -> None:
        """After a batch, for a pool that is not journalled: give back what only a much larger one needs."""
        if len(self.arrays.live) <= max(LONG, 8 * int(self.arrays.block[layout.HIGH])):
            return
        self.begin()
        arrays, memory = self.arrays, self._memory
        for array in (arrays.records, arrays.live, arrays.slots):
            memory.release(array)
        arrays.records = memory.array((SMALLEST_POOL, self.width + self.lanes), np.int64)
        arrays.live = memory.array((SMALLEST_POOL,), np.uint8)
        arrays.slots = memory.array((SMALLEST_TABLE,), np.int64)
        for index in self._indexes:
            index.start_again(SMALLEST_POOL)
        self._publish()

    # Reading

    def rows(self) -> tuple[Ints, Ints]:
        """Copies of the keys and weights of all records, in no particular order."""
        records = self._living()
        return self.arrays.keys[records], self.arrays.weights[records]

    def pieces(self, size: int) -> Iterator[tuple[Ints, Ints]]:
        """The same, so many at a time."""
        records = self._living()
        for start in range(0, len(records), size):
            some = records[start : start + size]
            yield self.arrays.keys[some], self.arrays.weights[some]

    def records(self, size: int) -> Iterator[Ints]:
        """The same, each key and its weights in one row."""
        records = self._living()
        for start in range(0, len(records), size):
            yield self.arrays.records[records[start : start + size]]

    def _living(self) -> Ints:
        used = self.arrays.block[layout.HIGH]
        return np.flatnonzero(self.arrays.live[:used] & layout.ALIVE)

    def weights_of(self, keys: Ints) -> Ints:
        """The weights of every key, 0 for those that are absent."""
        if keys.shape != (len(keys), self.width) or keys.dtype != np.int64:
            raise InternalError(f"keys {keys.shape} of {keys.dtype} for a pool of width {self.width}")
        keys = np.ascontiguousarray(keys)
        out = np.empty((len(keys), self.lanes), np.int64)
        kernels.look_up(self.address, address(keys), len(keys), address(out))
        return out

    def find(self, key: tuple[int, ...]) -> int:
        """The record of a key, or -1."""
        return kernels.find(self.address, address(np.array(key, np.int64)))

    def records_in_slice(self, number: int, key: tuple[int, ...]) -> Ints:
        """All records whose columns of slice `number` are `key`, in the order of the slice."""
        found = []
        record = kernels.first(self.address, number, address(np.array(key, np.int64)))
        while record >= 0:
            found.append(record)
            record = kernels.after(self.address, number, record)
        return np.array(found, np.int64)

    # Growing

    def reserve(self, rows: int) -> None:
        """Make room for so many more rows, whatever their keys."""
        block = self.arrays.block
        if block[layout.INDEXED] + rows > block[layout.LIMIT]:
            self._make_room(rows)
        try:
            if self.journalled and block[layout.ENTRIES] + rows > block[layout.ENTRY_LIMIT]:
                self._grow_journal(rows)
            for index in self._indexes:
                index.reserve(int(index.words[layout.CHAINS]) + rows)
            for ordered in self._ordered:
                ordered.reserve(int(ordered.words[layout.CHAINS]) + rows)
        finally:
            self._publish()

    def can_slice(self) -> bool:
        """Whether there is room for one more slice."""
        return FIRST_SLICE + SLICE_WORDS * (len(self._indexes) + 1) <= len(self.arrays.block)

    def add_slice(self, columns: tuple[int, ...]) -> int:
        """Index all records by these columns, from now on. Returns the number of the slice."""
        number = len(self._indexes)
        if not self.can_slice():
            raise InternalError(f"a pool with more than {number} slices")
        self._indexes.append(SliceIndex(columns, self._slice_words(number), len(self.arrays.live), self._memory))
        self.check(kernels.link_all(self.address, number))
        self.arrays.block[layout.SLICES] = number + 1
        self._note_move()
        return number

    def _slice_words(self, number: int) -> Ints:
        start = FIRST_SLICE + SLICE_WORDS * number
        return self.arrays.block[start : start + SLICE_WORDS]

    def _order_words(self, number: int) -> Ints:
        start = FIRST_ORDER + ORDER_WORDS * number
        return self.arrays.block[start : start + ORDER_WORDS]

    def can_order(self) -> bool:
        """Whether there is room for one more ordered index."""
        return self.journalled and self.lanes <= MOST_ORDERED_LANES and len(self._ordered) < MOST_ORDERS

    def add_order(self, order: Order) -> int:
        """Keep all records in this order, from now on. Returns the number of the ordered index."""
        number = len(self._ordered)
        if not self.can_order():
            raise InternalError(f"no ordered index number {number} for a pool of {self.lanes} lanes")
        index = OrderedIndex(order, self._order_words(number), len(self.arrays.live), self.lanes, self._memory)
        self._ordered.append(index)
        try:
            records = self._in_order(order)
            self.check(kernels.plant_all(self.address, number, address(records), len(records)))
        except BaseException:
            self._ordered.pop()
            raise
        self.arrays.block[layout.ORDERS] = number + 1
        self._note_move()
        return number

    def _in_order(self, order: Order) -> Ints:
        """All records in the unique index, about as they will be ordered: neighbours are quick to link."""
        records = np.flatnonzero(self.arrays.live[: self.arrays.block[layout.HIGH]])
        columns = (order.column, *reversed(order.within))
        return records[np.lexsort([self.arrays.keys[records, column] for column in columns])]

    def grow(self, what: int) -> None:
        """What compiled code asks for when it has no room: one of the words in `layout`."""
        needed = int(self.arrays.block[layout.NEEDED])
        try:
            self._grow(what, needed)
        finally:  # what has grown has, also if there was no memory for the rest
            self._publish()

    def _look_ahead(self) -> None:
        """Have memory made ready for the records to come, before the pool is full."""
        arrays, block = self.arrays, self.arrays.block
        used = int(block[layout.HIGH])
        step = max(used // 16, FIRST_LOOK)
        block[layout.SOON] = int(block[layout.INDEXED]) + step
        if not self.journalled:
            return  # it is as large as a batch
        self._memory.expect(arrays.records, used, used + 2 * step)
        self._memory.expect(arrays.live, used, used + 2 * step)
        for array in self._by_record():
            self._memory.expect(array, used, used + 2 * step)
        expect_wider(self._memory, arrays.slots, int(block[layout.INDEXED]), 2 * step)
        for index in self._indexes:
            expect_wider(self._memory, index.heads, int(index.words[layout.CHAINS]), 2 * step)
        for ordered in self._ordered:
            expect_wider(self._memory, ordered.heads, int(ordered.words[layout.CHAINS]), 2 * step)

    def _by_record(self) -> Iterator[NDArray[Any]]:
        """Arrays of indexes that have an element for each record."""
        yield from (index.links for index in self._indexes)
        yield from (index.nodes for index in self._ordered)

    def _grow(self, what: int, needed: int) -> None:
        match what:
            case layout.LOOK_AHEAD:
                with suppress(Exception):  # there is no need for it
                    self._look_ahead()
            case layout.GROW_RECORDS:
                self._grow_records(needed)
            case layout.GROW_JOURNAL:
                self._grow_journal(needed)
            case layout.GROW_OUT:
                self._resize_out(max(2 * len(self.arrays.out), int(self.arrays.block[layout.EMITTED]) + needed))
            case layout.SHRINK_JOURNAL:
                old = self.arrays.journal
                self.arrays.journal = self._memory.array((max(needed, SMALLEST_POOL), 1 + self.lanes), np.int64)
                self._memory.release(old)
            case layout.SHRINK_OUT:
                self._resize_out(max(needed, SMALLEST_POOL))
            case _ if what >= layout.GROW_ORDER:
                self._ordered[what - layout.GROW_ORDER].reserve(needed)
            case _:
                self._indexes[what - layout.GROW_SLICE].reserve(needed)

    def _rows(self, keys: Ints, weights: Ints) -> Ints:
        """Keys and weights side by side, as compiled code emits them."""
        if weights.ndim == 1:
            weights = weights[:, np.newaxis]
        right = keys.shape == (len(weights), self.width) and weights.shape[1] == self.lanes
        if not right or keys.dtype != np.int64 or weights.dtype != np.int64:
            shapes = f"{keys.shape} of {keys.dtype} and {weights.shape} of {weights.dtype}"
            raise InternalError(f"rows {shapes} for a pool of width {self.width} with {self.lanes} lanes")
        rows = np.empty((len(keys), self.width + self.lanes), np.int64)
        rows[:, : self.width] = keys
        rows[:, self.width :] = weights
        return rows

    def _over(self, rows: Ints, function: CFunction) -> int:
        """Have compiled code take these rows for what was emitted."""
        block, out = self.arrays.block, self.arrays.out
        block[[layout.OUT, layout.OUT_LIMIT, layout.EMITTED]] = address(rows), len(rows), len(rows)
        peak = block[layout.OUT_PEAK]
        try:
            return function(self.address, 0)
        finally:
            block[[layout.OUT, layout.OUT_LIMIT, layout.OUT_PEAK]] = address(out), len(out), peak

    def _grow_records(self, rows: int) -> None:
        arrays = self.arrays
        needed = int(arrays.block[layout.INDEXED]) + rows
        if needed > MOST_RECORDS:
            raise DataError(f"a store cannot hold more than {MOST_RECORDS} rows")
        if needed > len(arrays.live):
            capacity = max(needed, len(arrays.live) * 3 // 2)
            arrays.records = self._memory.longer(arrays.records, capacity)
            arrays.live = self._memory.longer(arrays.live, capacity)
            for index in self._indexes:
                index.grow_records(capacity)
            for ordered in self._ordered:
                ordered.grow_records(capacity)
        if needed > load_limit(len(arrays.slots)):
            arrays.slots = wider(self._memory, arrays.slots, int(arrays.block[layout.MASK]) + 1, needed)

    def _grow_journal(self, entries: int) -> None:
        length = max(int(self.arrays.block[layout.ENTRIES]) + entries, len(self.arrays.journal) * 2)
        self.arrays.journal = self._memory.longer(self.arrays.journal, length)

    def _resize_out(self, rows: int) -> None:
        old = self.arrays.out
        new = _SCRATCH.array((rows, self.width + self.lanes), np.int64)
        kept = int(self.arrays.block[layout.EMITTED])
        new[:kept] = old[:kept]
        self.arrays.out = new

    def _start_block(self) -> None:
        block = self.arrays.block
        block[layout.STRIDE] = self.width + self.lanes
        block[layout.WIDTH] = self.width
        block[layout.LANES] = self.lanes
        block[layout.DOUBLES] = np.int64(sum(1 << lane for lane, real in enumerate(self.doubles) if real))
        block[layout.FIRST_FREE] = -1
        block[layout.SOON] = FIRST_LOOK
        self._number, self._moves = _numbered(self), 0
        block[layout.POOL] = self._number
        block[_OURS] = _our_words()

    def _publish(self) -> None:
        """Write to the control block where everything is, and how large."""
        self._note_move()
        arrays, block = self.arrays, self.arrays.block
        block[layout.KEYS] = address(arrays.records)
        block[layout.WEIGHTS] = address(arrays.records) + 8 * self.width
        block[layout.LIVE] = address(arrays.live)
        block[layout.JOURNAL] = address(arrays.journal)
        block[layout.OUT] = address(arrays.out)
        block[layout.CAPACITY] = len(arrays.live)
        block[layout.ENTRY_LIMIT] = len(arrays.journal) if self.journalled else -1
        block[layout.OUT_LIMIT] = len(arrays.out)
        if (block[layout.SLOTS], block[layout.SLOT_ROOM]) != (address(arrays.slots), len(arrays.slots)):
            block[layout.SLOTS] = address(arrays.slots)
            block[layout.SLOT_ROOM] = len(arrays.slots)
            block[layout.MASK] = len(arrays.slots) - 1
        block[layout.LIMIT] = min(len(arrays.live), load_limit(int(block[layout.MASK]) + 1))

    def _note_move(self) -> None:
        self._moves += 1
        self.arrays.block[layout.MOVES] = self._moves


_FUNCTIONS = {
    layout.MERGE: kernels.merge,
    layout.PUT: kernels.put,
    layout.BEGIN: kernels.begin,
    layout.ROLLBACK: kernels.rollback,
    layout.CLEAR: kernels.clear,
    layout.FIND_ALL: kernels.find_all,
    layout.TOUCH: kernels.touch,
}
_NUMBERS = itertools.count()
_SCRATCH = Anonymous()  # for rows on their way into a pool, whatever memory it is in

# Words of the control block that hold addresses of arrays: of the pool, of a slice, of an ordered index
_POINTERS = (layout.KEYS, layout.WEIGHTS, layout.LIVE, layout.SLOTS, layout.JOURNAL)
_SLICE_POINTERS = (layout.HEADS, layout.LINKS, layout.COLUMNS)
_ORDER_POINTERS = (layout.HEADS, layout.NODES, layout.COLUMNS)
# Words that are of the process that works on a pool: addresses of its functions, and of its own memory
_OURS = [*_FUNCTIONS, layout.GROW]
_SCRATCH_WORDS = [layout.POOL, layout.OUT, layout.OUT_LIMIT, layout.EMITTED]


@cache
def _our_words() -> Ints:
    grow = ctypes.cast(_GROW, ctypes.c_void_p).value or 0
    return np.array([*(function.address for function in _FUNCTIONS.values()), grow], np.int64)


def _numbered(pool: Pool) -> int:
    """A number for a pool, by which `_grow` finds it."""
    number = next(_NUMBERS)
    _POOLS[number] = pool
    return number


def _spare_slices(width: int) -> int:
    """Room for a slice by any part of the key, if there are not too many of them."""
    return min(max(SPARE_SLICES, (1 << width) - 2), MOST_SPARE_SLICES)


_POOLS: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()


def _grow(number: int, what: int) -> int:
    """Called by compiled code, which knows no exceptions: what goes wrong is kept for `Pool.check`.

    Somebody may have interrupted us by then, which Python raises before our first step. So it counts what is written.
    """
    pool = _POOLS.get(number)
    if pool is None:
        return 0
    try:
        with uninterrupted():
            pool.grow(what)
        pool.arrays.block[layout.NEEDED] = layout.GROWN
    except BaseException as error:
        pool.failure = error
    return 0


_GROW = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_grow)
