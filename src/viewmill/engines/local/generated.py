"""Generated source becomes machine code, kept on disk for the next process.

The source that `lower.py` writes is Python of words and doubles (`wordcode.py`), with the functions below to call. Its
machine code is named by a fingerprint of the source, of what it calls and of the compiler.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from viewmill.engines.local import arithmetic, emitting, layout, lookup, ordered_lookup, polling, raw, string_tables
from viewmill.engines.local.libraries import CFunction, Library
from viewmill.engines.local.scalars import NULL
from viewmill.engines.local.wordcode import SourceFunction

_NAMES: dict[str, Any] = {
    "NULL": NULL,
    "is_full": emitting.is_full,
    "let_in": polling.let_in,
    "min": min,
    "look_up": string_tables.look_up,
    **{name: getattr(raw, name) for name in ("add", "call", "double", "multiply", "peek", "poke", "subtract")},
    **{name: getattr(lookup, name) for name in ("after", "alive", "find", "first")},
    **ordered_lookup.NAMES,
    **{name: value for name, value in vars(layout).items() if name.isupper()},
    **{name: value for name, value in vars(arithmetic).items() if not name.startswith("_")},
}


@lru_cache(maxsize=10_000)
def compiled(source: str) -> CFunction:
    """The function `run(env, batch, rows, flags)` of the source."""
    name = "code-" + hashlib.blake2b(source.encode(), digest_size=12).hexdigest()
    return Library(name, waits=True).export(SourceFunction(source, _NAMES))
