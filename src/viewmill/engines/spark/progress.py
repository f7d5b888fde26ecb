"""A bar that shows how far a long job of Spark is: its tasks, from Spark's own status API.

It is drawn on standard error, if that is a terminal, and only if the job takes longer than a moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from pyspark import SparkContext
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from viewmill.engines.spark.jobs import grouped

_MOMENT = 0.5
"""Seconds before a bar is drawn, and between two looks."""


@dataclass(frozen=True, slots=True)
class Far:
    """Tasks that are done, of those of all stages that Spark knows."""

    done: int
    total: int


def how_far(context: SparkContext, group: str) -> Far:
    """What has become of the jobs of a group. Stages that a finished job has skipped do not count."""
    tracker = context.statusTracker()
    jobs = [job for number in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(number)) is not None]
    numbers = {number for job in jobs for number in job.stageIds}
    unfinished = {number for job in jobs if job.status == "RUNNING" for number in job.stageIds}
    stages = [stage for number in numbers if (stage := tracker.getStageInfo(number)) is not None]
    done = sum(stage.numCompletedTasks for stage in stages)
    open_ = sum(stage.numTasks - stage.numCompletedTasks for stage in stages if stage.stageId in unfinished)
    return Far(done, done + open_)


@contextmanager
def shown(spark: SparkSession, title: str, console: Console | None = None) -> Iterator[None]:
    """Draw a bar for the jobs that this thread runs inside."""
    console = console or Console(stderr=True)
    context = spark.sparkContext
    if not console.is_terminal:
        yield
        return
    with grouped(context) as group:
        over = Event()
        looker = Thread(target=_look, args=(context, group, title, console, over), daemon=True)
        looker.start()
        try:
            yield
        finally:
            over.set()
            looker.join()


def _look(context: SparkContext, group: str, title: str, console: Console, over: Event) -> None:
    if over.wait(_MOMENT):
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(title, total=None)
        while not over.wait(_MOMENT):
            far = how_far(context, group)
            progress.update(bar, completed=far.done, total=far.total or None)
