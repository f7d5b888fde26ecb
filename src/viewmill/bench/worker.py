"""Jobs in processes of their own: nothing of one query's state is left for the next, and what hangs is ended.

A process must have compiled its query and taken a first batch within the limit and a minute. A cell must have its state
loaded within the limit, and must then be done within the measured time and the limit again: one batch can take
arbitrarily long, and only the end of its process can stop it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Literal, assert_never

from viewmill.bench.data import load
from viewmill.bench.measure import Job, Loading, Measuring, News, measure
from viewmill.bench.process import SHARE, Spawned, TooLarge, spawned
from viewmill.bench.results import Cell, Status

_STARTING = 60.0
"""Seconds more than the limit that a process may take before its first news: it imports, and reads the data."""

_HANGING = {
    "starting": "a first batch was not done",
    "loading": "state was not loaded",
    "measuring": "a batch was not done",
}


def work(job: Job) -> Iterator[News]:
    """The news of a job, whatever becomes of the processes that do it."""
    while job.wanted:
        watched = _Watched(job)
        yield from watched.news()
        job = replace(job, wanted=job.wanted[watched.done :])


@dataclass(slots=True)
class _Watched:
    """One process, until it has done everything or is ended. `done` counts the cells that it settled."""

    job: Job
    done: int = 0
    at: Literal["starting", "loading", "measuring"] = "starting"

    def news(self) -> Iterator[News]:
        with spawned(_serve, self.job) as process:
            yield from self._follow(process)

    def _follow(self, process: Spawned) -> Iterator[News]:
        patience = _STARTING + self.job.limit
        while self.done < len(self.job.wanted):
            try:
                if not process.poll(patience):
                    yield from self._give_up("slow", f"{_HANGING[self.at]} in {patience:g} s")
                    return
                news: News = process.recv()
            except TooLarge:
                yield from self._give_up("large", f"{_HANGING[self.at]} in {SHARE:.0%} of the memory")
                return
            except EOFError:
                yield self._settle(replace(self._cell(0), status="failed", note="the process died"))
                return
            match news:
                case Loading():
                    self.at, patience = "loading", 3 * self.job.limit
                case Measuring():
                    self.at, patience = "measuring", 4 * self.job.seconds + self.job.limit
                case Cell():
                    if news.scale == self.job.scale:
                        self._settle(news)
                case _:
                    assert_never(news)
            yield news

    def _give_up(self, status: Status, note: str) -> Iterator[Cell]:
        """The cell that cannot be had; where it is loading, all of its phase, and where it starts, all there are."""
        phase = self._cell(0).phase
        while True:
            yield self._settle(replace(self._cell(0), status=status, note=note))
            if self.done == len(self.job.wanted) or self.at == "measuring":
                return
            if self.at == "loading" and self._cell(0).phase != phase:
                return

    def _cell(self, ahead: int) -> Cell:
        return self.job.cell(*self.job.wanted[self.done + ahead])

    def _settle(self, cell: Cell) -> Cell:
        self.done += 1
        return cell


def _serve(job: Job, connection: Connection) -> None:
    """In the new process. If nobody listens any more, it ends."""
    with suppress(BrokenPipeError), connection:
        reads = job.query.reads
        for news in measure(job, load(job.folder, reads), load(job.tenth, reads) if job.tenth else None):
            connection.send(news)
