"""Plans of triggers, which are kept on disk, beside the machine code of their functions.

To plan the triggers of a large program takes a second. A process that starts has no such time, and does what another
one has done before: a plan is named by all that it is made from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from viewmill.cache import remembered
from viewmill.catalog import Catalog, RelationInfo
from viewmill.engines.local.compilers import compile_all
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.sources import Source
from viewmill.engines.local.triggers import TriggerPlan, plan_trigger
from viewmill.program.nodes import Program, Trigger


class Plans:
    """The plans of a program whose stores are placed, each made when it is first asked for."""

    def __init__(self, program: Program, catalog: Catalog, placed: Mapping[str, Source], *, exact: bool) -> None:
        self._program, self._catalog, self._placed, self._exact = program, catalog, placed, exact
        self._made: dict[str, TriggerPlan] = {}

    def of(self, relation: str) -> TriggerPlan:
        """`CannotLower`: there is none."""
        if relation not in self._made:
            info, trigger = self._catalog.relations[relation], self._program.triggers[relation]

            def make() -> TriggerPlan:
                return plan_trigger(self._program, info, self._placed, exact=self._exact)

            self._made[relation] = known_plan(trigger, info, self._placed, self._exact, make)
        return self._made[relation]

    def compile(self, relations: Collection[str]) -> None:
        """Compile their functions together: that takes less time than one after the other."""
        sources: list[str] = []
        for relation in relations:
            with suppress(CannotLower):
                sources += [lowered.source for lowered in self.of(relation).lowered]
        compile_all(sources)


def known_plan(
    trigger: Trigger, info: RelationInfo, placed: Mapping[str, Source], exact: bool, make: Callable[[], TriggerPlan]
) -> TriggerPlan:
    """The plan of a trigger, which `make` makes if it is not known."""
    sources = [_told(placed[name]) for name in sorted(placed)]
    return remembered("plan", (trigger, info, sources, exact), TriggerPlan, make)


def _told(source: Source) -> tuple[object, ...]:
    """All that a source is, with its sets in order."""
    place = source.name, source.kind, source.keys, source.types, source.weight, source.pool, source.lane, source.lanes
    return *place, sorted(source.nullable), source.counts, sorted(map(sorted, source.single))
