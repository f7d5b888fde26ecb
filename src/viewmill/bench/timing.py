"""The stopwatch: batches are made ready outside of the measured time, then applied one by one.

What is timed is one call of the public interface, from the caller's data to the committed view. A clock reading costs
about 0.05 µs, which is counted.
"""

from __future__ import annotations

import gc
import math
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeAlias, TypeVar

import pyarrow as pa

from viewmill.bench.results import Share, Size, percentile
from viewmill.bench.stream import Change, Piece
from viewmill.session import Mill

Call: TypeAlias = Callable[[], None]
T = TypeVar("T")

AHEAD = 1000
"""Batches made ready at a time."""


class TooSlow(Exception):
    """A limit of time was passed."""


@dataclass(slots=True)
class Timing:
    """Batches applied, what each relation had of them, and the time of each.

    `missing` is what was deleted and not put back.
    """

    rows: int = 0
    missing: dict[Piece, None] = field(default_factory=dict)
    relations: dict[str, Share] = field(default_factory=dict)
    times: array[float] = field(default_factory=lambda: array("d"))

    @property
    def seconds(self) -> float:
        return sum(self.times)

    @property
    def percentiles(self) -> tuple[float, float]:
        """The median and the 99th."""
        ordered = sorted(self.times)
        return percentile(ordered, 0.5), percentile(ordered, 0.99)

    def add(self, change: Change, seconds: float) -> None:
        if change.deleted:
            self.missing[change.deleted] = None
        if change.inserted:
            self.missing.pop(change.inserted, None)
        share = self.relations.get(change.table, Share(0, 0, 0.0))
        self.relations[change.table] = Share(share.batches + 1, share.rows + change.rows, share.seconds + seconds)
        self.rows += change.rows
        self.times.append(seconds)


def clocked(ready: Iterator[tuple[T, Call]], box: float, done: Callable[[T, float], None]) -> None:
    """Make one call after the other until there are no more, or `box` seconds have been measured.

    Making calls ready takes time, too: after three times the box, the measurement ends as well.
    """
    clock = time.perf_counter
    left, latest = box, clock() + 3 * box
    gc.collect()
    gc.freeze()  # the benchmark's own objects shall not slow down the collector
    try:
        for what, call in ready:
            start = clock()
            call()
            end = clock()
            done(what, end - start)
            left -= end - start
            if left <= 0 or end > latest:
                return
    finally:
        gc.unfreeze()


class Stopwatch:
    """Measures changes of a mill, in as many turns as are asked for; `missing` is what was missing before."""

    def __init__(
        self,
        mill: Mill,
        changes: Iterable[Change],
        data: Mapping[str, pa.RecordBatch],
        size: Size,
        missing: Iterable[Piece] = (),
    ) -> None:
        self.timing = Timing(missing=dict.fromkeys(missing))
        waiting = iter(changes)
        # Many are made ready before the first is called, so that a call does not find its data in the nearest cache.
        blocks = iter(lambda: list(islice(waiting, AHEAD)), [])
        self._ready = (pair for block in blocks for pair in zip(block, calls(mill, block, data, size), strict=True))

    def run(self, box: float) -> Timing:
        """Go on for so many seconds."""
        clocked(self._ready, box, self.timing.add)
        return self.timing


def apply(
    mill: Mill,
    changes: Iterable[Change],
    data: Mapping[str, pa.RecordBatch],
    size: Size = "1",
    *,
    limit: float = math.inf,
) -> Timing:
    """Apply changes to get somewhere, not to measure them; `TooSlow` if that takes longer than `limit`."""
    timing = Timing()
    latest = time.perf_counter() + limit
    for change in changes:
        (call,) = calls(mill, [change], data, size)
        start = time.perf_counter()
        call()
        timing.add(change, time.perf_counter() - start)
        if time.perf_counter() > latest:
            raise TooSlow
    return timing


def calls(mill: Mill, changes: list[Change], data: Mapping[str, pa.RecordBatch], size: Size) -> list[Call]:
    """Each change as a call that applies it: with Arrow or, where the size is `single`, with tuples."""
    if size == "single":
        rows = _tuples([piece for change in changes for piece in (change.inserted, change.deleted) if piece], data)
        return [_call(mill, change, lambda piece: [rows[piece]]) for change in changes]

    def arrow(piece: Piece) -> pa.RecordBatch:
        return data[piece.table].slice(piece.start, piece.rows)

    return [_call(mill, change, arrow) for change in changes]


def _call(mill: Mill, change: Change, rows: Callable[[Piece], object]) -> Call:
    match change:
        case Change(Piece() as inserted, None):
            return partial(mill.insert, inserted.table, rows(inserted))
        case Change(None, Piece() as deleted):
            return partial(mill.delete, deleted.table, rows(deleted))
        case Change(Piece() as inserted, Piece() as deleted):
            return partial(_exchange, mill, inserted.table, rows(inserted), rows(deleted))
        case _:
            raise ValueError("an empty change")


def _exchange(mill: Mill, table: str, inserted: object, deleted: object) -> None:
    with mill.batch() as batch:
        batch.delete(table, deleted)
        batch.insert(table, inserted)


def _tuples(pieces: list[Piece], data: Mapping[str, pa.RecordBatch]) -> dict[Piece, tuple[object, ...]]:
    """Single rows as tuples; converted column by column, since row by row takes many times longer."""
    found: dict[Piece, tuple[object, ...]] = {}
    for table in {piece.table for piece in pieces}:
        mine = [piece for piece in pieces if piece.table == table]
        rows = data[table].take(pa.array([piece.start for piece in mine]))
        found.update(zip(mine, zip(*(column.to_pylist() for column in rows.columns), strict=True), strict=True))
    return found
