"""Drop stores that no view needs, directly or through other stores, and the statements that fill them."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.schema import deltas, relations
from viewmill.program.nodes import Program, Statement, Trigger


def drop_dead_stores(program: Program) -> Program:
    alive = frozenset().union(*(relations(view.output) for view in program.views.values()))
    while True:
        triggers = {name: needed(trigger, alive) for name, trigger in program.triggers.items()}
        more = alive.union(*(relations(s.expr) for trigger in triggers.values() for s in trigger.statements))
        if more == alive:
            break
        alive = more
    stores = {name: store for name, store in program.stores.items() if name in alive}
    read = frozenset().union(*(relations(store.definition) for store in stores.values()))
    return replace(
        program,
        stores=stores,
        triggers={name: trigger for name, trigger in triggers.items() if trigger.statements},
        fields={name: fields for name, fields in program.fields.items() if name in read},
    )


def needed(trigger: Trigger, alive: frozenset[str], sent: frozenset[str] = frozenset()) -> Trigger:
    """The statements for stores that are alive and `let`s that are sent on, and every `let` that one of these reads."""
    kept: list[Statement] = []
    for s in reversed(trigger.statements):  # a `let` stands before those who read it
        if s.target in (sent if s.op == "let" else alive):
            kept.append(s)
            sent |= deltas(s.expr)
    return Trigger(trigger.relation, tuple(reversed(kept)))
