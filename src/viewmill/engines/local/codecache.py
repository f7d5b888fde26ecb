"""Generated source on disk, so that its machine code is there for the next process.

Numba keeps compiled code beside the file a function comes from, so every function is a module of its own, named by its
fingerprint: the source, the versions it was generated and compiled by, and the sources of what it calls.
`VIEWMILL_CACHE` says where, else the user's cache directory; where nothing can be written, it is compiled for this
process only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numba

from viewmill.engines.local.compiling import fingerprint
from viewmill.errors import InternalError

_HEADER = """\
from numba import cfunc
from numpy import float64, int64

from viewmill.engines.local.arithmetic import (
    below, bits, compare_texts, day_of, divide, month_of, quarter_of, quotient, remainder, round_off, same, truncated,
    whole_quotient, within, within_bits, year_of,
)
from viewmill.engines.local.emitting import is_full
from viewmill.engines.local.layout import EMITTED, HIGH, KEYS, MERGE, OUT, OUT_LIMIT, PUT, WEIGHTS
from viewmill.engines.local.lookup import after, alive, find, first
from viewmill.engines.local.raw import add, call, double, multiply, peek, poke, subtract
from viewmill.engines.local.string_tables import look_up

NULL = int64(-(2**63))


@cfunc("void(int64, int64, int64, int64)", cache={cache}, error_model="numpy")
"""



class Compiled(Protocol):
    """A C function, valid while this is kept."""

    address: int


def directory() -> Path:
    chosen = os.environ.get("VIEWMILL_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "viewmill"
    return base / "kernels"


def is_cached(source: str) -> bool:
    """Some process has compiled this source before, so that it is quick to load."""
    path = _path(source)
    return any(path.parent.glob(f"__pycache__/{path.stem}.*.nbc"))


@lru_cache(maxsize=10_000)
def compiled(source: str) -> Compiled:
    """The function `run` of the source."""
    try:
        return _from_file(source)
    except OSError:
        names: dict[str, Any] = {}
        exec(compile(_HEADER.format(cache=False) + source, "<generated>", "exec"), names)
        function: Compiled = names["run"]
        return function


@cache
def _library() -> str:
    """The code that generated code calls: if it changes, so does what was compiled with it."""
    here = Path(__file__).parent
    digest = hashlib.blake2b(fingerprint().encode(), digest_size=12)
    for name in ("arithmetic", "lookup", "interning", "string_tables", "wordcode", "emitting"):
        file = here / f"{name}.py"
        digest.update(file.read_bytes() if file.exists() else b"")
    return digest.hexdigest()


@lru_cache(maxsize=10_000)
def _path(source: str) -> Path:
    mark = f"{numba.__version__} {_library()} {_HEADER} {source}"
    name = "viewmill_" + hashlib.blake2b(mark.encode(), digest_size=12).hexdigest()
    return directory() / f"{name}.py"


def _from_file(source: str) -> Compiled:
    path = _path(source)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(_HEADER.format(cache=True) + source)
        draft.replace(path)  # a whole file or none, also with several processes at it
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InternalError(f"cannot load generated code from {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # machine code from the cache names the module it belongs to
    spec.loader.exec_module(module)
    function: Compiled = module.run
    return function
