"""Work in a new process that is ended with its block, whatever it is doing then, and before it takes all memory."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SHARE = 0.8
"""Of the machine's memory that a process may have. The system would end processes that have most, maybe others."""
_LOOK = 0.2
"""Seconds between two looks at it."""


class TooLarge(Exception):
    """A process has more memory than it may have."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """What a process sends, and what it takes."""

    connection: Connection
    pid: int

    def poll(self, seconds: float) -> bool:
        """Whether there is news within so many seconds. `TooLarge` is raised if there is too much of it by then."""
        latest = time.monotonic() + seconds
        while (left := latest - time.monotonic()) > 0:
            if self.connection.poll(min(_LOOK, left)):
                return True
            if self.share > SHARE:
                raise TooLarge
        return self.connection.poll(0)

    def recv(self) -> Any:
        return self.connection.recv()

    @property
    def share(self) -> float:
        """Of all memory, what it has; 0 where the system does not tell."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            return pages / os.sysconf("SC_PHYS_PAGES")
        except (OSError, ValueError, IndexError):
            return 0.0


@contextmanager
def spawned(target: Callable[..., None], *arguments: object) -> Iterator[Spawned]:
    """Run `target(*arguments, connection)` in a process of its own; what it sends comes out of our end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    assert process.pid is not None
    try:
        yield Spawned(ours, process.pid)
    finally:
        process.kill()
        process.join()
        ours.close()
