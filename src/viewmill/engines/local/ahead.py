"""What every program needs is compiled by another process, while this one compiles its first view.

Machine code for pools is kept on disk, so this happens once for a version of the package. It takes a second or two, and
so does a view of many tables; what waits for it is `libraries.py`. Nothing is imported here that a mill with few rows
can do without.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from viewmill.cache import directory, keep, package

LIBRARY = "pools"
_PATIENCE = 60.0
_START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from viewmill.engines.local.ahead import compile_library; compile_library()"
)

_process: subprocess.Popen[bytes] | None = None


def start() -> None:
    """Have it compiled, unless it was."""
    global _process
    if _process is not None or _mark().exists() or not Path(sys.executable or "").name.startswith("python"):
        return
    keep(_mark(), b"")  # one process is enough, and whoever finds no machine code makes it
    if not _mark().exists():  # nothing can be kept here
        return
    with suppress(OSError):
        _process = subprocess.Popen(
            [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert _process.stdin is not None
        with _process.stdin as pipe:
            pickle.dump(sys.path, pipe)


def wait() -> None:
    """Until there is nothing to wait for."""
    if _process is not None:
        with suppress(subprocess.TimeoutExpired):
            _process.wait(_PATIENCE)


def compile_library() -> None:
    """In the other process."""
    from viewmill.engines.local.kernels import merge

    merge.prepare()


def _mark() -> Path:
    return directory() / f"{LIBRARY}-ahead-{package()}"
