"""One query, maintained one way: every phase and batch size measured and verified.

`inserts`: the first half of the stream in large batches, then more of it in batches of the size until it ends or time
is up. The next size goes on from there, if enough is left, else from the first half again. The state is, on average,
that of a whole stream; what is measured is not the start, where everything is small.

`changes`: a mill at full size; for each size, inserts and deletes until time is up, and everything put back. Where
growth is asked for, a mill with a tenth of the data takes turns with it, so that both meet the machine as it is.

Before a measurement, every relation has had a batch of the measured size, so that nothing is compiled while the clock
runs. After it, the view is compared with DuckDB's answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

import viewmill
from viewmill.bench.data import Data
from viewmill.bench.queries import Query, schema_sql
from viewmill.bench.results import Cell, Phase, Size, rows_in
from viewmill.bench.stream import Change, Churn, Piece, first_half, interleave, present, second_half, whole
from viewmill.bench.timing import Stopwatch, Timing, TooSlow, apply
from viewmill.bench.truth import disagreement
from viewmill.errors import UnsupportedError
from viewmill.session import Mill
from viewmill.status import Status

LARGE = 100_000
"""Rows in a batch while state is loaded."""
GROWTH: Size = "1000"
"""Rows in a batch where cost is compared with that at a tenth of the scale."""
_TURNS = 10
"""Parts of the measured time, where mills take turns."""
_ENOUGH = 200
"""Batches that should be left of a stream for another measurement on it."""
FIRST = 10_000
"""Rows of each relation in a first batch, where it has as many: enough that an engine compiles for them."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one process measures. `limit` is how long loading may take, `tenth` where a tenth of the data is."""

    query: Query
    strategy: str
    scale: float
    folder: Path
    wanted: tuple[tuple[Phase, Size], ...]
    seconds: float
    limit: float
    tenth: Path | None = None

    @property
    def smaller(self) -> Job | None:
        """The same with a tenth of the data."""
        return replace(self, scale=self.scale / 10, folder=self.tenth, tenth=None) if self.tenth else None

    def cell(self, phase: Phase, size: Size) -> Cell:
        return Cell(self.query.name, self.strategy, phase, size, self.scale)


@dataclass(frozen=True, slots=True)
class Loading:
    """A cell has begun: until the next news, state is loaded."""

    phase: Phase
    size: Size


@dataclass(frozen=True, slots=True)
class Measuring:
    """State is loaded, the clock runs."""

    phase: Phase
    size: Size


News: TypeAlias = Loading | Measuring | Cell


def measure(job: Job, data: Data, less: Data | None = None) -> Iterator[News]:
    """Every wanted cell, with news of what is going on; `less` is the data of the smaller job."""
    with suppress(Exception):  # each cell will say what is wrong
        create_and_insert(job.query, job.strategy, data)  # so that compiling does not count as loading
    largest = max(_counts(job, data).values())
    full, half = _Full(job, data), _Half(job, data)
    small = _Full(job.smaller, less) if job.smaller and less else None
    hopeless: set[Phase] = set()
    for phase, size in job.wanted:
        # At least one batch is for warming up and one to be measured, out of half of the rows.
        if 4 * rows_in(size) > largest:
            yield replace(job.cell(phase, size), status="small", note=f"the largest relation has {largest} rows")
        elif phase in hopeless:
            yield _not_loaded(job, phase, size)
        else:
            if phase == "inserts":
                measuring = _inserts(job, data, size, half)
            else:
                measuring = _changes(size, [full, small] if small and size == GROWTH else [full])
            for news in _guarded(job, phase, size, measuring):
                if isinstance(news, Cell) and news.status == "slow":
                    hopeless.add(phase)  # other sizes would load the same
                yield news


def create_and_insert(query: Query, strategy: str, data: Data) -> float:
    """Seconds from CREATE MATERIALIZED VIEW to a first batch committed that has rows of every relation."""
    mill = viewmill.connect()
    mill.sql(schema_sql())
    batches = {table: data[table].slice(0, FIRST) for table in query.reads}
    start = time.perf_counter()
    mill.sql(query.create(strategy))
    with mill.batch() as batch:
        for table, rows in batches.items():
            batch.insert(table, rows)
    return time.perf_counter() - start


def _guarded(job: Job, phase: Phase, size: Size, measuring: Iterator[News]) -> Iterator[News]:
    """The news of a cell, whatever goes wrong."""
    yield Loading(phase, size)
    try:
        yield from measuring
    except UnsupportedError as refusal:
        yield replace(job.cell(phase, size), status="refused", note=refusal.message)
    except TooSlow:
        yield _not_loaded(job, phase, size)
    except Exception as error:  # a mistake of the engine ends a cell, not the run
        yield replace(job.cell(phase, size), status="failed", note=told(error))


def _not_loaded(job: Job, phase: Phase, size: Size) -> Cell:
    return replace(job.cell(phase, size), status="slow", note=f"state was not loaded in {job.limit:g} s")


