"""What statements are lowered to: the source of a function, and what it needs around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from viewmill.engines.local.paths import Write
from viewmill.types import Type


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a function's environment: a pool's block, a string's code, a table's address, ..."""

    kind: Literal["pool", "slice", "order", "text", "table", "dictionary"]
    what: object = None


@dataclass(frozen=True, slots=True)
class Lowered:
    """Source of one function `run(env, batch, rows, flags)`, and what its environment holds."""

    source: str
    words: tuple[Word, ...]
    slices: tuple[tuple[str, tuple[int, ...]], ...]  # slice indexes it reads, by pool
    writes: tuple[str, ...]  # pools it emits into
    columns: frozenset[str]  # columns of the batch it reads
    fails: bool  # a row may be an error
    fails_if_large: bool  # a row may be an error if some store has more records than `magnitudes.MANY`


@dataclass(frozen=True, slots=True)
class Step:
    """Writes that run together. `then` is what happens to the rows they emit.

    They are kept for later, merged, put, or made a set of: merged, with the weight 1 for all that is there.
    """

    writes: tuple[Write, ...]
    then: Literal["", "merge", "put", "set"] = ""


class Weight(NamedTuple):
    """Source for a number, and its type: a decimal is its digits without the point."""

    text: str
    type: Type


Weights = list[Weight]
Then = Callable[[Weights], None]
"""What stands inside a loop: it is given the weights of a row, to be multiplied."""
