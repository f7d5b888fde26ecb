"""Room for the rows that generated code emits."""

from __future__ import annotations

from viewmill.engines.local.layout import EMITTED, GROW, GROW_OUT, NEEDED, POOL
from viewmill.engines.local.raw import FULL, Int, call, peek, poke
from viewmill.engines.local.wordcode import words


@words
def is_full(block: Int, rows: Int, flags: Int) -> Int:
    """Make room for more than the `rows` that are there; 1, and flagged, if there is none to be had."""
    poke(block, EMITTED, rows)
    poke(block, NEEDED, 0)
    if call(peek(block, GROW), peek(block, POOL), GROW_OUT) == 0:
        return 0
    poke(flags, 0, peek(flags, 0) | FULL)
    return 1
