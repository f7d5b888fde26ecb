"""Executors, workers, Python workers and drivers of a cluster are killed: no batch is lost, and none is applied twice.

Workers share nothing but the checkpoint. The driver checks every view against DuckDB whenever it starts, now and then
in between, and at the end; here it is checked that it did, and that its versions go on where they were.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from blows import DRIVERS, SPARE, Blow, Chaos, Victim, is_at, many, one_of_each
from diary import Event
from spark_cluster import Cluster, cluster

pytestmark = pytest.mark.spark


def chaos(running: Cluster, folder: Path, seed: int, batches: int, blows: tuple[Blow, ...], seconds: float) -> Chaos:
    run = Chaos(running, folder, seed, batches, blows)
    run.run(seconds=seconds)
    events = run.diary.events()
    assert run.starts == 1 + sum(blow.victim in DRIVERS for blow in blows)
    check_versions(events, batches)
    check_deaths(events, blows)
    return run


def check_versions(events: list[Event], batches: int) -> None:
    """A batch that was seen to be done stays so, one that was begun may have been done, and nothing else has."""
    begun = done = 0
    for event in events:
        if event.what == "connected":
            assert done <= event.facts["version"] <= begun
        if event.what == "begin":
            assert event.facts["batch"] in (begun, begun + 1)
        begun, done = max(begun, is_at(event, "begin")), max(done, is_at(event, "done"))
    assert events[-1].what == "finished" and events[-1].facts["version"] == begun == done == batches
    checked = [event.facts["version"] for event in events if event.what == "checked"]
    assert checked == sorted(checked) and checked[-1] == batches


def check_deaths(events: list[Event], blows: tuple[Blow, ...]) -> None:
    """Everybody who was told to die has; whoever comes next finds what was committed by then."""
    told = Counter(event.facts["moment"] for event in events if event.what == "dies")
    victims = Counter(blow.victim for blow in blows)
    assert (told["before"], told["after"]) == (victims[Victim.BEFORE_COMMIT], victims[Victim.AFTER_COMMIT])
    for death, next_life in pairwise(event for event in events if event.what in ("dies", "connected")):
        if death.what == "dies":
            assert (next_life.what, next_life.facts["version"]) == ("connected", death.facts["leaves"])
            late = death.facts["version"] - death.facts["leaves"]  # a definition is a commit without a new version
            assert late == 0 if death.facts["moment"] == "after" else late in (0, 1)


def moved(running: Cluster) -> set[str]:
    """Buckets that were made on the disks of more than one worker."""
    files = Counter(name for number in range(len(running.workers)) for name in running.buckets(number))
    return {name for name, count in files.items() if count > 1}


@pytest.mark.slow
def test_one_of_each_is_killed(tmp_path):
    with cluster(tmp_path / "cluster", workers=2) as running:
        chaos(running, tmp_path / "mill", 1, 6 + SPARE, one_of_each(1), seconds=900)
        assert moved(running), "a bucket was made again on another machine"


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2])
def test_many_are_killed(tmp_path, seed):
    with cluster(tmp_path / "cluster", workers=3) as running:
        chaos(running, tmp_path / "mill", seed, 52, many(seed, 52, 21), seconds=3600)
        assert moved(running)
