"""Drop stores that no view needs, directly or through other stores, and the statements that fill them."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.schema import deltas, relations
from viewmill.program.nodes import Program, Statement, Trigger


def drop_dead_stores(program: Program) -> Program:
    statements = [s for trigger in program.triggers.values() for s in trigger.statements]
    alive = frozenset().union(*(relations(view.output) for view in program.views.values()))
    while True:
        more = alive.union(*(relations(s.expr) for s in statements if s.target in alive))
        if more == alive:
            break
        alive = more
    triggers = {name: _kept(trigger, alive) for name, trigger in program.triggers.items()}
    stores = {name: store for name, store in program.stores.items() if name in alive}
    read = frozenset().union(*(relations(store.definition) for store in stores.values()))
    return replace(
        program,
        stores=stores,
        triggers={name: trigger for name, trigger in triggers.items() if trigger.statements},
        fields={name: fields for name, fields in program.fields.items() if name in read},
    )


def _kept(trigger: Trigger, alive: frozenset[str]) -> Trigger:
    kept = [s for s in trigger.statements if s.target in alive]
    changes = frozenset().union(*(deltas(s.expr) for s in kept)) if kept else frozenset()
    return Trigger(trigger.relation, tuple(s for s in kept if not _is_idle(s, changes)))


def _is_idle(statement: Statement, changes: frozenset[str]) -> bool:
    """A `let` that nobody reads."""
    return statement.op == "let" and statement.target not in changes
