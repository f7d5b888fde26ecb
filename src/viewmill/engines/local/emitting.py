"""Room for the rows that generated code emits."""

from __future__ import annotations

from viewmill.engines.local.layout import EMITTED, GROW_OUT
from viewmill.engines.local.raw import Int, peek, poke
from viewmill.engines.local.records import grow
from viewmill.engines.local.wordcode import words


@words
def is_full(block: Int, rows: Int, flags: Int) -> Int:
    """Make room for more than the `rows` that are there; if there is none to be had, that is flagged, and not 0."""
    poke(block, EMITTED, rows)
    full = grow(block, GROW_OUT, 0)
    poke(flags, 0, peek(flags, 0) | full)
    return full
