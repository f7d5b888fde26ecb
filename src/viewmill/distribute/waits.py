"""Whether stores can be one without anybody waiting longer for it, whatever a batch changes.

    supplier (block 2): ... W(...) ...       lineitem: W += ...     N += ...       orders: ... N(...) ...

If N is read from W, orders wait for suppliers: they read what W is after lineitem, and suppliers what it was before.
So who reads one store before it changes now comes before who reads the other one after that, and none else waits.

Law: if, for all of these, the first runs in no later block than the second does in a batch of its relation alone, then
nobody runs later than he would otherwise, in any batch. For a batch of all relations has the first run at its latest:
others have less to wait for. (What is evaluated anew may be put off until the end of a batch, and counts as both.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from viewmill.algebra.schema import relations
from viewmill.distribute.units import ANEW, Unit, timing


@dataclass
class Waits:
    """The work of a program, and the order in which changes of relations take effect."""

    units: Sequence[Unit]
    order: Sequence[str]

    def can_be_one(self, stores: Collection[str], other: str, relation: str) -> bool:
        """Whether these, which are one, and another can, all of which change with a relation."""
        pairs = ((first, second) for store in stores for first, second in ((store, other), (other, store)))
        return all(self._can_follow(first, second, relation) for first, second in pairs)

    def _can_follow(self, first: str, second: str, relation: str) -> bool:
        before = self._before(first, relation) - self._before(second, relation)
        after = self._after(second, relation) - self._after(first, relation)
        return all(i == j or self._latest[i] <= self._earliest[j] for i in before for j in after)

    def _before(self, store: str, relation: str) -> set[int]:
        """Who reads a store before it changes with a relation."""
        end = self._rank[relation]
        return {i for i in self._readers(store) if self._is_anew(i) or self._rank[self.units[i].relation] <= end}

    def _after(self, store: str, relation: str) -> set[int]:
        end = self._rank[relation]
        return {i for i in self._readers(store) if self._is_anew(i) or self._rank[self.units[i].relation] > end}

    def _is_anew(self, i: int) -> bool:
        return self.units[i].turn >= ANEW

    def _readers(self, store: str) -> list[int]:
        return self._by_store.get(store, [])

    @cached_property
    def _by_store(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i, unit in enumerate(self.units):
            for name in frozenset().union(*map(relations, unit.exprs)):
                found.setdefault(name, []).append(i)
        return found

    @cached_property
    def _rank(self) -> dict[str, int]:
        return {relation: i for i, relation in enumerate(self.order)}

    @cached_property
    def _latest(self) -> Sequence[int]:
        return timing(self.units).timed(self.order).blocks

    @cached_property
    def _earliest(self) -> dict[int, int]:
        """The block of each in a batch that changes nothing but its relation."""
        found: dict[int, int] = {}
        for relation in self.order:
            mine = [i for i, unit in enumerate(self.units) if unit.relation == relation]
            found |= zip(mine, timing([self.units[i] for i in mine]).timed((relation,)).blocks, strict=True)
        return found
