"""The part of a distributed program that one view needs, as it runs among all others.

    view a(k, v) = A(k, v)
    view b(k, v) = B(k, v)                                            view a(k, v) = A(k, v)
    on `orders@k`:  A += ... M(k) ...   B += ...   M += ...    =>     on `orders@k`:  A += ... M(k) ...   M += ...

What is kept is what follows from the view: the stores that it reads, the statements for them, what these read or take,
and whoever makes and sends that. So stores are where they are, and what several views share is seen with each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from viewmill.algebra.schema import relations
from viewmill.distribute.nodes import Distributed, Fire, Mode
from viewmill.program.dead_stores import needed
from viewmill.program.nodes import Program, Trigger

_MODES: tuple[Mode, ...] = ("source", "buckets", "driver")


def part_of(distributed: Distributed, view: str) -> Distributed:
    part = _Part(distributed, _read_by(distributed, view), frozenset())
    while (more := part.grown()) != part:
        part = more
    return part.cut(view)


@dataclass(frozen=True, slots=True)
class _Part:
    """Stores that are needed, and `let`s that are sent to where they are needed."""

    distributed: Distributed
    stores: frozenset[str]
    sent: frozenset[str]

    def grown(self) -> _Part:
        """With what those need that make these."""
        whole, kept = self.distributed, list(self._kept())
        read = [relations(s.expr) for trigger in kept for s in trigger.statements]
        read += [_read_by(whole, trigger.relation) for trigger in kept if trigger.relation in whole.views]
        taken = {name for fire in self._fires() for name in fire.takes}
        makers = {send.source for fire in whole.fires for send in fire.sends if send.info.name in taken}
        return replace(self, stores=self.stores.union(*read), sent=self.sent | makers)

    def cut(self, view: str) -> Distributed:
        """With the views that it reads."""
        whole, fires = self.distributed, list(self._fires())
        views = {view} | ({trigger.relation for trigger in self._kept()} & whole.views.keys())
        taken = {name for fire in fires for name in fire.takes}
        served = {fire.relation for fire in fires}
        return replace(
            whole,
            places={name: place for name, place in whole.places.items() if name in self.stores},
            source=self._program("source", views),
            buckets=self._program("buckets", views),
            driver=self._program("driver", views),
            views={name: place for name, place in whole.views.items() if name in views},
            incoming=tuple(send for send in whole.incoming if send.info.name in taken),
            fires=tuple(replace(f, sends=tuple(s for s in f.sends if s.info.name in taken)) for f in fires),
            order=tuple(name for name in whole.order if name in served),
            reasons={name: why for name, why in whole.reasons.items() if name in self.stores},
        )

    def _fires(self) -> Iterator[Fire]:
        return (fire for fire in self.distributed.fires if self._trigger(fire.mode, fire.name).statements)

    def _kept(self) -> Iterator[Trigger]:
        """Triggers of all places. On the driver some follow views that other views read."""
        for mode in _MODES:
            for name in self._of(mode).triggers:
                if (trigger := self._trigger(mode, name)).statements:
                    yield trigger

    def _trigger(self, mode: Mode, name: str) -> Trigger:
        return needed(self._of(mode).triggers[name], self.stores, self.sent)

    def _of(self, mode: Mode) -> Program:
        match mode:
            case "source":
                return self.distributed.source
            case "buckets":
                return self.distributed.buckets
            case _:
                return self.distributed.driver

    def _program(self, mode: Mode, views: Collection[str]) -> Program:
        whole = self._of(mode)
        triggers = {name: self._trigger(mode, name) for name in whole.triggers}
        return replace(
            whole,
            stores={name: store for name, store in whole.stores.items() if name in self.stores},
            triggers={name: trigger for name, trigger in triggers.items() if trigger.statements},
            views={name: plan for name, plan in whole.views.items() if name in views},
        )


def _read_by(distributed: Distributed, view: str) -> frozenset[str]:
    """The stores that a view is made of."""
    programs = distributed.buckets, distributed.driver
    return frozenset().union(*(relations(p.views[view].output) for p in programs if view in p.views))
