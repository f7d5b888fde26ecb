"""Arithmetic of weights: a lane holds int64s, or doubles by their bits."""

from __future__ import annotations

from viewmill.engines.local.raw import Int, bits, double
from viewmill.engines.local.wordcode import inlined_words


@inlined_words
def is_double(doubles: Int, lane: Int) -> Int:
    return doubles >> lane & 1


@inlined_words
def lane_sum(old: Int, delta: Int, real: Int) -> Int:
    if real:
        return bits(double(old) + double(delta) + 0.0)  # -0.0 + 0.0 is 0.0
    return old + delta


@inlined_words
def wraps(old: Int, delta: Int, new: Int, real: Int) -> Int:
    """Negative if the sum of integers did not fit."""
    return 0 if real else (old ^ new) & (delta ^ new)
