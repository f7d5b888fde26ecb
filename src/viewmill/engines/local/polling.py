"""Compiled code that looks, now and then, whether readers wait (`gate.py`)."""

from __future__ import annotations

from viewmill.engines.local.gate import INTERRUPTED, NUMBER, PAUSE, PAUSED, WAITING
from viewmill.engines.local.raw import CHUNK, Int, call, peek, poke
from viewmill.engines.local.wordcode import inlined_words, words

POLL = 2**12
"""Rows of a batch between two looks, each of which may take as long as Python takes to get hold of its lock."""

# Words that compiled code is given: its flags, and where the gate is
FLAGS = 0
GATE = 1


@words
def let_in(flags: Int) -> None:
    """For compiled code, where readers find everything whole."""
    gate = peek(flags, GATE)
    # What has failed is undone soon; until then, what readers compute must not be taken for it.
    if gate != 0 and peek(gate, WAITING) != 0 and peek(flags, FLAGS) == 0:
        poke(gate, PAUSED, 0)
        call(peek(gate, PAUSE), peek(gate, NUMBER))
        if peek(gate, PAUSED) == 0:
            poke(flags, FLAGS, INTERRUPTED)


@inlined_words
def poll(polled: Int, number: Int) -> None:
    """The same for loops that are not always watched: `polled` are the flags, or 0. `number` counts in chunks."""
    if polled != 0 and number & (POLL - 1) < CHUNK:
        let_in(polled)
