"""What is fed to a view: which rows of which table, in which order, in batches of which size.

`interleave` is the stream of Hot Dog, section 6: insertions into all tables, in turn. The turns are proportional to the
sizes of the tables, so that all of them end together and the state keeps its proportions. A batch has rows of one
table.

`Churn` is a stream without end at full size: it deletes pieces at random places and puts earlier ones back, so that
only rows that are there are deleted, only rows that are not are inserted, and the size stays as it is. Foreign keys
may point to rows that are missing for the moment, as they do in the first stream.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows `start` to `stop` (exclusive) of a table, as generated."""

    table: str
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Change:
    """One batch. At least one of the two is there; both belong to one table and have no row in common."""

    inserted: Piece | None = None
    deleted: Piece | None = None

    @property
    def table(self) -> str:
        piece = self.inserted or self.deleted
        assert piece is not None
        return piece.table

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in (self.inserted, self.deleted) if piece)


def interleave(tables: Mapping[str, range], size: int) -> Iterator[Piece]:
    """Every row of the given ranges once, in pieces of `size` rows; a piece comes when its middle is due."""

    def pieces(order: int, table: str, rows: range) -> Iterator[tuple[float, int, Piece]]:
        for first in range(rows.start, rows.stop, size):
            last = min(first + size, rows.stop)
            yield (first + last - 2 * rows.start) / len(rows), order, Piece(table, first, last)

    turns = (pieces(order, table, rows) for order, (table, rows) in enumerate(tables.items()))
    return (piece for _, _, piece in heapq.merge(*turns))


def whole(counts: Mapping[str, int]) -> dict[str, range]:
    return {table: range(count) for table, count in counts.items()}


def first_half(counts: Mapping[str, int]) -> dict[str, range]:
    return {table: range(count // 2) for table, count in counts.items()}


def second_half(counts: Mapping[str, int]) -> dict[str, range]:
    return {table: range(count // 2, count) for table, count in counts.items()}


def present(counts: Mapping[str, int], missing: Iterable[Piece]) -> dict[str, list[Piece]]:
    """Everything but the missing pieces, as runs in order."""
    runs: dict[str, list[Piece]] = {table: [] for table in counts}
    position = dict.fromkeys(counts, 0)
    ends = (Piece(table, count, count) for table, count in counts.items())
    for piece in (*sorted(missing, key=lambda piece: piece.start), *ends):
        if position[piece.table] < piece.start:
            runs[piece.table].append(Piece(piece.table, position[piece.table], piece.start))
        position[piece.table] = piece.stop
    return runs


class Churn:
    """Changes at full size.

    A batch of `size` rows is one piece deleted and another one inserted, half of the rows each; at size 1, deletes and
    inserts alternate. Tables take turns in proportion to their rows. A piece is at most a quarter of its table.
    """

    def __init__(self, counts: Mapping[str, int], size: int, seed: int = 1) -> None:
        self._random = Random(seed)
        self._counts = counts
        self._alternate = size < 2
        self._piece = {table: max(1, min(size // 2, count // 4)) for table, count in counts.items()}
        self._pieces = {table: -(-count // self._piece[table]) for table, count in counts.items()}
        self._missing: dict[str, list[Piece]] = {table: [] for table in counts}
        # The first turn comes after half an interval: else a short run would be mostly turns of the small tables.
        self._turns = [(self._interval(t) / 2, order, t) for order, t in enumerate(counts) if self._reserve(t)]
        heapq.heapify(self._turns)

    def prime(self) -> Iterator[Change]:
        """Delete the first pieces, put one of each table back and delete it again.

        Once this has run, every batch can put something back, and every table has seen each kind of batch.
        """
        for table, missing in self._missing.items():
            for _ in range(self._reserve(table)):
                yield self._delete(table)
            if missing:
                yield Change(inserted=missing[-1])
                yield Change(deleted=missing[-1])
                yield self._change(table)

    def __iter__(self) -> Iterator[Change]:
        while self._turns:
            due, order, table = self._turns[0]
            heapq.heapreplace(self._turns, (due + self._interval(table), order, table))
            yield self._change(table)

    def _change(self, table: str) -> Change:
        if self._alternate:
            full = len(self._missing[table]) <= self._reserve(table)
            return self._delete(table) if full else Change(inserted=self._put_back(table))
        deleted = self._choose(table)  # before the insert, so that the two differ
        inserted = self._put_back(table)
        self._missing[table].append(deleted)
        return Change(inserted, deleted)

    def _delete(self, table: str) -> Change:
        self._missing[table].append(piece := self._choose(table))
        return Change(deleted=piece)

    def _put_back(self, table: str) -> Piece:
        missing = self._missing[table]
        place = self._random.randrange(len(missing))
        missing[place], missing[-1] = missing[-1], missing[place]
        return missing.pop()

    def _choose(self, table: str) -> Piece:
        """A piece that is there. Few are missing, so few draws are needed."""
        while True:
            start = self._random.randrange(self._pieces[table]) * self._piece[table]
            piece = Piece(table, start, min(start + self._piece[table], self._counts[table]))
            if piece not in self._missing[table]:
                return piece

    def _reserve(self, table: str) -> int:
        """How many pieces are missing: enough to choose from, few enough that the table is nearly full."""
        pieces = self._pieces[table]
        return min(8, max(1, pieces // 8)) if pieces > 1 else 0

    def _interval(self, table: str) -> float:
        return self._piece[table] * (1 if self._alternate else 2) / self._counts[table]
