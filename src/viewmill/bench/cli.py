"""`viewmill bench`: what is measured is in the other modules; here is what can be asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from viewmill.bench.data import default_folder
from viewmill.bench.queries import Query, chosen_queries
from viewmill.bench.results import SIZES, STRATEGIES, Run, Size, read, write
from viewmill.errors import BindError, UnsupportedError, ViewmillError
from viewmill.options import MAINTAIN
from viewmill.wording import nearest

if TYPE_CHECKING:
    from viewmill.bench.spark_run import SparkRun

app = typer.Typer(help="Measure, and verify every answer that is measured.", no_args_is_help=True)
console = Console()
errors = Console(stderr=True)

RESULTS = Path("benchmarks/results")
ALL_SIZES = ",".join(SIZES)
BOOK, BOOK_SIZES = 1_000_000, "single,1,10,100,1000,10000"


@dataclass(frozen=True, slots=True)
class Preset:
    """What holds where the command line does not say otherwise."""

    name: str
    scale: float
    strategies: str
    seconds: float
    limit: float
    growth: bool


FULL = Preset("tpch-sf{scale:g}", 1.0, ",".join(STRATEGIES), 5.0, 60.0, True)
QUICK = Preset("tpch-quick", 0.01, "auto", 0.5, 10.0, False)

Output = Annotated[Path | None, typer.Option(help="Where Markdown, JSON and pictures go.", file_okay=False)]
Sizes = Annotated[str, typer.Option(help="Rows in a batch; `single` is one row as a tuple.")]

_NOT_WRITTEN = "what is measured is shown, and not written: --output says where"


@app.command()
def tpch(
    quick: Annotated[bool, typer.Option("--quick", help="Scale 0.01, auto only, 0.5 s a cell: minutes.")] = False,
    scale: Annotated[float | None, typer.Option(help="Scale factor: 1 is 8.7 million rows.", min=0.001)] = None,
    queries: Annotated[str, typer.Option(help="Such as q01,q17; all if empty.")] = "",
    strategies: Annotated[str | None, typer.Option(help="Ways of maintenance, such as auto,recursive.")] = None,
    sizes: Sizes = ALL_SIZES,
    seconds: Annotated[float | None, typer.Option(help="Measured time of a cell.", min=0.01)] = None,
    limit: Annotated[float | None, typer.Option(help="Seconds that loading a state may take.", min=1)] = None,
    baseline: Annotated[bool, typer.Option(help="Measure DuckDB, too.")] = True,
    first_use: Annotated[bool, typer.Option(help="Measure CREATE and the first batch in new processes.")] = True,
    growth: Annotated[bool | None, typer.Option(help="Measure a tenth of the scale, too.")] = None,
    threads: Annotated[int, typer.Option(help="Threads for DuckDB; 0 for all cores.", min=0)] = 0,
    data: Annotated[Path | None, typer.Option(help="Where generated data is kept.", file_okay=False)] = None,
    output: Output = None,
) -> None:
    """The 22 TPC-H queries: throughput, latency, state and growth, against DuckDB and DBToaster.

    Everything takes a few hours; with --quick, about five minutes. Results of a whole run are written to
    benchmarks/results, those of a part only where --output says; a run that ends early leaves a file .partial.json
    there, which `draw` reads. Ends with 1 if any answer is wrong.
    """
    with _reported():
        from viewmill.bench.tpch_run import Benchmark, Plan, progress_bar

        preset = QUICK if quick else FULL
        scale = preset.scale if scale is None else scale
        plan = Plan(
            queries=tuple(chosen_queries(queries)),
            strategies=_chosen(strategies or preset.strategies, MAINTAIN, "way of maintenance"),
            sizes=_sizes(sizes),
            scale=scale,
            seconds=preset.seconds if seconds is None else seconds,
            limit=preset.limit if limit is None else limit,
            baseline=baseline,
            first_use=first_use,
            growth=preset.growth if growth is None else growth,
            threads=threads,
            folder=data or default_folder(),
        )
        whole = not queries and strategies is None and sizes == ALL_SIZES and baseline and first_use
        folder = output or (RESULTS if whole else None)
        name = preset.name.format(scale=scale)
        partial = folder / f"{name}.partial.json" if folder else None
        if folder is None:
            console.print(_NOT_WRITTEN, highlight=False)
        with progress_bar(console, plan.steps) as watch:
            benchmark = Benchmark(plan, watch, lambda run: write(run, partial) if partial else None)
            with suppress(KeyboardInterrupt):
                benchmark.carry_out()
        if not benchmark.done:
            errors.print("interrupted; this is what was measured")
            _present(benchmark.run, None, name)
            raise typer.Exit(130)
        _present(benchmark.run, folder, name)
        if partial:
            partial.unlink(missing_ok=True)
        _fail_if_wrong(benchmark.run)


@app.command()
def spark(
    scale: Annotated[float, typer.Option(help="Scale factor.", min=0.001)] = 1.0,
    together: Annotated[str, typer.Option(help="Queries that share a mill: all, none, or such as q01,q17.")] = "all",
    alone: Annotated[str, typer.Option(help="Queries that have a mill of their own: as above.")] = "q03,q06,q07,q17",
    passes: Annotated[
        bool, typer.Option(help="Measure one of these, q03 if it is there, with some optimisations only, too.")
    ] = True,
    share: Annotated[float, typer.Option(help="Share of the orders that a batch changes.", min=0.0001, max=0.5)] = 0.01,
    batches: Annotated[int, typer.Option(help="How many are measured.", min=1)] = 7,
    buckets: Annotated[int, typer.Option(help="Buckets, and cores that Spark uses.", min=1)] = 2,
    memory: Annotated[str, typer.Option(help="Of Spark's JVM.")] = "8g",
    data: Annotated[Path | None, typer.Option(help="Where generated data is kept.", file_okay=False)] = None,
    output: Output = None,
) -> None:
    """Refreshing views on Spark against computing them anew with Spark SQL; ends with 1 if any view is wrong."""
    with _reported():
        from viewmill.bench.spark_run import SparkBenchmark, SparkPlan
        from viewmill.bench.tpch_run import progress_bar

        folder = data or default_folder()
        some = [_some_queries(names) for names in (together, alone)]
        plan = SparkPlan(some[0], some[1], scale, share, batches, buckets, folder, memory, passes)
        if output is None:
            console.print(_NOT_WRITTEN, highlight=False)
        with progress_bar(console, plan.steps) as watch:
            run = SparkBenchmark(plan, watch).run()
        _present_spark(run, output, f"spark-sf{scale:g}")
        if run.wrong:
            raise typer.Exit(1)


def _present_spark(run: SparkRun, folder: Path | None, name: str) -> None:
    from viewmill.bench.spark_report import grids, save

    for grid in grids(run):
        console.print(grid)
    for query, why in run.wrong.items():
        console.print(f"{query} is wrong: {why}", style="red", markup=False, highlight=False)
    if folder is not None:
        _tell_written(save(run, folder, name), folder)


def _some_queries(names: str) -> tuple[Query, ...]:
    return () if names == "none" else tuple(chosen_queries("" if names == "all" else names))


@app.command()
def vwap(
    orders: Annotated[int, typer.Option(help="Orders in the book.", min=100)] = BOOK,
    strategy: Annotated[str, typer.Option(help="The way of maintenance.")] = "auto",
    sizes: Sizes = BOOK_SIZES,
    seconds: Annotated[float, typer.Option(help="Measured time of a batch size.", min=0.01)] = 5.0,
    limit: Annotated[float, typer.Option(help="Seconds that loading the book, or a batch, may take.", min=1)] = 60.0,
    output: Output = None,
) -> None:
    """The volume-weighted price of a large order book that every change moves."""
    with _reported():
        from viewmill.bench.tpch_run import progress_bar
        from viewmill.bench.vwap import run_vwap

        chosen = _sizes(sizes)
        (way,) = _chosen(strategy, MAINTAIN, "way of maintenance")[:1]
        with progress_bar(console, 1 + len(chosen)) as watch:
            run = run_vwap(orders, chosen, way, seconds, limit, watch)
        whole = (orders, strategy, sizes) == (BOOK, "auto", BOOK_SIZES)
        _present(run, output or (RESULTS if whole else None), "vwap")
        _fail_if_wrong(run)


@app.command()
def soak(
    changes: Annotated[int, typer.Option(help="Single-row changes.", min=1)] = 1_000_000,
    checks: Annotated[int, typer.Option(help="How often the views are compared with DuckDB.", min=1)] = 20,
    strategy: Annotated[str, typer.Option(help="The way of maintenance.")] = "auto",
    seed: Annotated[int, typer.Option(help="Another seed, other changes.")] = 1,
) -> None:
    """Random single-row changes under five views; they must equal DuckDB's answers throughout."""
    with _reported():
        from viewmill.bench.soak import soak as soaked
        from viewmill.bench.tpch_run import progress_bar

        with progress_bar(console, checks) as watch:
            found = soaked(changes, checks, watch, seed=seed, strategy=strategy)
        if found.wrong:
            errors.print(f"WRONG {found.wrong}", markup=False, highlight=False)
            raise typer.Exit(1)
        rate = found.changes / found.seconds
        console.print(
            f"{found.changes:,} changes under five views: right at all {found.checks} checks, {rate:,.0f} changes/s",
            highlight=False,
        )


