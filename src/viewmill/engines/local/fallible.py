"""Views whose output may be an error, a division by zero: the only ones that a batch has to be checked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.sources import Source
from viewmill.engines.local.triggers import plan_reading
from viewmill.program.nodes import Program, ViewPlan


@dataclass(frozen=True, slots=True)
class Fallible:
    """Those that may be in error `always`, and those that may be `if_large`: if a store has very many records."""

    always: frozenset[str]
    if_large: frozenset[str]

    @property
    def ever(self) -> frozenset[str]:
        return self.always | self.if_large


def fallible_views(program: Program, placed: Mapping[str, Source]) -> Fallible:
    found = {name: _may_fail(view, placed) for name, view in program.views.items()}
    always, if_large = (frozenset(name for name, pair in found.items() if pair[which]) for which in (0, 1))
    return Fallible(always, if_large - always)


def _may_fail(view: ViewPlan, placed: Mapping[str, Source]) -> tuple[bool, bool]:
    """Told from the code that would read it. What has no code is interpreted, and may do anything."""
    try:
        plan = plan_reading(view.name, view.output, view.columns, placed)
    except CannotLower:
        return True, True
    return any(f.fails for f in plan.lowered), any(f.fails_if_large for f in plan.lowered)
