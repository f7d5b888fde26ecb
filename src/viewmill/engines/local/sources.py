"""What statements read and write, as compiled code sees it: pools with lanes, and the columns of a batch.

Stores that differ only in what they add up share one pool, so that a row finds its record once for all of them: each
is a *lane* of the pool's records. The changes named by `let` are pools, too. A pending batch is columns, read once from
first to last; what needs it in another way reads a `let` of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from viewmill.algebra.nodes import DeltaRelation, Relation
from viewmill.types import Type

Atom = Relation | DeltaRelation


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to read.

    `nullable` are the keys that may be NULL; `counts`: its weights are numbers of rows, 0 or more; `single` are sets of
    keys of which each is found in one record at most. `exact`: a row of the batch that another one takes away is none.
    """

    name: str
    kind: Literal["store", "let", "batch"]
    keys: tuple[str, ...]
    types: tuple[Type, ...]
    weight: Type
    pool: str
    lane: int = 0
    lanes: int = 1
    nullable: frozenset[str] = frozenset()
    counts: bool = False
    single: tuple[frozenset[str], ...] = ()
    exact: bool = False

    @property
    def stride(self) -> int:
        """Words from one record of the pool to the next."""
        return len(self.keys) + self.lanes


Sources = Callable[[Atom], Source]
