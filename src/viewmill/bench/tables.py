"""What a run found, as tables: the same ones for the terminal and for Markdown.

The throughput tables have the form of Hot Dog's Table 1: a line per query, a column per batch size, rows per second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from viewmill.bench.figures import NOTHING, duration, number, size_name, times
from viewmill.bench.reference import DBTOASTER, UNFINISHED
from viewmill.bench.reference import SIZE as DBTOASTER_SIZE
from viewmill.bench.results import Book, Cell, Phase, Run, Size, faster, geometric_mean, growth, rows_in
from viewmill.bench.targets import targets


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. The first column is words, the others are numbers unless `words` says so."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    words: bool = False

    def __rich__(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title_justify="left")
        table.title, table.caption, table.caption_justify = self.title, self.note, "left"
        for place, name in enumerate(self.header):
            number = not self.words and place > 0
            table.add_column(name, justify="right" if number else "left", no_wrap=number)
        for row in self.rows:
            table.add_row(*(Text(value, style=_style(value)) for value in row))
        return table

    def markdown(self) -> str:
        rule = " | ".join("---" if self.words or not place else "---:" for place in range(len(self.header)))
        lines = [f"### {self.title}", "", f"| {' | '.join(self.header)} |", f"| {rule} |"]
        lines += [f"| {' | '.join(value.replace('|', chr(92) + '|') for value in row)} |" for row in self.rows]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])


def outcome(cell: Cell | Book | None) -> str:
    """The throughput, or why there is none."""
    if cell is None:
        return NOTHING
    match cell.status:
        case "ok":
            return number(cell.throughput)
        case "wrong" | "failed":
            return cell.status.upper()
        case "small":
            return NOTHING
        case _:
            return cell.status


def throughput(run: Run, strategy: str, phase: Phase) -> Grid:
    what = {"inserts": "insert-only stream", "changes": "inserts and deletes at full size"}[phase]
    header = ("query", *map(size_name, run.sizes))
    rows = [[query, *(outcome(run.cell(query, strategy, phase, s)) for s in run.sizes)] for query in run.queries]
    # The figures of DBToaster are of the insert-only stream, those of DuckDB of full size.
    if phase == "inserts":
        header += ("DBToaster", "ratio")
        for row in rows:
            row += _against_dbtoaster(run, row[0], strategy)
    else:
        header += ("DuckDB", "ratio")
        for row in rows:
            row += _against_duckdb(run, row[0], strategy)
    return Grid(f"Rows/s, {strategy}, {what}", header, tuple(map(tuple, rows)), _THROUGHPUT_NOTES[phase])


_THROUGHPUT_NOTES: dict[Phase, str] = {
    "inserts": f"DBToaster: its generated C++ at scale factor 1, batches of {int(DBTOASTER_SIZE):,}; "
    f"the ratio compares ours at that size.",
    "changes": "DuckDB: one evaluation of the query per batch of 1,000 rows; the ratio compares ours at that size.",
}


def _against_dbtoaster(run: Run, query: str, strategy: str) -> list[str]:
    cell = run.cell(query, strategy, "inserts", DBTOASTER_SIZE)
    if (figure := DBTOASTER.get(query)) is None:
        return ["unfinished" if query in UNFINISHED else NOTHING, NOTHING]
    return [number(figure), times(cell.throughput / figure if cell and cell.measured else None)]


def _against_duckdb(run: Run, query: str, strategy: str) -> list[str]:
    baseline, cell = run.baseline(query), run.cell(query, strategy, "changes", "1000")
    return [number(1000 / baseline.refresh if baseline else None), times(faster(run, cell))]


def ratios(run: Run, strategy: str) -> Grid:
    """How many times faster than evaluating anew, for every batch size."""
    found = {(q, s): faster(run, run.cell(q, strategy, "changes", s)) for q in run.queries for s in run.sizes}
    rows = [(query, *(times(found[query, size]) for size in run.sizes)) for query in run.queries]
    means = [geometric_mean(ratio for query in run.queries if (ratio := found[query, size])) for size in run.sizes]
    rows.append(("mean", *map(times, means)))
    title = f"Times faster than DuckDB evaluating anew after every batch, {strategy}, inserts and deletes at full size"
    note = "The time to apply a batch to DuckDB's tables is not counted. The mean is geometric."
    return Grid(title, ("query", *map(size_name, run.sizes)), tuple(rows), note)


def batch_costs(run: Run, strategy: str, size: Size) -> Grid:
    """One batch size in detail."""
    header = ("query", "mean", "p50", "p99", "read", "state", "growth", "DuckDB", "apply")
    rows = []
    for query in run.queries:
        cell, baseline = run.cell(query, strategy, "changes", size), run.baseline(query)
        rows.append(
            (
                query,
                *_latencies(cell),
                number(cell.state) if cell and cell.state is not None else NOTHING,
                times(growth(run, query, strategy)),
                duration(baseline.refresh if baseline else None),
                duration(baseline.apply.get(size) if baseline else None),
            )
        )
    small = f" Growth: against scale {run.small_scale:g}." if run.small_scale else ""
    note = (
        "Mean, p50, p99: time of a batch. Read: the whole view as Arrow. State: bytes of all stores."
        f"{small} DuckDB: the query anew. Apply: a batch on its largest table in DuckDB."
    )
    title = f"Batches of {size_name(size)}, {strategy}, inserts and deletes at full size"
    return Grid(title, header, tuple(rows), note)


def _latencies(cell: Cell | None) -> tuple[str, ...]:
    if cell is None or not cell.measured:
        return (outcome(cell), NOTHING, NOTHING, NOTHING)
    return tuple(map(duration, (cell.per_batch, cell.p50, cell.p99, cell.read)))


def latencies(run: Run, strategy: str, phase: Phase) -> Grid:
    """The median and the 99th percentile of every batch size."""

    def both(cell: Cell | None) -> str:
        return f"{duration(cell.p50)} / {duration(cell.p99)}" if cell and cell.measured else outcome(cell)

    rows = ((query, *(both(run.cell(query, strategy, phase, size)) for size in run.sizes)) for query in run.queries)
    title = f"Latency of a batch, p50 / p99, {strategy}, {phase}"
    return Grid(title, ("query", *map(size_name, run.sizes)), tuple(rows))


def single_rows(run: Run, strategy: str) -> Grid:
    """From the call with one tuple to the committed view."""
    rows = []
    for query in run.queries:
        cells = (run.cell(query, strategy, "inserts", "single"), run.cell(query, strategy, "changes", "single"))
        values = ((duration(c.p50), duration(c.p99)) if c and c.measured else (outcome(c), NOTHING) for c in cells)
        rows.append((query, *(value for pair in values for value in pair)))
    header = ("query", "insert p50", "insert p99", "change p50", "change p99")
    return Grid(f"Single rows, from the Python call to the committed view, {strategy}", header, tuple(rows))


def first_uses(run: Run) -> Grid:
    rows = tuple(
        (use.query, NOTHING, NOTHING, use.note) if use.note else (use.query, duration(use.cold), duration(use.warm), "")
        for use in run.first_uses
    )
    return Grid("First use: CREATE and the first batch in a new process", ("query", "cold", "warm", ""), rows)


def maintained(run: Run) -> Grid:
    """What `auto` chose."""
    rows = []
    for query in run.queries:
        cell = next((c for c in run.cells if c.query == query and c.strategy == "auto" and c.maintenance), None)
        if cell:
            kinds: dict[str, list[str]] = {}
            for relation, how in cell.maintenance.items():
                kinds.setdefault(how, []).append(relation)
            rows.append((query, "; ".join(f"{how}: {', '.join(names)}" for how, names in kinds.items())))
    return Grid("How auto maintains each relation's changes", ("query", "maintenance"), tuple(rows), words=True)


def books(run: Run) -> Grid:
    rows = tuple(
        (size_name(book.size), outcome(book), duration(book.p50), duration(book.p99), f"{book.updates:,}")
        if book.measured
        else (size_name(book.size), outcome(book), NOTHING, NOTHING, NOTHING)
        for book in run.books
    )
    orders = run.books[0].orders if run.books else 0
    return Grid(f"VWAP over a book of {orders:,} orders", ("batch", "updates/s", "p50", "p99", "updates"), rows)


def target_grid(run: Run, strategy: str) -> Grid:
    words = {True: "yes", False: "NO", None: NOTHING}
    rows = tuple((target.what, target.asked, target.found, words[target.met]) for target in targets(run, strategy))
    note = "" if run.scale == 1 or not run.cells else f"The targets are for scale factor 1; this is {run.scale:g}."
    return Grid("Targets", ("what", "asked", "found", "met"), rows, note, words=True)


def problems(run: Run) -> Iterator[str]:
    """A line for each cell that has no figure, with the reason; cells that fail alike share one."""
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for cell in run.cells:
        if cell.status not in ("ok", "small"):
            key = (cell.query, cell.strategy, cell.status, cell.note)
            alike.setdefault(key, []).append(f"{cell.phase} {size_name(cell.size)}")
    for (query, strategy, status, note), where in alike.items():
        yield f"{query} {strategy} {_shortened(where)}: {status}: {note}"
    for book in run.books:
        if book.status not in ("ok", "small"):
            yield f"VWAP {size_name(book.size)}: {book.status}: {book.note}"


def _shortened(where: Sequence[str]) -> str:
    return ", ".join(where) if len(where) < 5 else f"{where[0]} and {len(where) - 1} more"


def _style(value: str) -> str:
    return "bold red" if value in ("WRONG", "FAILED", "NO") else ""


def rows_of_reevaluation(run: Run) -> Grid:
    """Table 1's first block: rows per second if every batch is followed by an evaluation."""
    sizes = [size for size in run.sizes if size != "single"]
    rows = tuple(
        (baseline.query, *(number(rows_in(size) / baseline.refresh) for size in sizes), duration(baseline.refresh))
        for baseline in run.baselines
    )
    note = f"On {run.threads} threads. Refresh: the time of one evaluation, the same for all sizes."
    return Grid("Rows/s, DuckDB re-evaluation", ("query", *map(size_name, sizes), "refresh"), rows, note)
