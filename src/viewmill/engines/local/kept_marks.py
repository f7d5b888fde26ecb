"""Marks that tell whether the file of a bucket is what a process takes it for."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from viewmill.engines.local.fingerprint import fingerprint
from viewmill.program.nodes import Store

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def store_mark(store: Store) -> str:
    """Equal for stores with the same rows."""
    return hashlib.blake2b(repr(store).encode(), digest_size=12).hexdigest()


def code_mark() -> str:
    """Of the code that knows how pools lie in memory, and how keys are hashed."""
    return fingerprint()


@cache
def machine_mark() -> str:
    """Another one whenever the machine is started: a file that was not written to disk by then has lost something.

    Where the system has no such thing it is empty, and files are trusted.
    """
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
