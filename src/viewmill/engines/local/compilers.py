"""Functions compiled by several processes at once, since LLVM takes one at a time in each.

    this process     the longest source, then whatever is next  ─┐
    another process       (starts)   whatever is next            ─┴─>  machine code of all

Another process takes a third of a second to start, so it is for sources that take longer than that. It has no part in
what comes out: whatever happens to it, this process compiles what is missing.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import BinaryIO, cast

from viewmill.cache import directory
from viewmill.engines.local.generated import compiled
from viewmill.engines.local.libraries import CFunction
from viewmill.engines.local.locks import Busy, Lock

_THREADS = 2
"""Threads of this process, if it is alone: LLVM works on one function while Python writes the next for it. With others
at work, a second one only takes time from the thread that compiles the libraries (`warming.py`)."""
_LONG = 60_000
"""Characters of sources from which on another process is worth it."""
_MOST = 3
"""Other processes, at most."""
_PATIENCE = 60.0
"""Seconds that one may take for a function."""

_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from viewmill.engines.local.compilers import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


def compile_all(sources: Collection[str]) -> None:
    """Compile functions that will be needed."""
    functions = {source: compiled(source) for source in dict.fromkeys(sources)}
    missing = {source: function for source, function in functions.items() if not function.is_at_hand}
    if len(missing) > 1:
        waiting = deque(sorted(missing, key=len, reverse=True))
        with _others(waiting, missing) as others:
            here = 1 if others else _THREADS
            with ThreadPoolExecutor(here) as threads:
                working = [threads.submit(_compile, waiting, missing) for _ in range(here)]
        for thread in working:
            thread.result()
    for function in functions.values():
        function.prepare()


def _compile(waiting: deque[str], functions: Mapping[str, CFunction]) -> None:
    with suppress(IndexError):
        while True:
            functions[waiting.popleft()].prepare()


@contextmanager
def _others(waiting: deque[str], functions: Mapping[str, CFunction]) -> Iterator[int]:
    """Other processes at work, and how many. One of those that compile at the same time has them, such as Spark's on
    one machine.
    """
    others, lock = list[_Other](), Lock(directory() / "compilers")
    with suppress(OSError, Busy):
        number = _how_many(functions)
        if number:
            directory().mkdir(parents=True, exist_ok=True)
            lock.take(0)
        for _ in range(number):
            others.append(_Other(waiting, functions))
    try:
        yield len(others)
    finally:
        for other in others:
            other.end()
        lock.drop()


def _how_many(sources: Collection[str]) -> int:
    """How many processes are to help."""
    if sum(map(len, sources)) < _LONG or not Path(sys.executable or "").name.startswith("python"):
        return 0
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors - 1, _MOST, len(sources) - 1)


class _Other:
    """Another process that compiles, and the thread that talks to it."""

    def __init__(self, waiting: deque[str], functions: Mapping[str, CFunction]) -> None:
        self._waiting, self._functions = waiting, functions
        self._is_busy = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._thread = Thread(target=self._talk, daemon=True)
        self._thread.start()

    def _talk(self) -> None:
        sources, codes = cast(BinaryIO, self._process.stdin), cast(BinaryIO, self._process.stdout)
        with suppress(IndexError, OSError, EOFError, pickle.UnpicklingError):
            _send(sys.path, sources)
            pickle.load(codes)  # it is there
            self._is_busy = True
            while True:
                source = self._waiting.popleft()
                _send(source, sources)
                self._functions[source].give(pickle.load(codes))

    def end(self) -> None:
        """When there is nothing left to give to it. What it was given is waited for."""
        if self._is_busy:
            self._thread.join(_PATIENCE)
        self._process.kill()
        self._thread.join()
        self._process.communicate()


def _send(what: object, to: BinaryIO) -> None:
    pickle.dump(what, to)
    to.flush()


def serve(sources: BinaryIO, codes: BinaryIO) -> None:
    """In the other process: machine code for every source that comes in."""
    _send("here", codes)
    with suppress(EOFError):
        while True:
            _send(compiled(pickle.load(sources)).machine_code(), codes)