def told(error: Exception) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _inserts(job: Job, data: Data, size: Size, half: _Half) -> Iterator[News]:
    mill, rest = half.take(size)
    first = [Piece(table, rows.start, rows[: rows_in(size)].stop) for table, rows in rest.items() if rows]
    apply(mill, map(Change, first), data, size)
    yield Measuring("inserts", size)
    stream = interleave({table: rows[rows_in(size) :] for table, rows in rest.items()}, rows_in(size))
    timing = Stopwatch(mill, map(Change, stream), data, size).run(job.seconds)
    stop = {table: rows.start for table, rows in rest.items()} | {piece.table: piece.stop for piece in first}
    stop |= {table: stop[table] + share.rows for table, share in timing.relations.items()}
    rows = {table: [Piece(table, 0, stop[table])] for table in rest}
    cell = _finished(job, job.cell("inserts", size), mill, timing, half.load, _tables(data, rows))
    yield cell
    if cell.status == "ok":
        half.give_back(mill, {table: range(stop[table], counted.stop) for table, counted in rest.items()})


def _changes(size: Size, loaded: list[_Full]) -> Iterator[News]:
    """Cells of several scales, in turns."""
    churned = [_Churned(full, size) for full in loaded]
    yield Measuring("changes", size)
    for _ in range(_TURNS):
        for each in churned:
            each.watch.run(each.full.job.seconds / _TURNS)
    for each in churned:
        yield each.finished()


class _Churned:
    """A mill at full size, which takes inserts and deletes."""

    def __init__(self, full: _Full, size: Size) -> None:
        self.full = full
        self._size = size
        self._mill = full.take()
        self._counts = _counts(full.job, full.data)
        churn = Churn(self._counts, rows_in(size))
        missing = apply(self._mill, churn.prime(), full.data, size, limit=full.job.limit).missing
        self.watch = Stopwatch(self._mill, churn, full.data, size, missing)

    def finished(self) -> Cell:
        job, data, timing = self.full.job, self.full.data, self.watch.timing
        rows = present(self._counts, timing.missing)
        cell = job.cell("changes", self._size)
        cell = _finished(job, cell, self._mill, timing, self.full.load, _tables(data, rows))
        if cell.status == "ok":
            apply(self._mill, (Change(inserted=piece) for piece in timing.missing), data)
            self.full.give_back(self._mill)
        return cell


class _Half:
    """A mill with the first half of the stream and maybe more, and what is left of it."""

    def __init__(self, job: Job, data: Data) -> None:
        self._job = job
        self._data = data
        self._mill: Mill | None = None
        self._rest: dict[str, range] = {}
        self.load = 0.0

    def take(self, size: Size) -> tuple[Mill, dict[str, range]]:
        mill, self._mill = self._mill, None
        if mill is not None and max(map(len, self._rest.values())) >= _ENOUGH * rows_in(size):
            return mill, self._rest
        mill = _mill(self._job)
        counts = _counts(self._job, self._data)
        stream = interleave(first_half(counts), LARGE)
        self.load = apply(mill, map(Change, stream), self._data, limit=self._job.limit).seconds
        return mill, second_half(counts)

    def give_back(self, mill: Mill, rest: dict[str, range]) -> None:
        self._mill, self._rest = mill, rest


class _Full:
    """A mill at full size, loaded when it is asked for. One that is not given back in good order is not used again."""

    def __init__(self, job: Job, data: Data) -> None:
        self.job = job
        self.data = data
        self.load = 0.0
        self._mill: Mill | None = None

    def take(self) -> Mill:
        mill, self._mill = self._mill, None
        if mill is None:
            mill = _mill(self.job)
            stream = interleave(whole(_counts(self.job, self.data)), LARGE)
            self.load = apply(mill, map(Change, stream), self.data, limit=self.job.limit).seconds
        return mill

    def give_back(self, mill: Mill) -> None:
        self._mill = mill


def _counts(job: Job, data: Data) -> dict[str, int]:
    return {table: data[table].num_rows for table in job.query.reads}


def _mill(job: Job) -> Mill:
    mill = viewmill.connect()
    mill.sql(schema_sql())
    mill.sql(job.query.create(job.strategy))
    return mill


def _tables(data: Data, rows: Mapping[str, list[Piece]]) -> dict[str, pa.Table]:
    """The rows that are there, without copying them."""
    return {
        table: pa.Table.from_batches(
            [data[table].slice(piece.start, piece.rows) for piece in pieces], schema=data[table].schema
        )
        for table, pieces in rows.items()
    }


def _finished(job: Job, cell: Cell, mill: Mill, timing: Timing, load: float, tables: dict[str, pa.Table]) -> Cell:
    start = time.perf_counter()
    view = mill.view(job.query.name).to_arrow()
    read = time.perf_counter() - start
    wrong = disagreement(job.query, view, tables)
    status = mill.status()
    p50, p99 = timing.percentiles
    return replace(
        cell,
        status="wrong" if wrong else "ok",
        note=wrong,
        batches=len(timing.times),
        rows=timing.rows,
        seconds=timing.seconds,
        p50=p50,
        p99=p99,
        load=load,
        read=read,
        state=state_bytes(status),
        relations=timing.relations,
        maintenance={line.relation: line.how for line in status.view(job.query.name).maintenance},
    )


def state_bytes(status: Status) -> int | None:
    """The bytes of all stores, where the engine accounts for them."""
    sizes = [getattr(store, "bytes", None) for store in status.stores]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
