"""What is not to be left half done when somebody presses Ctrl-C.

Python raises `KeyboardInterrupt` in its main thread between any two steps, or calls whatever handler there is. For as
long as it takes to do something whole, we only take note of it, and call the handler afterwards.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is over. In threads other than the main one nothing is to be done: it does not come."""
    handler = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(handler):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])
