"""Programs as text, the way `explain` shows them. `parse.py` reads it back.

store M_ST(b) = Sum[b](S(b, c) * T(c, d))          -- get by b
on R:
  Q(b) += Sum[b](d_R(a, b) * M_ST(b))              -- recursive
view v(b, n) = Q(b) * (n := ...)
"""

from __future__ import annotations

from viewmill.algebra.nodes import DeltaRelation, Relation
from viewmill.algebra.text import show as show_expr
from viewmill.algebra.text import show_name
from viewmill.program.access import accesses
from viewmill.program.nodes import Program, Statement, Store, Trigger, ViewPlan


def show(program: Program, view: str | None = None) -> str:
    """The whole program, or the part that one view needs."""
    if view is not None:
        from viewmill.program.dead_stores import drop_dead_stores

        program = drop_dead_stores(_only(program, view))
    ways = accesses(program)
    lines = [show_view(plan) for plan in program.views.values()]
    for store in program.stores.values():
        lines.append(f"{show_store(store)}{_note(', '.join(map(str, ways[store.name])))}")
    for trigger in program.triggers.values():
        lines += ["", *show_trigger(trigger)]
    return "\n".join(lines)


def _only(program: Program, view: str) -> Program:
    return Program(program.stores, program.triggers, {view: program.views[view]}, program.fields)


def _note(text: str) -> str:
    return f"  -- {text}" if text else ""


def show_view(view: ViewPlan) -> str:
    return f"view {_head(view.name, view.columns)} = {show_expr(view.output)}"


def show_store(store: Store) -> str:
    return f"store {_head(store.name, store.keys)} = {show_expr(store.definition)}"


def _head(name: str, vars_: tuple[str, ...]) -> str:
    return show_expr(Relation(name, vars_, vars_))


def show_trigger(trigger: Trigger) -> list[str]:
    return [f"on {show_name(trigger.relation)}:", *(f"  {show_statement(s)}" for s in trigger.statements)]


def show_statement(s: Statement) -> str:
    change = show_expr(DeltaRelation(s.target, s.vars, s.vars))
    head = f"let {change} =" if s.op == "let" else f"{_head(s.target, s.vars)} {s.op}"
    note = _note(f"re-evaluated: {s.reason}") if s.op == ":=" else ""
    return f"{head} {show_expr(s.expr)}{note}"
