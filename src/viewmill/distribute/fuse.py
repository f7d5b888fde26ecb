"""Block fusion: what can run at one time runs together (Hot Dog, section 4.3.2 and appendix C.3).

    orders@o_orderkey: M += ...        orders@o_orderkey: N += ...     lineitem@o_orderkey: L += ...
=>  one block, with one trigger on orders@o_orderkey for both, and one on lineitem@o_orderkey

Statements that take the same change share a trigger if nothing has to happen between them. Without this pass every
statement has a trigger, and every trigger a block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from viewmill.distribute.timing import Timed
from viewmill.distribute.units import CLEAR, Unit
from viewmill.errors import InternalError


def fuse(units: Sequence[Unit], timed: Timed, after: Sequence[set[int]]) -> Iterator[list[int]]:
    """Units that share a trigger: the same change, in the same block, with nothing to wait for in between."""
    before: list[set[int]] = [set() for _ in units]
    for i, followers in enumerate(after):
        for j in followers:
            before[j].add(i)
    for mode in ("source", "buckets", "driver"):
        for block in sorted({timed.blocks[i] for i in timed.order if units[i].mode == mode}):
            here = [i for i in timed.order if units[i].mode == mode and timed.blocks[i] == block]
            yield from _grouped(here, before, lambda i: _key(units[i]))


def one_by_one(units: Sequence[Unit], timed: Timed, _after: Sequence[set[int]]) -> Iterator[list[int]]:
    """Every statement by itself; but at the source, a relation has one trigger."""
    at_source: dict[str, list[int]] = {}
    for i in timed.order:
        if units[i].mode == "source":
            at_source.setdefault(units[i].relation, []).append(i)
    yield from at_source.values()
    yield from ([i] for i in timed.order if units[i].mode != "source")


def _key(unit: Unit) -> Hashable:
    last = unit.turn >= CLEAR  # what is set rather than added to is so by itself
    return unit.relation, unit.takes, unit.is_tick, unit.statement.target if last else ""


def _grouped(here: Sequence[int], before: Sequence[set[int]], key: Callable[[int], Hashable]) -> Iterator[list[int]]:
    """Pieces of work that can be done at once, as many as possible each time."""
    waiting = set(here)
    keyed: dict[Hashable, list[int]] = {}
    for i in here:
        keyed.setdefault(key(i), []).append(i)
    while waiting:
        best: list[int] = []
        for members in keyed.values():
            if len(members) > len(best):
                group = _free(members, before, waiting)
                best = group if len(group) > len(best) else best
        if not best:
            raise InternalError("statements wait for each other")
        yield best
        waiting -= set(best)
        keyed[key(best[0])] = [i for i in keyed[key(best[0])] if i in waiting]


def _free(members: Sequence[int], before: Sequence[set[int]], waiting: set[int]) -> list[int]:
    """Those that wait for nobody, or only for each other."""
    group: set[int] = set()
    for i in members:
        if not (before[i] & waiting) - group:
            group.add(i)
    return [i for i in members if i in group]
