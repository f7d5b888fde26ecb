"""Generated source on disk, so that its machine code is there for the next process.

Numba keeps compiled code beside the file a function comes from, so every kernel is a module of its own, named by its
fingerprint: the source, with the versions it was generated and compiled by. `VIEWMILL_CACHE` says where, else the
user's cache directory; where nothing can be written, a kernel is compiled for this process only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba

from viewmill.errors import InternalError

GENERATION = 1
"""Raise this when what generated code calls changes its meaning."""

_HEADER = """\
import numpy as np
from numba import njit
from numpy import float64, int64

from viewmill.engines.local.arithmetic import (
    add, bits, day_of, divide, double, grown, month_of, multiply, quarter_of, quotient, round_off, subtract, within,
    year_of,
)
from viewmill.engines.local.kernels import HIGH, after, find, first

NULL = int64(-(2**63))


@njit(cache={cache}, nogil=True)
"""


def directory() -> Path:
    chosen = os.environ.get("VIEWMILL_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "viewmill"
    return base / "kernels"


@lru_cache(maxsize=10_000)
def compiled(source: str) -> Callable[..., Any]:
    """The function `kernel` of the source, to be compiled when it is first called."""
    try:
        return _from_file(source)
    except OSError:
        names: dict[str, Any] = {}
        exec(compile(_HEADER.format(cache=False) + source, "<kernel>", "exec"), names)
        function: Callable[..., Any] = names["kernel"]
        return function


def _from_file(source: str) -> Callable[..., Any]:
    text = _HEADER.format(cache=True) + source
    mark = f"{GENERATION} {numba.__version__} {text}"
    name = "viewmill_kernel_" + hashlib.blake2b(mark.encode(), digest_size=12).hexdigest()
    path = directory() / f"{name}.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(text)
        draft.replace(path)  # a whole file or none, also with several processes at it
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InternalError(f"cannot load generated code from {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # machine code from the cache names the module it belongs to
    spec.loader.exec_module(module)
    function: Callable[..., Any] = module.kernel
    return function
