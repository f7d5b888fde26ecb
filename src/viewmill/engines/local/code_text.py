"""The code of a program as readers see it: `explain(stage="code")`."""

from __future__ import annotations

from collections.abc import Iterator

from viewmill.catalog import Catalog
from viewmill.engines.local.placement import place
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.sources import Source
from viewmill.engines.local.triggers import TriggerPlan, plan_reading, plan_trigger
from viewmill.program.nodes import Program


def code_text(program: Program, catalog: Catalog) -> str:
    """The pools, and the functions of every trigger and of every view's output."""
    placed = place(program, program.stores, catalog)
    lines = list(_pools(placed))
    for relation in program.triggers:
        lines += ["", f"# on {relation}", *_functions(plan_trigger(program, catalog.relations[relation], placed))]
    for name, view in program.views.items():
        lines += ["", f"# read {name}"]
        try:
            lines += _functions(plan_reading(name, view.output, view.columns, placed))
        except CannotLower as reason:
            lines.append(f"# interpreted: there is no code for {reason}")
    return "\n".join(lines)


def _pools(placed: dict[str, Source]) -> Iterator[str]:
    for pool in dict.fromkeys(source.pool for source in placed.values()):
        lanes = sorted((s for s in placed.values() if s.pool == pool), key=lambda source: source.lane)
        kinds = ", ".join(f"{source.name} {source.weight}" for source in lanes)
        yield f"# pool {pool}({', '.join(lanes[0].keys)}): {kinds}"


def _functions(plan: TriggerPlan) -> Iterator[str]:
    for one in plan.interpreted:
        yield f"# {one.statement.target} is interpreted: there is no code for {one.reason}"
    for function in plan.lowered:
        yield function.source.rstrip()
