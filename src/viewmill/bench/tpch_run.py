"""The whole TPC-H benchmark: DuckDB, first use, every cell of the main strategy with growth, and the other strategies.

Nothing runs beside it. What matters most comes first, so that a run that is ended early has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, assert_never

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from viewmill.bench.baseline import DuckBaseline
from viewmill.bench.data import ensure, load
from viewmill.bench.measure import GROWTH, Job, Loading, Measuring
from viewmill.bench.place import here
from viewmill.bench.queries import Query
from viewmill.bench.results import Cell, Phase, Run, Size
from viewmill.bench.startup import first_use
from viewmill.bench.worker import work


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. `seconds` is the time measured per cell, `limit` how long loading its state may take."""

    queries: tuple[Query, ...]
    strategies: tuple[str, ...]
    sizes: tuple[Size, ...]
    scale: float
    seconds: float
    limit: float
    baseline: bool
    first_use: bool
    growth: bool
    threads: int
    folder: Path

    @property
    def steps(self) -> int:
        queries = len(self.queries)
        cells = queries * len(self.strategies) * len(self.sizes) * 2
        return cells + queries * (self.baseline + self.first_use + (self.growth and GROWTH in self.sizes))

    @property
    def main(self) -> str:
        """The strategy of which everything is shown."""
        return "auto" if "auto" in self.strategies else self.strategies[0]


class Watch(Protocol):
    """Whoever looks on."""

    def at(self, text: str) -> None:
        """Work begins on this."""

    def step(self) -> None:
        """One of the plan's steps is done."""


class Benchmark:
    """A plan being carried out. `run` is what was found so far; `keep` gets it after every query."""

    def __init__(self, plan: Plan, watch: Watch, keep: Callable[[Run], None]) -> None:
        self.plan = plan
        self.run = Run(here(), plan.scale, plan.seconds)
        self.done = False
        self._watch = watch
        self._keep = keep

    def carry_out(self) -> None:
        plan = self.plan
        self._watch.at(f"data at scale {plan.scale:g}")
        folder = ensure(plan.scale, plan.folder)
        if plan.baseline:
            self._measure_duckdb(folder)
        if plan.first_use:
            self._measure_first_use(folder)
        wanted: list[tuple[Phase, Size]] = [("inserts", size) for size in plan.sizes]
        wanted += [("changes", size) for size in plan.sizes]
        self._measure_strategy(plan.main, folder, wanted, self._tenth() if plan.growth else None)
        for strategy in plan.strategies:
            if strategy != plan.main:
                self._measure_strategy(strategy, folder, wanted)
        self.done = True

    def _measure_strategy(
        self, strategy: str, folder: Path, wanted: list[tuple[Phase, Size]], tenth: Path | None = None
    ) -> None:
        plan = self.plan
        for query in plan.queries:
            job = Job(query, strategy, plan.scale, folder, tuple(wanted), plan.seconds, plan.limit, tenth)
            self._measure_cells(job)
            self._keep(self.run)

    def _measure_duckdb(self, folder: Path) -> None:
        self._watch.at("DuckDB: loading tables")
        duckdb = DuckBaseline(load(folder), self.plan.threads)
        self.run = replace(self.run, threads=duckdb.threads)
        for query in self.plan.queries:
            self._watch.at(f"{query.name} DuckDB")
            found = duckdb.measure(query, self.plan.sizes)
            self.run = replace(self.run, baselines=(*self.run.baselines, found))
            self._watch.step()

    def _measure_first_use(self, folder: Path) -> None:
        limit = 2 * self.plan.limit
        # What is compiled once for all queries is compiled here.
        first_use(self.plan.queries[0], self.plan.main, folder, limit)
        for query in self.plan.queries:
            self._watch.at(f"{query.name} first use")
            found = first_use(query, self.plan.main, folder, limit)
            self.run = replace(self.run, first_uses=(*self.run.first_uses, found))
            self._watch.step()

    def _tenth(self) -> Path:
        scale = self.plan.scale / 10
        self._watch.at(f"data at scale {scale:g}")
        return ensure(scale, self.plan.folder)

    def _measure_cells(self, job: Job) -> None:
        for news in work(job):
            match news:
                case Loading(phase, size):
                    self._watch.at(f"{job.query.name} {job.strategy} {phase} {size}, loading")
                case Measuring(phase, size):
                    self._watch.at(f"{job.query.name} {job.strategy} {phase} {size}")
                case Cell():
                    self.run = replace(self.run, cells=(*self.run.cells, news))
                    self._watch.step()
                case _:
                    assert_never(news)


class _Bar:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def at(self, text: str) -> None:
        self._progress.update(self._task, description=text)

    def step(self) -> None:
        self._progress.advance(self._task)


@contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Watch]:
    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress, total)
