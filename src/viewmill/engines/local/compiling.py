"""How Python functions become machine code with Numba.

Numba keeps what it compiled on disk and makes it anew when the file of the function changes, but not when a file it
calls into does. A C function is therefore kept under a name that holds a fingerprint of all the sources here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.extending

F = TypeVar("F", bound=Callable[..., Any])

_SOURCES = (
    "raw",
    "layout",
    "wordcode",
    "libraries",
    "hashing",
    "tables",
    "records",
    "chains",
    "lanes",
    "ordered_loops",
    "journal",
    "merging",
    "kernels",
    "lookup",
    "interning",
    "column_loops",
    "arithmetic",
    "emitting",
    "string_tables",
    "ordered_lookup",
)

# Parts are not called from Python, and take half as long to compile without what that needs.
_PART: dict[str, Any] = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}


def intrinsic(generate: Callable[..., Any]) -> Any:
    """Numba's, but typed as what it makes: something to call with words, not with what generates them."""
    return numba.extending.intrinsic(generate)


def kernel(function: F) -> F:
    """Compile on first use, keep the machine code on disk, and let other threads run meanwhile."""
    return cast(F, _kept(lambda keep: numba.njit(cache=keep, nogil=True, error_model="numpy")(function)))


def inlined(function: F) -> F:
    """A piece of other functions, that only ever exists as a part of them."""
    return cast(F, numba.njit(**_PART, forceinline=True)(function))


def piece(function: F) -> F:
    """As `inlined`, for what is too large to be there twice: compiled code calls it, unless it is called only once."""
    return cast(F, numba.njit(**_PART)(function))


@cache
def fingerprint() -> str:
    """Of everything that C functions are made from."""
    digest = hashlib.blake2b(digest_size=8)
    for name in _SOURCES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()


def _kept(compile_: Callable[[bool], Any]) -> Any:
    try:
        return compile_(True)
    except RuntimeError:  # no directory can be written: compiled for this process only
        return compile_(False)
