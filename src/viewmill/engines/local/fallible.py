"""Views whose output may be an error, a division by zero: the only ones that a batch has to be checked for."""

from __future__ import annotations

from viewmill.catalog import Catalog
from viewmill.engines.local.placement import place
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.triggers import plan_reading
from viewmill.program.nodes import Program


def fallible(program: Program, catalog: Catalog) -> frozenset[str]:
    """Told from the code that reads each view. What has no code is interpreted, and may do anything."""
    placed = place(program, program.stores, catalog)

    def may_fail(name: str) -> bool:
        view = program.views[name]
        try:
            plan = plan_reading(name, view.output, view.columns, placed)
        except CannotLower:
            return True
        return any(function.fails for function in plan.lowered)

    return frozenset(name for name in program.views if may_fail(name))
