"""Work in a new process that is ended with its block, whatever it is doing then."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection


@contextmanager
def spawned(target: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Run `target(*arguments, connection)` in a process of its own; what it sends comes out of our connection."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()
        ours.close()
