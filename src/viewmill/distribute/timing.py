"""When each piece of work can run: in which block, and in which order (Hot Dog, appendix C.3).

The changes of several relations take effect one after the other. What reads a store for a relation does so after
everything that an earlier relation does to it, and before all that this one and later ones do. Adding to a store
commutes with adding to it; all else that concerns one store is in the order of relations and turns. What takes a change
that was sent runs in a later block than what sent it, unless it came from the source.

Which relation comes first is ours to choose, and decides how many blocks there are: the order is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import groupby, pairwise, permutations

from viewmill.distribute.nodes import Mode, Use
from viewmill.errors import InternalError

EXHAUSTIVE = 4
"""So many relations at most are tried in every order."""


@dataclass(frozen=True, slots=True)
class Work:
    """What takes changes that arrived, gives changes to be sent, and uses stores."""

    relation: str
    mode: Mode
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Timed:
    """A block number for each piece of work (the source is 0), and one order for all of them."""

    blocks: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def depth(self) -> int:
        return max(self.blocks, default=0)


@dataclass
class Timing:
    """All work of a batch. The driver's runs in a block after all others, and is counted as block 0."""

    works: Sequence[Work]

    @cached_property
    def _makers(self) -> dict[str, int]:
        return {name: i for i, work in enumerate(self.works) for name in work.gives}

    @cached_property
    def _by_store(self) -> dict[str, list[tuple[int, Use]]]:
        found: dict[str, list[tuple[int, Use]]] = {}
        for i, work in enumerate(self.works):
            for use in work.uses:
                found.setdefault(use.store, []).append((i, use))
        return {
            store: uses
            for store, uses in found.items()
            if len({i for i, _ in uses}) > 1 and any(use.kind != "read" for _, use in uses)
        }

    def edges(self, order: Sequence[str]) -> list[set[int]]:
        """For each piece of work, those that must not run before it."""
        rank = {relation: i for i, relation in enumerate(order)}
        after: list[set[int]] = [set() for _ in self.works]
        for uses in self._by_store.values():
            for earlier, later in pairwise(self._runs(uses, rank)):
                for i in earlier:
                    after[i] |= later - {i}
        return after

    def _runs(self, uses: Sequence[tuple[int, Use]], rank: Mapping[str, int]) -> list[set[int]]:
        """Who uses a store, in turn: all readers at once until it is added to, all who add to it until it is read."""
        in_turn = sorted((rank[self.works[i].relation], use.turn, use.kind, i) for i, use in uses)
        runs: list[set[int]] = []
        last = ""
        for _, phase in groupby(in_turn, key=lambda use: use[:2]):
            at_once = list(phase)
            kind, *others = {use[2] for use in at_once}
            if kind != last or kind == "set" or others:
                runs.append(set())
            runs[-1].update(use[3] for use in at_once)
            last = "set" if others else kind
        return runs

    def timed(self, order: Sequence[str], *, fused: bool = True) -> Timed:
        after = self.edges(order)
        for i, work in enumerate(self.works):
            for name in work.takes:
                if name in self._makers:
                    after[self._makers[name]].add(i)
        rank = {relation: i for i, relation in enumerate(order)}
        waiting = [0] * len(self.works)
        for followers in after:
            for j in followers:
                waiting[j] += 1
        block = [1 if work.mode == "buckets" else 0 for work in self.works]
        done: dict[int, int] = {}
        sequence: list[int] = []
        ready: list[tuple[int, int, int]] = []
        for i, count in enumerate(waiting):
            if not count:
                heappush(ready, (block[i], rank[self.works[i].relation], i))
        last = 0
        while ready:
            _, _, i = heappop(ready)
            if not fused and self.works[i].mode == "buckets":
                block[i] = last = max(block[i], last + 1)
            done[i] = block[i]
            sequence.append(i)
            for j in after[i]:
                waiting[j] -= 1
                if self.works[j].mode == "buckets":
                    sent = any(self._makers.get(name) == i for name in self.works[j].takes)
                    block[j] = max(block[j], block[i] + 1 if sent else block[i])
                if not waiting[j]:
                    heappush(ready, (block[j], rank[self.works[j].relation], j))
        if len(sequence) < len(self.works):
            stuck = sorted({self.works[i].relation for i in range(len(self.works)) if i not in done})
            raise InternalError(f"the changes of {', '.join(stuck)} wait for each other")
        return Timed(tuple(block), tuple(sequence))

    def best_order(self) -> tuple[str, ...]:
        """An order of relations with as few blocks as can be found, and little that waits."""
        relations = sorted({work.relation for work in self.works})

        def cost(order: Sequence[str]) -> tuple[int, int]:
            timed = self.timed(order)
            return timed.depth, sum(timed.blocks)

        if len(relations) <= EXHAUSTIVE:
            return min(permutations(relations), key=cost, default=())
        return _climb(tuple(relations), cost)


def _climb(order: tuple[str, ...], cost: Callable[[Sequence[str]], tuple[int, int]]) -> tuple[str, ...]:
    """Move one relation at a time to where it is best, until nothing gets better."""
    best, least = order, cost(order)
    while True:
        start = least
        for relation in order:
            others = [name for name in best if name != relation]
            for place in range(len(order)):
                tried = (*others[:place], relation, *others[place:])
                if tried != best and (found := cost(tried)) < least:
                    best, least = tried, found
        if least == start:
            return best
