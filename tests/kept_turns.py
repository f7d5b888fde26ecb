"""Buckets that several processes take turns on.

`Neighbour` is another process, which opens buckets and does what it is told:

    neighbour.take(path, program, catalog, batches, "7")        # as one batch with this label
    neighbour.stop_within(path, program, catalog, batches)      # the same, but it does not get to the end

Run as a script, this file is that process.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from viewmill.catalog import Catalog
from viewmill.engines.local.kept import Kept
from viewmill.engines.local.pending import Pending, PendingRows
from viewmill.engines.local.shelf import Shelf
from viewmill.program.nodes import Program

Change = Mapping[tuple[Any, ...], int]
Changes = Sequence[tuple[str, Change]]
"""What is pending: for one relation after the other, rows with weights."""


def pending(changes: Changes, catalog: Catalog) -> list[Pending]:
    return [PendingRows(catalog.relations[name], rows) for name, rows in changes]


def lets_of(program: Program) -> dict[str, list[str]]:
    """All of them, by relation."""
    return {
        name: [statement.target for statement in trigger.statements if statement.op == "let"]
        for name, trigger in program.triggers.items()
    }


def take(kept: Kept, changes: Changes, label: str) -> dict[str, Any]:
    """A batch, from its begin to its end. The rows of all `let`s."""
    kept.begin()
    given = kept.fire(pending(changes, kept.catalog), lets_of(kept.program))
    kept.commit(label)
    return given


class Neighbour:
    """Another process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def _ask(self, *question: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        pickle.dump(question, self._process.stdin)
        self._process.stdin.flush()
        answer = pickle.load(self._process.stdout)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def take(self, path: Path, program: Program, catalog: Catalog, changes: Changes, label: str) -> dict[str, Any]:
        return self._ask("take", path, program, catalog, changes, label)

    def undo(self, path: Path, program: Program, catalog: Catalog) -> None:
        self._ask("undo", path, program, catalog)

    def read(self, path: Path, program: Program, catalog: Catalog, views: Iterable[str]) -> dict[str, Any]:
        """The rows of views."""
        return self._ask("read", path, program, catalog, tuple(views))

    def hold(self, path: Path, program: Program, catalog: Catalog) -> None:
        """Enter a bucket and stay there."""
        self._ask("hold", path, program, catalog)

    def stop_within(self, path: Path, program: Program, catalog: Catalog, changes: Changes) -> None:
        """Kill the process while it is in a batch."""
        self._ask("start", path, program, catalog, changes)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def _answer(shelf: Shelf, what: str, path: Path, program: Program, catalog: Catalog, *rest: Any) -> Any:
    mark = hashlib.blake2b(repr(program).encode()).hexdigest()
    kept = shelf.take(path, mark, lambda: (program, catalog))
    try:
        match what, *rest:
            case "take", changes, label:
                return take(kept, changes, label)
            case ("undo",):
                kept.undo()
            case "read", views:
                return {view: kept.contents(view) for view in views}
            case "start", changes:
                kept.begin()
                kept.fire(pending(changes, catalog), {})
    finally:
        if what not in ("start", "hold"):
            shelf.put(kept, mark)
    return None


def _serve() -> None:
    shelf, out = Shelf(2), os.fdopen(os.dup(1), "wb")
    while True:
        try:
            question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = _answer(shelf, *question)
        except Exception as error:
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        pickle.dump(answer, out)
        out.flush()


if __name__ == "__main__":
    _serve()
