"""The report of a run: tables on the terminal; Markdown, JSON and pictures in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from viewmill.bench import tables
from viewmill.bench.results import Run, Size, write
from viewmill.bench.tables import Grid

METHOD = """\
Every cell is a query, a way of maintenance, a batch size and a phase. In the insert-only phase, the tables that the
query reads are interleaved in proportion to their sizes (Hot Dog, section 6); the first half of the stream is loaded in
large batches, more is streamed in batches of the measured size until it ends or time is up. In the second phase
all rows are there, and batches delete rows at random places and put others back. Batches are Arrow record batches in
memory, of one table each; `single` is one row as a Python tuple. What is timed is the call, from the caller's data to
the committed view, after warming up. At the end of each cell the view is compared with DuckDB's answer over the same
rows, as a multiset; a cell that differs is WRONG. `-` means too few rows for the batch size, `slow` that the state or
a batch took longer than the limit, `large` that it took more than four fifths of the machine's memory, `refused` that
the query cannot be maintained this way."""


def main_strategy(run: Run) -> str:
    return "auto" if "auto" in run.strategies or not run.strategies else run.strategies[0]


def show(run: Run, console: Console) -> None:
    """What fits on a terminal."""
    for grid in _on_terminal(run):
        console.print(grid)
        console.print()
    for line in (*tables.problems(run), *_disturbance(run)):
        console.print(line, style="red", markup=False, highlight=False)


def save(run: Run, folder: Path, name: str) -> list[Path]:
    """Write everything; the files."""
    from viewmill.bench import plots  # here, so that matplotlib is only needed where something is drawn

    write(run, folder / f"{name}.json")
    pictures = plots.draw(run, folder, name)
    (folder / f"{name}.md").write_text(markdown(run, pictures))
    return [folder / f"{name}.json", folder / f"{name}.md", *pictures]


def markdown(run: Run, pictures: list[Path]) -> str:
    title = f"TPC-H at scale factor {run.scale:g}" if run.cells else "VWAP over an order book"
    place = run.place
    parts = [
        f"# {title}",
        "",
        f"Commit {place.commit}, {place.date}. Machine: {place.machine}. {place.versions}.",
        "",
    ]
    parts += [f"**{line}**\n" for line in _disturbance(run)]
    if run.cells:
        parts += [METHOD, "", f"Measured time per cell: {run.seconds:g} s.", ""]
    parts += [f"![{picture.stem}]({picture.name})\n" for picture in pictures if picture.suffix == ".png"]
    parts += [grid.markdown() for grid in _in_markdown(run) if grid.rows]
    found = list(tables.problems(run))
    if found:
        parts += ["### Cells without a figure", "", *(f"- {line}" for line in found), ""]
    return "\n".join(parts)


def _disturbance(run: Run) -> Iterator[str]:
    if run.place.disturbed:
        yield f"The machine was busy before the run (load {run.place.load:g}): the figures are not to be trusted."


def _usual(run: Run) -> Size:
    """The batch size that is shown in detail."""
    return "1000" if "1000" in run.sizes else run.sizes[-1]


def _on_terminal(run: Run) -> Iterator[Grid]:
    main = main_strategy(run)
    if run.cells:
        for strategy in run.strategies:
            yield tables.throughput(run, strategy, "inserts")
            yield tables.throughput(run, strategy, "changes")
        yield tables.batch_costs(run, main, _usual(run))
    if run.first_uses:
        yield tables.first_uses(run)
    if run.books:
        yield tables.books(run)
    yield tables.target_grid(run, main)


def _in_markdown(run: Run) -> Iterator[Grid]:
    main = main_strategy(run)
    yield tables.target_grid(run, main)
    if run.cells:
        for strategy in run.strategies:
            yield tables.throughput(run, strategy, "inserts")
        for strategy in run.strategies:
            yield tables.throughput(run, strategy, "changes")
        yield tables.rows_of_reevaluation(run)
        if run.baselines:
            for strategy in run.strategies:
                yield tables.ratios(run, strategy)
        yield tables.batch_costs(run, main, _usual(run))
        yield tables.single_rows(run, main)
        yield tables.latencies(run, main, "inserts")
        yield tables.latencies(run, main, "changes")
        yield tables.maintained(run)
    yield tables.first_uses(run)
    if run.books:
        yield tables.books(run)
