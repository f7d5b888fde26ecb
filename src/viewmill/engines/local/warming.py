"""The first time on a machine: what all compiled mills share is compiled while the first view is still being planned.

LLVM works without Python's lock, so the second and a half that it takes for these libraries is nearly gone by the time
that a plan is there. Later processes find the libraries on disk, and are left alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Lock, Thread

from viewmill.cache import directory
from viewmill.engines.local.fingerprint import fingerprint

_lock = Lock()
_threads: list[Thread] = []


def warm_up() -> None:
    """Have the libraries compiled by another thread, unless they are on disk, or were asked for before.

    Where nothing can be kept, every process would do so, and wait for the thread when it ends. A process that forks
    waits, too: the compiler would be in the middle of something in the other, for ever.
    """
    with _lock:
        if not _threads and not any(directory().glob(f"pools-{fingerprint()}-*")) and _can_keep():
            _threads.append(Thread(target=_prepare, name="viewmill-warm-up"))
            _threads[0].start()
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(before=_threads[0].join)


def _can_keep() -> bool:
    try:
        directory().mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory(), os.W_OK)


def _prepare() -> None:
    """Whatever goes wrong, or if the process ends before this has begun: who needs a library compiles it."""
    with suppress(Exception):
        _prepare_all()


def _prepare_all() -> None:
    """In the order in which a first batch needs them. The compiler is imported here: small mills do without."""
    import viewmill.engines.local.watching  # noqa: F401  # it has a part of TRIGGERS
    from viewmill.engines.local.column_loops import COLUMNS
    from viewmill.engines.local.interning import STRINGS
    from viewmill.engines.local.kernels import POOLS
    from viewmill.engines.local.many import TRIGGERS

    for library in (POOLS, STRINGS, COLUMNS, TRIGGERS):
        library.prepare()
