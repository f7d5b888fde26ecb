"""Any stage of any view, as text.

    sql        what the user wrote
    bound      every name resolved, every type known
    algebra    the query in the calculus
    delta      its change, relation by relation
    program    the stores and triggers that keep it
"""

from __future__ import annotations

from viewmill.algebra.text import show
from viewmill.definition import Definition
from viewmill.delta.derive import delta
from viewmill.errors import BindError, UnsupportedError
from viewmill.program.nodes import Program
from viewmill.program.text import show as show_program
from viewmill.rewrite.pipeline import simplify
from viewmill.sql.show import show as show_bound
from viewmill.wording import nearest, quoted

STAGES = ("sql", "bound", "algebra", "delta", "program")
_LATER = ("placed", "blocks", "code")


def explain(definition: Definition, program: Program, stage: str) -> str:
    match stage:
        case "sql":
            return definition.sql
        case "bound":
            return show_bound(definition.bound)
        case "algebra":
            return show(simplify(definition.expr))
        case "delta":
            return "\n".join(f"on {name}: {_delta(definition, name)}" for name in sorted(definition.reads))
        case "program":
            return show_program(program, definition.name)
        case _ if stage in _LATER:
            raise UnsupportedError(f"stage {quoted(stage)} is not there yet", hint=f"use one of {', '.join(STAGES)}")
        case _:
            raise BindError(f"there is no stage {quoted(stage)}", hint=nearest(stage, STAGES, "the stages are"))


def _delta(definition: Definition, relation: str) -> str:
    return show(simplify(delta(simplify(definition.expr), frozenset((relation,)))))
