"""The buckets that a process has open, for when they come back to it.

Spark hands a bucket to whatever process is idle. One that has had it before finds it here, with all that is compiled,
and only looks up what others have changed since.

    with shelf.enter(path, mark, lambda: (program, catalog)) as kept:
        ...

`mark` names the program: a process that has the bucket open for it does not need the program again.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from viewmill.catalog import Catalog
from viewmill.engines.local.kept import Kept
from viewmill.engines.local.locks import PATIENCE
from viewmill.program.nodes import Program

MOST_OPEN = 64


class Shelf:
    """Open buckets, those used last."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._process = os.getpid()
        self._open: OrderedDict[tuple[Path, str], Kept] = OrderedDict()
        self._turn = Lock()

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def enter(
        self,
        path: Path | str,
        mark: str,
        program: Callable[[], tuple[Program, Catalog]],
        *,
        patience: float = PATIENCE,
    ) -> Iterator[Kept]:
        """The bucket at a path, for us alone. A batch that is not committed at the end is undone."""
        kept = self.take(path, mark, program, patience=patience)
        try:
            yield kept
        finally:
            self.put(kept, mark)

    def take(
        self, path: Path | str, mark: str, program: Callable[[], tuple[Program, Catalog]], *, patience: float = PATIENCE
    ) -> Kept:
        """As `enter`; it is to be given to `put`."""
        path = Path(path)
        known = self._taken(path, mark)
        if known is not None:
            try:
                if known.enter(patience=patience):
                    return known
            except BaseException:
                known.close()
                raise
            known.close()
        return Kept.open(path, *program(), patience=patience)

    def put(self, kept: Kept, mark: str) -> None:
        """Leave a bucket, and keep it open for the next time."""
        try:
            kept.leave()
        except BaseException:
            kept.close()
            raise
        with self._turn:
            old = self._open.pop((kept.path, mark), None)
            self._open[kept.path, mark] = kept
            closed = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - self._most)]
        for each in (*closed, *([old] if old is not None else [])):
            each.close()

    def clear(self) -> None:
        """Close them all."""
        with self._turn:
            closed, self._open = self._open, OrderedDict()
        for kept in closed.values():
            kept.close()

    def _taken(self, path: Path, mark: str) -> Kept | None:
        with self._turn:
            if os.getpid() != self._process:  # those of the process that this one was forked from are not ours
                self._process, self._open = os.getpid(), OrderedDict()
            return self._open.pop((path, mark), None)
