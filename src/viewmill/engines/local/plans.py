"""Plans that are kept on disk, beside the machine code of their functions.

To plan the triggers of a large program takes a second. A process that opens a bucket has no such time, and does what
another one has done before: a plan is named by a fingerprint of all that it is made from.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Mapping

from viewmill.catalog import RelationInfo
from viewmill.engines.local.codecache import directory
from viewmill.engines.local.libraries import fingerprint, keep
from viewmill.engines.local.sources import Source
from viewmill.engines.local.triggers import TriggerPlan
from viewmill.program.nodes import Trigger


def known_plan(
    trigger: Trigger, info: RelationInfo, placed: Mapping[str, Source], make: Callable[[], TriggerPlan]
) -> TriggerPlan:
    """The plan of a trigger, which `make` makes if it is not known."""
    path = directory() / f"plan-{_mark(trigger, info, placed)}.pickle"
    try:
        plan = pickle.loads(path.read_bytes())
        if isinstance(plan, TriggerPlan):
            return plan
    except Exception:  # it is not there, or cut off, or who knows what
        pass
    plan = make()
    keep(path, pickle.dumps(plan))
    return plan


def _mark(trigger: Trigger, info: RelationInfo, placed: Mapping[str, Source]) -> str:
    sources = [_told(placed[name]) for name in sorted(placed)]
    made_from = repr((trigger, info, sources, fingerprint(), sys.version))
    return hashlib.blake2b(made_from.encode(), digest_size=12).hexdigest()


def _told(source: Source) -> tuple[object, ...]:
    """All that a source is, with its sets in order."""
    place = source.name, source.kind, source.keys, source.types, source.weight, source.pool, source.lane, source.lanes
    return *place, sorted(source.nullable), source.counts, sorted(map(sorted, source.single))
