"""One process at a time: a lock on a file beside the one it protects.

The lock is on a file of its own, because the one it protects may be replaced by another. It goes with the process that
holds it, however that ends. Whoever has the lock of a file has its draft as well, from which the file is to be made.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from viewmill.errors import DataError

PATIENCE = 600.0
"""Seconds after which nobody waits any longer."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
_DRAFT = ".new"


class Busy(DataError):
    """Another process works on the file, and does not end."""


class Lock:
    def __init__(self, path: Path) -> None:
        """For the file at `path`, which need not be there."""
        self._path = path
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        return self._descriptor >= 0

    def take(self, patience: float = PATIENCE) -> None:
        """Wait for the lock, for so many seconds."""
        beside = self._path.with_name(self._path.name + ".lock")
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _wait(descriptor, time.monotonic() + patience, self._path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def drop(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _wait(descriptor: int, until: float, path: Path) -> None:
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise Busy(
                    f"another process works on {path}", hint="wait for it to end, or find out what holds it up"
                ) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def draft_of(path: Path) -> Path:
    """What becomes the file at `path` when it is complete."""
    return path.with_name(path.name + _DRAFT)


def discard(path: Path) -> bool:
    """Remove a file, or a draft of one, that processes may have mapped, and free its room at once. False if somebody
    works on it.
    """
    lock = Lock(path.with_name(path.name.removesuffix(_DRAFT)))
    try:
        lock.take(0)
    except Busy:
        return False
    except FileNotFoundError:  # somebody has removed the folder
        return True
    try:
        os.truncate(path, 0)  # or it would take room until the last process lets go of it
        path.unlink()
    except FileNotFoundError:
        pass
    finally:
        lock.drop()
    return True
