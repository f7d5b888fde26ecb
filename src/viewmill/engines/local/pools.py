"""A store in memory: weighted records with a unique index and slice indexes, changed in batches that can be undone.

    pool = Pool(width=2, kind="int", slices=((0,),))
    pool.begin()
    pool.merge(keys, weights)        # keys int64[n, 2], weights int64[n]
    pool.changes()                   # (keys, old weights, new weights) of this batch
    pool.rollback()                  # or not, and begin() the next batch

Keys are int64 codes; what they stand for is known elsewhere, where NULL is the code -2**63. A pool never holds a key
with weight zero: it appears with its first weight and disappears when the weights cancel (for doubles, when they cancel
exactly: whether a group of doubles exists is decided by a count kept beside it).

Law: after any sequence of merges, `rows()` is the sum of everything merged, key by key, without the zeros. `rollback`
restores what `rows()` was at `begin`, bit by bit; the order of records in scans and slices may differ.

A sum must fit at every row, in the order given: MAX, +1, -1 overflows although the total fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from viewmill.engines.local import kernels
from viewmill.engines.local.indexes import SMALLEST_TABLE, SliceIndex, load_limit, table_size
from viewmill.engines.local.kernels import Arrays, Ints, Slice, Weights
from viewmill.engines.local.memory import Anonymous, Memory
from viewmill.errors import DataError, InternalError

Kind: TypeAlias = Literal["int", "float"]

SMALLEST_POOL = 8
# A slot keeps the record number in 32 bits, and a table has at most 2**32 slots.
MOST_RECORDS = 2**31
LONG_JOURNAL = 2**16


class WeightOverflow(DataError):
    """A weight left the range of int64. The pool holds the rows before `row`; roll it back."""

    def __init__(self, row: int) -> None:
        super().__init__(f"integer overflow in row {row}")
        self.row = row


class Pool:
    """The arrays of one store, and who grows them."""

    def __init__(
        self,
        width: int,
        kind: Kind,
        slices: tuple[tuple[int, ...], ...] = (),
        *,
        memory: Memory | None = None,
    ) -> None:
        self.width = width
        self.kind = kind
        self.weight_type = np.dtype(np.int64 if kind == "int" else np.float64)
        self._memory = memory = memory or Anonymous()
        self._arrays = Arrays(
            keys=memory.array((SMALLEST_POOL, width), np.int64),
            weights=memory.array((SMALLEST_POOL,), self.weight_type),
            live=memory.array((SMALLEST_POOL,), np.uint8),
            free=memory.array((SMALLEST_POOL,), np.int64),
            slots=memory.array((SMALLEST_TABLE,), np.int64),
            counts=memory.array((6,), np.int64),
            journal_records=memory.array((SMALLEST_POOL,), np.int64),
            journal_weights=memory.array((SMALLEST_POOL,), self.weight_type),
        )
        self._arrays.counts[kernels.FREE] = -1
        self._set_limit()
        self._slices = {columns: SliceIndex(columns, SMALLEST_POOL, memory) for columns in slices}

    @property
    def arrays(self) -> Arrays:
        """For compiled code, until the pool grows: `reserve` first, then ask."""
        return self._arrays

    def slice_arrays(self, columns: tuple[int, ...]) -> Slice:
        """As `arrays`, of the slice index on these columns."""
        return self._slices[columns].arrays

    @property
    def slices(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self._slices)

    def __len__(self) -> int:
        return int(self._arrays.counts[kernels.LIVE])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, used or reserved."""
        return sum(array.nbytes for array in self._arrays) + sum(index.nbytes for index in self._slices.values())

    # Batches

    def begin(self) -> None:
        """End the batch before, freeing what it emptied, and start one with an empty journal."""
        entries = int(self._arrays.counts[kernels.JOURNAL])
        for index in self._slices.values():
            kernels.unlink_dead(self._arrays, index.arrays)
        kernels.sweep(self._arrays)
        if len(self._arrays.journal_records) > max(LONG_JOURNAL, 8 * entries):
            self._shorten_journal(2 * entries)

    def merge(self, keys: Ints, weights: Weights) -> None:
        """Add each weight to its key's."""
        self._apply(kernels.merge, keys, weights)

    def set_all(self, keys: Ints, weights: Weights) -> None:
        """Replace the contents by these rows; rows with one key add up. Only what differs enters the journal."""
        try:
            self._apply(kernels.put, keys, weights)
        except WeightOverflow:
            self._arrays.live[:] &= ~kernels.KEPT
            raise
        record = 0
        while (record := kernels.drop_unkept(self._arrays, record)) < self._arrays.counts[kernels.HIGH]:
            self._grow_journal(1)

    def clear(self) -> None:
        """Remove every record, as one more change of the batch."""
        self.set_all(np.empty((0, self.width), np.int64), np.empty(0, self.weight_type))

    def rollback(self) -> None:
        """Undo the batch, and start another."""
        kernels.restore(self._arrays)
        self.begin()

    def link_new(self) -> None:
        """Bring the slices up to date with what compiled code added. `merge` and `set_all` have done so."""
        for index in self._slices.values():
            index.link_new(self._arrays)

    def changes(self) -> tuple[Ints, Weights, Weights]:
        """What the batch changed so far: keys with their weights before it and now. 0 stands for absence."""
        entries = self._arrays.counts[kernels.JOURNAL]
        touched = self._arrays.journal_records[:entries]
        records = np.where(touched < 0, ~touched, touched)
        old, new = self._arrays.journal_weights[:entries], self._arrays.weights[records]
        changed = old != new
        return self._arrays.keys[records[changed]], old[changed], new[changed]

    # Reading

    def rows(self) -> tuple[Ints, Weights]:
        """Copies of the keys and weights of all records, in no particular order."""
        used = self._arrays.counts[kernels.HIGH]
        records = np.flatnonzero(self._arrays.live[:used] & kernels.ALIVE)
        return self._arrays.keys[records], self._arrays.weights[records]

    def weights_of(self, keys: Ints) -> Weights:
        """The weight of every key, 0 for those that are absent."""
        out = np.empty(len(keys), self.weight_type)
        kernels.lookup(self._arrays, keys, out)
        return out

    # Growing

    def reserve(self, rows: int) -> None:
        """Make room for so many more rows, whatever their keys: compiled code may merge them without asking back.

        Room is not added up: a second `reserve` before the rows of the first are in counts from the same state.
        """
        self._make_room(rows)
        for index in self._slices.values():
            index.reserve(rows)

    def _apply(self, kernel: Callable[[Arrays, Ints, Weights, int], int], keys: Ints, weights: Weights) -> None:
        if keys.shape != (len(weights), self.width) or keys.dtype != np.int64 or weights.dtype != self.weight_type:
            raise InternalError(f"rows {keys.shape} of {weights.dtype} for a pool of width {self.width}, {self.kind}")
        # One layout, so that one compiled form serves all callers.
        keys, weights = np.require(keys, np.int64, ["C", "W"]), np.require(weights, None, ["C", "W"])
        done = 0
        while done < len(weights):
            stop = kernel(self._arrays, keys, weights, done)
            self.link_new()
            if stop < 0:
                raise WeightOverflow(~stop)
            done = stop
            # Growth follows the keys met, not the rows to come: a long batch may hit few keys.
            self._make_room(min(kernels.CHUNK, len(weights) - done))

    def _make_room(self, rows: int) -> None:
        arrays = self._arrays
        if arrays.counts[kernels.INDEXED] + rows > arrays.counts[kernels.LIMIT]:
            self._grow_records(int(arrays.counts[kernels.INDEXED]) + rows)
        if arrays.counts[kernels.JOURNAL] + rows > len(arrays.journal_records):
            self._grow_journal(rows)

    def _grow_records(self, needed: int) -> None:
        if needed > MOST_RECORDS:
            raise DataError(f"a store cannot hold more than {MOST_RECORDS} rows")
        old = self._arrays
        if needed > len(old.weights):
            capacity = max(needed, len(old.weights) * 3 // 2)
            self._arrays = old._replace(
                keys=self._longer(old.keys, capacity),
                weights=self._longer(old.weights, capacity),
                live=self._longer(old.live, capacity),
                free=self._longer(old.free, capacity),
            )
            for index in self._slices.values():
                index.grow_records(capacity)
        if needed > load_limit(len(old.slots)):
            slots = self._memory.array((table_size(needed),), np.int64)
            kernels.copy_slots(old.slots, slots)
            self._arrays = self._arrays._replace(slots=slots)
            self._memory.release(old.slots)
        self._set_limit()

    def _grow_journal(self, entries: int) -> None:
        old = self._arrays
        length = max(int(old.counts[kernels.JOURNAL]) + entries, len(old.journal_records) * 2)
        self._arrays = old._replace(
            journal_records=self._longer(old.journal_records, length),
            journal_weights=self._longer(old.journal_weights, length),
        )

    def _shorten_journal(self, entries: int) -> None:
        """Give back the memory that one large batch needed. Only while the journal is empty."""
        old = self._arrays
        length = max(entries, SMALLEST_POOL)
        self._arrays = old._replace(
            journal_records=self._memory.array((length,), np.int64),
            journal_weights=self._memory.array((length,), self.weight_type),
        )
        self._memory.release(old.journal_records)
        self._memory.release(old.journal_weights)

    def _longer(self, old: Weights, length: int) -> Weights:
        new = self._memory.array((length, *old.shape[1:]), old.dtype)
        new[: len(old)] = old
        self._memory.release(old)
        return new

    def _set_limit(self) -> None:
        arrays = self._arrays
        arrays.counts[kernels.LIMIT] = min(len(arrays.weights), load_limit(len(arrays.slots)))
