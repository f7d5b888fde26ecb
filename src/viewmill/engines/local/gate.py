"""Readers come in while a batch is under way, and wait for no longer than it takes to copy what they ask for.

Who changes stores holds the gate. Where stores and indexes are whole, every few thousand rows, it looks whether
somebody waits, and then opens it for a moment: `pause` in Python, `let_in` in compiled code (`polling.py`). Readers who
come in then find the gate `is_opened`, and read what was before the batch, which the journals of the pools know. So
nobody ever looks at memory that is being written, and nothing is copied for readers who may never come.

    with gate.reading(): ...           # a reader
    with gate.lock, gate.writing():    # a writer, who may pause()
        with gate.opened(): ...        # and for now touches nothing that readers see

A writer steps aside for half of its time at most, however many readers there are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Condition, Lock, RLock
from time import perf_counter
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from viewmill.interrupts import uninterrupted

INTERRUPTED = 16
"""A flag (see `raw.py`): who stepped aside was interrupted."""

# Words of a gate
WAITING = 0  # whether somebody waits
PAUSE = 1  # address of pause(number)
NUMBER = 2
PAUSED = 3  # set by `pause` if all is well


_PATIENCE = 5.0
"""Seconds after which who has let readers in stands in line for the lock, whoever is still there."""


class Gate:
    """Held by who changes stores, and by who reads them."""

    def __init__(self) -> None:
        self.lock = RLock()
        """For who takes microseconds and never steps aside."""
        self.failure: BaseException | None = None
        """What came up while compiled code stepped aside, and set the flag `INTERRUPTED`."""
        self.is_opened = False
        self._is_held = False  # by a writer; where nobody else comes, it need not be
        self._turns = Condition(Lock())
        self._came = self._left = 0  # readers
        self._next = 0.0  # not before then does the writer step aside again
        self._words: NDArray[np.int64] = np.zeros(4, np.int64)
        self._words[PAUSE], self._words[NUMBER] = _PAUSE_ADDRESS, next(_numbers)
        _gates[int(self._words[NUMBER])] = self

    @property
    def address(self) -> int:
        return self._words.ctypes.data

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Change stores, and let readers in on the way. The lock is taken first, and by itself: that is never undone in
        the middle, whatever interrupts us.
        """
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Come in. If the gate `is_opened`, a batch is under way, and what was before it is to be read."""
        with uninterrupted():
            with self._turns:
                self._came += 1
                self._words[WAITING] = 1
            try:
                with self.lock:
                    yield
            finally:
                with self._turns:
                    self._left += 1
                    self._words[WAITING] = self._came != self._left
                    self._turns.notify_all()

    def pause(self) -> None:
        """Let in who waits, if it is time. Everything must be whole, and journalled if it is not as it was."""
        if not self._words[WAITING] or not self._is_held or (start := perf_counter()) < self._next:
            return
        with self._turns:
            last = self._came
        with self.opened(), self._turns:
            self._turns.wait_for(lambda: self._left >= last, _PATIENCE)
        end = perf_counter()
        self._next = end + (end - start)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Readers come and go. They find what is journalled as it was, and all else must be left alone meanwhile."""
        if not self._is_held:
            yield
            return
        self.is_opened, self._is_held = True, False
        self.lock.release()
        try:
            yield
        finally:
            self._come_back()

    def _come_back(self) -> None:
        """Be the writer again, also if something comes up while we wait for a reader."""
        came_up: BaseException | None = None
        while not self._is_held:
            try:
                if not self.lock._is_owned():  # type: ignore[attr-defined]  # as `threading.Condition` does
                    self.lock.acquire()
                self.is_opened, self._is_held = False, True
            except BaseException as error:
                came_up = error
        if came_up is not None:
            raise came_up


def _pause(number: int) -> int:
    """Called by compiled code, which knows no exceptions. One before our first step leaves PAUSED as it was."""
    gate = _gates[number]
    try:
        gate.pause()
        gate._words[PAUSED] = 1
    except BaseException as error:
        gate.failure = error
    return 0


_numbers = count()
_gates: WeakValueDictionary[int, Gate] = WeakValueDictionary()
_callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(_pause)
_PAUSE_ADDRESS = ctypes.cast(_callback, ctypes.c_void_p).value or 0
