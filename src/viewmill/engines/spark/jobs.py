"""What a piece of work cost Spark: jobs, stages, tasks and bytes shuffled, from Spark's own status API.

    with counting(spark) as cost:
        mill.apply(orders=df)
    cost().jobs, cost().stages

A stage whose output was still there (that of the anchor, always) is skipped by Spark, and not counted. Bytes come
from the monitoring interface of Spark's web server, and are unknown where that is off (`spark.ui.enabled`).
"""

from __future__ import annotations

import json
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import SparkContext
from pyspark.sql import SparkSession

_GROUP = "spark.jobGroup.id"
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    jobs: int
    stages: int
    tasks: int
    shuffled: int | None
    """Bytes written for shuffles; None if Spark's web server is off, or does not answer."""


@contextmanager
def grouped(context: SparkContext) -> Iterator[str]:
    """A group of their own for the jobs that this thread runs inside."""
    before, group = context.getLocalProperty(_GROUP), uuid.uuid4().hex
    context.setLocalProperty(_GROUP, group)
    try:
        yield group
    finally:
        context.setLocalProperty(_GROUP, before)  # type: ignore[arg-type]  # None takes it away


@contextmanager
def counting(spark: SparkSession) -> Iterator[Callable[[], Cost]]:
    """Count what this thread runs inside; ask afterwards."""
    context = spark.sparkContext
    with grouped(context) as group:
        yield lambda: _cost(context, group)


def _cost(context: SparkContext, group: str) -> Cost:
    tracker = context.statusTracker()
    jobs = list(tracker.getJobIdsForGroup(group))
    known = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
    # What is finished is told a moment later, by another thread.
    deadline = time.monotonic() + _PATIENCE
    while any(info.status == "RUNNING" for info in known) and time.monotonic() < deadline:
        time.sleep(0.005)
        known = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
    numbers = sorted({stage for info in known for stage in info.stageIds})
    stages = [tracker.getStageInfo(number) for number in numbers]
    ran = [stage for stage in stages if stage is not None and stage.numCompletedTasks]
    tasks = sum(stage.numCompletedTasks for stage in ran)
    return Cost(len(jobs), len(ran), tasks, _shuffled(context, {stage.stageId for stage in ran}))


def _shuffled(context: SparkContext, stages: set[int]) -> int | None:
    if context.uiWebUrl is None:
        return None
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE) as answer:
            told: list[dict[str, int]] = json.load(answer)
    except OSError:  # a machine that is too busy to say how busy it is
        return None
    return sum(stage["shuffleWriteBytes"] for stage in told if stage["stageId"] in stages)