@app.command()
def draw(
    results: Annotated[list[Path], typer.Argument(help="JSON files of runs.", exists=True, dir_okay=False)],
    output: Output = None,
) -> None:
    """Draw tables and pictures again from stored results."""
    with _reported():
        runs = {file: _spark_run(file) or read(file) for file in results}
        for file, run in runs.items():
            if isinstance(run, Run):
                _present(run, output or file.parent, file.stem)
            else:
                _present_spark(run, output or file.parent, file.stem)
        if any(any(run.wrong()) if isinstance(run, Run) else run.wrong for run in runs.values()):
            raise typer.Exit(1)


def _spark_run(file: Path) -> SparkRun | None:
    """Other results are drawn without Spark."""
    with suppress(OSError):  # `read` tells it
        if b'"refreshes"' in file.read_bytes():
            from viewmill.bench import spark_report

            return spark_report.read(file)
    return None


def _present(run: Run, folder: Path | None, name: str) -> None:
    """Show a run, and store it where that is wanted."""
    from viewmill.bench.report import save, show

    show(run, console)
    if folder is not None:
        _tell_written(save(run, folder, name), folder)


def _tell_written(files: Sequence[Path], folder: Path) -> None:
    console.print(f"written to {', '.join(file.name for file in files)} in {folder}", highlight=False)


def _fail_if_wrong(run: Run) -> None:
    if any(run.wrong()):
        raise typer.Exit(1)


@contextmanager
def _reported() -> Iterator[None]:
    """Errors of ours are messages, and what is not installed is named."""
    try:
        missing = [name for name in ("duckdb", "matplotlib") if find_spec(name) is None]
        if missing:
            raise UnsupportedError(f"the benchmark needs {' and '.join(missing)}", hint="pip install 'viewmill[bench]'")
        yield
    except ViewmillError as error:
        errors.print(f"{type(error).__name__}: {error}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


def _sizes(text: str) -> tuple[Size, ...]:
    sizes = tuple(size.strip().replace("_", "") for size in text.split(",") if size.strip())
    for size in sizes:
        if size != "single" and not (size.isdigit() and int(size)):
            raise BindError(f"{size!r} is no batch size", hint=f"use numbers or single, such as {ALL_SIZES}")
    return sizes


def _chosen(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            raise BindError(f"there is no {what} {name!r}", hint=nearest(name, known, "use one of"))
    return names
