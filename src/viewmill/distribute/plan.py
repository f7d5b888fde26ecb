"""What a batch over some relations does: the triggers that concern it, put in as few blocks as they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from viewmill.distribute.nodes import Block, Distributed, Fire, Here, Mode, Plan, Send
from viewmill.distribute.timing import Timed, Timing, Work
from viewmill.distribute.units import ANEW

AT_THE_END = ""
"""In the place of a relation: what is evaluated anew once, when all relations have changed."""


def plan(distributed: Distributed, relations: Iterable[str]) -> Plan:
    """The blocks for a batch that changes these relations, and no others."""
    present = tuple(name for name in distributed.order if name in set(relations))
    fires = _deferred(_concerned(distributed, present), present)
    works = [Work(f.relation, f.mode, f.takes, tuple(s.info.name for s in f.sends), f.uses) for f in fires]
    timed = Timing(works).timed((*present, AT_THE_END), fused=distributed.fused)
    sends = [send for send in distributed.incoming if send.source in present]
    return _Layout(distributed, fires, timed, _wanted(sends, fires)).plan(present)


def _concerned(distributed: Distributed, present: Sequence[str]) -> list[Fire]:
    """The triggers that something arrives for."""
    arrived = {send.info.name for send in distributed.incoming if send.source in present}
    left = [fire for fire in distributed.fires if fire.relation in present]
    found: list[Fire] = []
    while True:
        ready = [f for f in left if not f.takes or f.mode == "source" or arrived & set(f.takes)]
        if not ready:
            return found
        found += ready
        left = [fire for fire in left if fire not in ready]
        arrived |= {send.info.name for fire in ready for send in fire.sends}


def _deferred(fires: list[Fire], present: Sequence[str]) -> list[Fire]:
    """Of several `:=` of one store only the last, at the end, if nobody reads the store on the way."""
    anew = {f.name: use for f in fires for use in f.uses if use.kind == "set" and use.turn >= ANEW}
    late = {use.store for use in anew.values()}
    while True:
        early = [f for f in fires if f.name not in anew or anew[f.name].store not in late]
        read = {use.store for f in early for use in f.uses if use.kind == "read"}
        if not late & read:
            break
        late -= read
    in_turn = sorted(fires, key=lambda f: present.index(f.relation))
    last = {anew[f.name].store: f.name for f in in_turn if f.name in anew}
    found = []
    for fire in fires:
        use = anew.get(fire.name)
        if use is None or use.store not in late:
            found.append(fire)
        elif last[use.store] == fire.name:
            turn = ANEW + _rank(use.store, fires, late)
            found.append(replace(fire, relation=AT_THE_END, uses=tuple(replace(u, turn=turn) for u in fire.uses)))
    return found


def _rank(store: str, fires: Sequence[Fire], late: set[str]) -> int:
    """Re-evaluated stores that others read come before them."""
    reads = {
        use.store: {u.store for u in f.uses if u.kind == "read"} & late - {use.store}
        for f in fires
        for use in f.uses
        if use.kind == "set" and use.store in late
    }

    def depth(name: str, seen: frozenset[str]) -> int:
        return 1 + max((depth(below, seen | {name}) for below in reads.get(name, set()) - seen), default=0)

    return depth(store, frozenset())


def _wanted(sends: Sequence[Send], fires: Sequence[Fire]) -> list[Send]:
    taken = {name for fire in fires for name in fire.takes}
    return [send for send in sends if send.info.name in taken]


@dataclass
class _Layout:
    """The blocks: what fires in each, under which name, and what has to be carried from one to the next."""

    distributed: Distributed
    fires: Sequence[Fire]
    timed: Timed
    incoming: Sequence[Send]

    def plan(self, relations: tuple[str, ...]) -> Plan:
        source = self._source()
        buckets = [self._bucket_block(number) for number in range(1, self.timed.depth + 1)]
        driver = self._driver()
        return Plan(relations, (source, *buckets, *((driver,) if driver.fires else ())))

    def _of(self, mode: Mode, number: int | None = None) -> list[Fire]:
        return [
            self.fires[i]
            for i in self.timed.order
            if self.fires[i].mode == mode and (number is None or self.timed.blocks[i] == number)
        ]

    def _source(self) -> Block:
        fires = self._of("source")
        sends = [*self.incoming, *self._sends(fires)]
        return Block("source", tuple(f.name for f in fires), (), tuple(sends))

    def _bucket_block(self, number: int) -> Block:
        fires = self._of("buckets", number)
        held = [
            Send(name, self.distributed.infos[name], Here())
            for name, (first, last) in self._stays().items()
            if first <= number < last
        ]
        return Block("buckets", tuple(f.name for f in fires), self._within(fires), (*self._sends(fires), *held))

    def _driver(self) -> Block:
        fires = self._of("driver")
        return Block("driver", tuple(f.name for f in fires), self._within(fires), ())

    def _within(self, fires: Sequence[Fire]) -> tuple[Send, ...]:
        """Names for what arrived under another one."""
        ticks = self.distributed.ticks
        return tuple(
            Send(f.takes[0], self.distributed.infos[f.name], Here())
            for f in fires
            if f.name not in ticks and f.takes[0] != f.name
        )

    def _sends(self, fires: Sequence[Fire]) -> list[Send]:
        taken = {name for fire in self.fires for name in fire.takes}
        return [send for fire in fires for send in fire.sends if send.info.name in taken]

    def _stays(self) -> dict[str, tuple[int, int]]:
        """By what arrives in buckets: the block it arrives in, and the last one that takes it."""
        arrives = {send.info.name: 1 for send in self.incoming}
        for i, fire in enumerate(self.fires):
            arrives |= {send.info.name: self.timed.blocks[i] + 1 for send in fire.sends}
        last: dict[str, int] = {}
        for i, fire in enumerate(self.fires):
            if fire.mode == "buckets" and fire.name not in self.distributed.ticks:
                for name in fire.takes:
                    last[name] = max(last.get(name, 0), self.timed.blocks[i])
        return {name: (arrives[name], block) for name, block in last.items()}
