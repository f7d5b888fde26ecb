"""Where an executor keeps the file of a bucket: in memory as long as there is room, then on disk.

A batch writes to pages all over a bucket. If the file is on disk, the system writes all of them back before long, and
whoever writes to one of them again has to wait: with 22 views of six million rows, workers computed for a tenth of the
time that a batch of 1 % took. The same file in `/dev/shm` is memory and nothing else, and nothing is lost by
it: a bucket can always be made again from the checkpoint.

Memory has to be given back. The marks in a folder say which executors use it; the last one to end removes the folder
(`leave`, called by `daemon.py`). What an executor leaves that was killed is removed by the next one that makes a bucket
here. Where Spark runs another daemon than ours, nobody would do that, so buckets are on disk.

Law: a bucket that has a file on disk is there; any other is in memory, if this executor may use it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from viewmill.engines.local.locks import discard
from viewmill.engines.local.room import free_memory, is_memory

_MARK = "used-by-"

_executor: int | None = None
"""The process that gives memory back, if there is one: the daemon that this process was forked from."""


def enter() -> None:
    """Said by the daemon: this process and those forked from it may use memory until `leave`."""
    global _executor
    _executor = os.getpid()


def leave() -> None:
    """Remove what only this executor uses."""
    global _executor
    if _executor != os.getpid():
        return
    ours, _executor = f"{_MARK}{_executor}", None
    for folder in _mills_in_memory():
        with suppress(OSError):  # one that we may not look into holds up no other
            _leave(folder, folder / ours)


def _leave(folder: Path, mark: Path) -> None:
    if mark.exists() and not any(_is_alive(other) for other in folder.glob(f"{_MARK}*") if other != mark):
        shutil.rmtree(folder, ignore_errors=True)
    mark.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of a mill's buckets on this machine.

    `scratch` is what the user asked for, if anything; `$NAMES` in it stand for variables of the executor's environment.
    """

    mill: str
    scratch: str = ""

    @property
    def on_disk(self) -> Path:
        return Path(os.path.expandvars(self.scratch) or tempfile.gettempdir()) / _folder(self.mill)

    @property
    def in_memory(self) -> Path | None:
        folder = _memory()
        return folder / _folder(self.mill) if folder and _executor is not None and not self.scratch else None

    def path(self, file: str) -> Path:
        """Where a bucket is, or is to be made."""
        disk, memory = self.on_disk / file, self.in_memory
        if memory is None or disk.exists():
            disk.parent.mkdir(parents=True, exist_ok=True)
            return disk
        memory.mkdir(parents=True, exist_ok=True)
        (memory / f"{_MARK}{_executor}").touch()
        return memory / file

    def spill(self, file: str, error: OSError) -> bool:
        """Have a bucket made on disk from now on. False if there is no reason to, or that is where it is."""
        memory = self.in_memory
        if memory is None or error.errno != errno.ENOSPC or (self.on_disk / file).exists():
            return False
        self.on_disk.mkdir(parents=True, exist_ok=True)
        (self.on_disk / file).touch()  # no bucket as yet, but the place for it
        discard(memory / file)
        return True

    def remove(self) -> None:
        """Remove all that this machine has of the mill, and that nobody works on.

        Tasks that do so at the same time find each other's buckets busy. Whoever removes the last one sees that none
        is left, and removes the rest.
        """
        for bucket in self._buckets():
            discard(bucket)
        if not self._buckets():
            for folder in self._folders():
                shutil.rmtree(folder, ignore_errors=True)

    def _buckets(self) -> list[Path]:
        return [file for file in self.files() if file.suffix != ".lock" and not file.name.startswith(_MARK)]

    def files(self) -> Iterator[Path]:
        """All there are of the mill."""
        for folder in self._folders():
            with suppress(FileNotFoundError):  # another task may be about to remove it
                yield from list(folder.iterdir())

    def _folders(self) -> list[Path]:
        return [folder for folder in (self.on_disk, self.in_memory) if folder is not None and folder.is_dir()]

    def make_room(self) -> None:
        """Before a bucket is made: remove what executors have left that were killed, and that is not the mill's own."""
        for folder in _mills_in_memory():
            marks = list(folder.glob(f"{_MARK}*"))
            if folder != self.in_memory and marks and not any(map(_is_alive, marks)):
                shutil.rmtree(folder, ignore_errors=True)


@cache
def _memory() -> Path | None:
    """Where files are memory on this machine, if anywhere."""
    folder = Path("/dev/shm")
    usable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) and is_memory(folder) and free_memory(folder) > 0
    return folder if usable else None


def _folder(mill: str) -> str:
    """The name of its folder. Users of a machine do not share one: what one leaves, no other may use or remove."""
    return f"viewmill-{os.getuid()}-{mill}"


def _mills_in_memory() -> list[Path]:
    """The folders of all mills of this user."""
    memory = _memory()
    return [folder for folder in memory.glob(_folder("*")) if folder.is_dir()] if memory else []


def _is_alive(mark: Path) -> bool:
    return Path(f"/proc/{mark.name.removeprefix(_MARK)}").exists()
