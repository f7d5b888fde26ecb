"""What is worth keeping between processes: `VIEWMILL_CACHE`, else the user's cache directory.

Everything in it can be made again, and is, if it is not there, cut off, or from another version of this package.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

WORTH_IT = 0.01
"""Seconds that something must take to be kept."""


def directory() -> Path:
    chosen = os.environ.get("VIEWMILL_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "viewmill"
    return base / "kernels"


def remembered(kind: str, made_from: object, result: type[T], make: Callable[[], T]) -> T:
    """What `make` makes, or what it made before, maybe in another process. The text of `made_from` must say it all."""
    mark = hashlib.blake2b(repr((made_from, _package(), sys.version)).encode(), digest_size=12).hexdigest()
    path = directory() / f"{kind}-{mark}.pickle"
    try:
        found = pickle.loads(path.read_bytes())
        if isinstance(found, result):
            return found
    except Exception:  # it is not there, or cut off, or who knows what
        pass
    start = time.perf_counter()
    made = make()
    if time.perf_counter() - start > WORTH_IT:
        keep(path, pickle.dumps(made))
    return made


def keep(path: Path, data: bytes) -> None:
    """A whole file or none, also with several processes at it. Where nothing can be written, nothing is kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(data)
        draft.replace(path)
    except OSError:
        pass


@cache
def _package() -> str:
    """Says which version of the package this is, down to every change of a file."""
    root = Path(__file__).parent
    told = sorted((str(file.relative_to(root)), *_state(file)) for file in root.rglob("*.py"))
    return hashlib.blake2b(repr(told).encode(), digest_size=12).hexdigest()


def _state(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns
