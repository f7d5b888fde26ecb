"""What is not to be left half done when somebody presses Ctrl-C.

Python raises `KeyboardInterrupt` in its main thread between any two steps. For as long as it takes to do something
whole, we only take note of it, and raise it afterwards. Who has another handler for the signal knows what it does.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is over. In threads other than the main one nothing is to be done: it does not come."""
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt
