"""What the embedded engine is asked to reach at scale factor 1 on a 2-core machine, and whether it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viewmill.bench.figures import times
from viewmill.bench.reference import DBTOASTER, SIZE, UNFINISHED, asked
from viewmill.bench.results import Book, Cell, Phase, Run, Size, faster, geometric_mean, growth

SCALE = 1.0
SINGLE_ROW_QUERIES = ("q01", "q03", "q06", "q12", "q14")
MEDIAN, P99 = 5e-6, 50e-6
COLD, WARM = 3.0, 0.3
GROWTH = 1.5
BOOK = 100_000


@dataclass(frozen=True, slots=True)
class Target:
    """`met` is None where nothing was measured."""

    what: str
    asked: str
    found: str
    met: bool | None


def targets(run: Run, strategy: str) -> tuple[Target, ...]:
    """All of them, for the queries that the run has."""
    return (*_duckdb(run, strategy), *_dbtoaster(run, strategy), *_single(run, strategy), *_others(run, strategy))


def _duckdb(run: Run, strategy: str) -> Iterator[Target]:
    ratios = {q: ratio for q in run.queries if (ratio := faster(run, _cell(run, q, strategy, "changes", "1000")))}
    if not ratios:
        return
    mean = geometric_mean(ratios.values())
    tens = sum(ratio >= 10 for ratio in ratios.values())
    least = min(ratios, key=lambda query: ratios[query])
    lost = len(run.queries) - len(ratios)
    what = "1,000-row batches against DuckDB"
    yield Target(f"{what}, geometric mean", "100x", times(mean), mean >= 100 and not lost)
    yield Target(f"{what}, queries with 10x", _share(20, run), f"{tens}", tens >= _share_of(20, run))
    yield Target(f"{what}, least", "1x", f"{times(ratios[least])} ({least})", ratios[least] >= 1 and not lost)


def _dbtoaster(run: Run, strategy: str) -> Iterator[Target]:
    cells = {q: cell for q in run.queries if (cell := _cell(run, q, strategy, "inserts", SIZE))}
    if not cells:
        return
    reached = [query for query, cell in cells.items() if _reaches(cell)]
    met = len(reached) >= _share_of(16, run)
    yield Target("10,000-row batches, queries as fast as DBToaster's C++", _share(16, run), f"{len(reached)}", met)


def _reaches(cell: Cell) -> bool:
    wanted = asked(cell.query)
    known = cell.query in DBTOASTER or cell.query in UNFINISHED
    return cell.measured and known and (wanted is None or cell.throughput >= wanted)


def _single(run: Run, strategy: str) -> Iterator[Target]:
    cells = [c for q in SINGLE_ROW_QUERIES if (c := _cell(run, q, strategy, "inserts", "single")) and c.measured]
    if not cells:
        return
    slow, rare = max(cells, key=lambda cell: cell.p50), max(cells, key=lambda cell: cell.p99)
    what = f"single rows, {', '.join(cell.query for cell in cells)}"
    yield Target(f"{what}, median", "5 µs", f"{slow.p50 * 1e6:.1f} µs ({slow.query})", slow.p50 <= MEDIAN)
    yield Target(f"{what}, p99", "50 µs", f"{rare.p99 * 1e6:.1f} µs ({rare.query})", rare.p99 <= P99)


def _others(run: Run, strategy: str) -> Iterator[Target]:
    grown = {query: ratio for query in run.queries if (ratio := growth(run, query, strategy))}
    if grown:
        flat = sum(ratio <= GROWTH for ratio in grown.values())
        what = f"queries whose cost grows at most {GROWTH}x from a tenth of the data"
        yield Target(what, _share(18, run), f"{flat}", flat >= _share_of(18, run))
    if uses := [use for use in run.first_uses if not use.note]:
        cold, warm = max(uses, key=lambda use: use.cold), max(uses, key=lambda use: use.warm)
        every = len(uses) == len(run.first_uses)
        yield Target("first use, cold", "3 s", f"{cold.cold:.2f} s ({cold.query})", every and cold.cold <= COLD)
        yield Target("first use, warm", "0.3 s", f"{warm.warm:.2f} s ({warm.query})", every and warm.warm <= WARM)
    if run.books:
        yield _book(run.books)


def _book(books: tuple[Book, ...]) -> Target:
    what, asked_for = f"VWAP over {books[0].orders:,} orders", f"{BOOK:,} updates/s"
    measured = [book for book in books if book.measured]
    if not measured:
        return Target(what, asked_for, "no answer", False)
    best = max(measured, key=lambda book: book.throughput)
    found = f"{best.throughput:,.0f} updates/s (size {best.size})"
    return Target(what, asked_for, found, best.throughput >= BOOK)


def _cell(run: Run, query: str, strategy: str, phase: Phase, size: Size) -> Cell | None:
    return run.cell(query, strategy, phase, size)


def _share_of(count: int, run: Run) -> float:
    """So many of the 22, as a share of the queries that were run."""
    return count * len(run.queries) / 22


def _share(count: int, run: Run) -> str:
    return f"{count} of 22" if len(run.queries) == 22 else f"{_share_of(count, run):.1f} of {len(run.queries)}"
