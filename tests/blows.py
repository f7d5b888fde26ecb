"""Whoever works on a cluster is killed, one after another, at moments that follow from a seed.

    blows = (Blow(3, Victim.EXECUTOR, 0.4), Blow(4, Victim.DRIVER, 0.9))
    Chaos(running, folder, seed, batches, blows).run(seconds=300)

A blow falls when its batch, or a later one, has begun, and some part of the time that a batch usually takes is over. A
driver that dies is started again, a worker that dies gets a successor on a fresh disk; executors and Python workers
are Spark's to replace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import assert_never

from diary import Diary, Event
from mortal_commits import tell
from spark_cluster import Cluster, children, kill

PROGRAM = Path(__file__).parent / "spark" / "chaos_driver.py"
PAUSE = 0.05
SPARE = 8  # batches without a blow of their own at the end: while a worker is replaced, some go by
LONGEST = 5.0  # seconds: a batch that took longer than this says little about the next


class Victim(StrEnum):
    EXECUTOR = "executor"
    WORKER = "worker"
    PYTHON = "Python worker"
    DRIVER = "driver"
    BEFORE_COMMIT = "driver, before a commit"
    AFTER_COMMIT = "driver, after a commit"


DRIVERS = (Victim.DRIVER, Victim.BEFORE_COMMIT, Victim.AFTER_COMMIT)


@dataclass(frozen=True, slots=True)
class Blow:
    batch: int
    victim: Victim
    moment: float
    """After which part of the time that a batch takes."""


def one_of_each(seed: int) -> tuple[Blow, ...]:
    """On batch after batch, from the second on; of the driver's deaths, the one between all state and its commit."""
    random = Random(seed)
    victims = random.sample((Victim.EXECUTOR, Victim.WORKER, Victim.PYTHON, Victim.BEFORE_COMMIT), 4)
    return tuple(Blow(batch, victim, random.random()) for batch, victim in enumerate(victims, 2))


def many(seed: int, batches: int, count: int) -> tuple[Blow, ...]:
    """So many over all batches but the last. Every third is the driver's: it takes longest to come back."""
    random = Random(seed)
    others = (Victim.EXECUTOR, Victim.PYTHON, Victim.WORKER)
    thirds = [(*random.sample(others, 2), driver) for driver in DRIVERS * (count // 9 + 1)]
    victims = [victim for third in thirds for victim in third][:count]
    random.shuffle(victims)
    numbers = sorted(random.randrange(1, batches - SPARE) for _ in victims)
    return tuple(Blow(batch, victim, random.random()) for batch, victim in zip(numbers, victims, strict=True))


class Chaos:
    """A driver on a cluster, and who kills them."""

    def __init__(self, running: Cluster, folder: Path, seed: int, batches: int, blows: Iterable[Blow]) -> None:
        folder.mkdir(parents=True)
        self.diary = Diary(folder / "diary")
        self.starts = 0
        self._cluster, self._folder, self._seed, self._batches = running, folder, seed, batches
        self._random = Random(seed)
        self._blows = deque(blows)
        self._noticed = 0  # events of the diary that were there at the last blow
        self._driver: subprocess.Popen[bytes] | None = None

    def run(self, *, seconds: float) -> None:
        """Until the driver has gone through all batches. It may fail for no other reason than being killed."""
        deadline = time.monotonic() + seconds
        try:
            while not self._is_through():
                assert time.monotonic() < deadline, f"not through after {seconds} seconds\n{self._report()}"
                if self._blows and self._is_time_for(self._blows[0]) and self._strike(self._blows[0].victim):
                    self._blows.popleft()
                    self._noticed = len(self.diary.events())
                time.sleep(PAUSE)
        finally:
            self._end_driver()
        assert not self._blows, f"the driver was through before {self._blows}"

    def _is_through(self) -> bool:
        code = self._driver.poll() if self._driver is not None else -signal.SIGKILL
        if code == -signal.SIGKILL:
            self._start()
        elif code is not None:
            assert code == 0, self._report()
        return code == 0

    def _start(self) -> None:
        own = self._folder / f"driver-{self.starts}"
        own.mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "TMPDIR": str(own),
            "SPARK_LOCAL_DIRS": str(own),
        }
        cores = self._cluster.cores * len(self._cluster.alive)
        arguments = [self._cluster.url, str(self._folder), str(self._seed), str(self._batches), str(cores)]
        with (self._folder / "driver.log").open("ab") as log:
            self._driver = subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments], env=environment, stdout=log, stderr=log
            )
        self.starts += 1

    def _is_time_for(self, blow: Blow) -> bool:
        events = self.diary.events()
        begun = [event for event in events[self._noticed :] if is_at(event, "begin") >= blow.batch]
        return bool(begun) and time.time() >= begun[0].at + blow.moment * _usual(events)

    def _strike(self, victim: Victim) -> bool:
        """False if there is nobody to be killed just now."""
        match victim:
            case Victim.EXECUTOR:
                return self._kill_one([pid for number in self._busy() for pid in self._cluster.executors(number)])
            case Victim.PYTHON:
                return self._kill_one([pid for number in self._busy() for pid in self._cluster.pythons(number)])
            case Victim.WORKER:
                if not (busy := self._busy()):
                    return False
                self._cluster.lose_worker(self._random.choice(busy))
                self._cluster.add_worker()
            case Victim.DRIVER:
                self._end_driver()
            case Victim.BEFORE_COMMIT:
                tell(self._folder, "before")
            case Victim.AFTER_COMMIT:
                tell(self._folder, "after")
            case _:
                assert_never(victim)
        return True

    def _busy(self) -> list[int]:
        """Workers whose executors have Python processes: the others have no bucket to lose."""
        return [number for number in self._cluster.alive if self._cluster.pythons(number)]

    def _kill_one(self, pids: Sequence[int]) -> bool:
        if pids:
            kill(self._random.choice(pids))
        return bool(pids)

    def _end_driver(self) -> None:
        """Python and Java at once."""
        if self._driver is not None and self._driver.poll() is None:
            for pid in [*children(self._driver.pid), self._driver.pid]:
                kill(pid)
            self._driver.wait()

    def _report(self) -> str:
        log = self._folder / "driver.log"
        told = log.read_text(errors="replace")[-6000:] if log.exists() else ""
        return "\n".join([*map(str, self.diary.events()[-20:]), told])


def is_at(event: Event, what: str) -> int:
    """The number of the batch that an event of this kind is about; else -1."""
    number: int = event.facts["batch"] if event.what == what else -1
    return number


def _usual(events: Sequence[Event]) -> float:
    """The seconds that the last batch took that was not begun twice."""
    begun = {is_at(event, "begin"): event.at for event in events}
    took = [event.at - begun[is_at(event, "done")] for event in events if event.what == "done"]
    return min([*took[-1:], LONGEST]) if took else LONGEST
