"""Plans that are kept on disk, beside the machine code of their functions.

To plan the triggers of a large program takes a second. A process that starts has no such time, and does what another
one has done before: a plan is named by all that it is made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viewmill.cache import remembered
from viewmill.catalog import RelationInfo
from viewmill.engines.local.sources import Source
from viewmill.engines.local.triggers import TriggerPlan
from viewmill.program.nodes import Trigger


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
