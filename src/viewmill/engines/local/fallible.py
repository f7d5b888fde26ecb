"""Views whose output may be an error, a division by zero: the only ones that a batch has to be checked for."""

from __future__ import annotations

from collections.abc import Mapping

from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.sources import Source
from viewmill.engines.local.triggers import plan_reading
from viewmill.program.nodes import Program, ViewPlan


def fallible_views(program: Program, placed: Mapping[str, Source]) -> frozenset[str]:
    return frozenset(name for name, view in program.views.items() if _may_fail(view, placed))


def _may_fail(view: ViewPlan, placed: Mapping[str, Source]) -> bool:
    """Told from the code that would read it. What has no code is interpreted, and may do anything."""
    try:
        plan = plan_reading(view.name, view.output, view.columns, placed)
    except CannotLower:
        return True
    return any(function.fails for function in plan.lowered)
