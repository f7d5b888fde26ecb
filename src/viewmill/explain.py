"""Any stage of any view, as text.

sql        what the user wrote
bound      every name resolved, every type known
algebra    the query in the calculus
delta      its change, relation by relation
program    the stores and triggers that keep it
placed     where its stores would live on a cluster, and why
blocks     what a batch over all its relations would do there, block by block
code       the triggers as they are compiled for this process
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from viewmill.algebra.schema import relations
from viewmill.algebra.text import show, show_name
from viewmill.algebra.text.layout import layout
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.delta.derive import delta
from viewmill.distribute import distribute, plan
from viewmill.distribute.text import show_blocks, show_placed
from viewmill.engines.local.code_text import code_text
from viewmill.errors import BindError
from viewmill.program.nodes import EMPTY, Program
from viewmill.program.text import show as show_program
from viewmill.rewrite.pipeline import simplify
from viewmill.sql.show import show as show_bound
from viewmill.wording import nearest, quoted

STAGES = ("sql", "bound", "algebra", "delta", "program", "placed", "blocks", "code")
_ALONE = ("placed", "blocks", "code")
"""Stages that show the view by itself, without what it shares with others."""


def explain(
    definition: Definition, definitions: Definitions, stage: str, sizes: Callable[[], Mapping[str, int]]
) -> str:
    """`sizes` tells how many rows tables have, where that is known."""
    program = definitions.program
    if definition.name not in program.views or stage in _ALONE:
        program = definitions.compiled(definition, EMPTY)
    match stage:
        case "sql":
            return definition.sql
        case "bound":
            return show_bound(definition.bound)
        case "algebra":
            return layout(show(simplify(definition.expr)))
        case "delta":
            return layout("\n".join(_deltas(definition, program)))
        case "program":
            return layout(show_program(program, definition.name))
        case "code":
            return code_text(program, definitions.kept)
        case "placed":
            return show_placed(distribute(program, definitions.kept, known=sizes()))
        case "blocks":
            distributed = distribute(program, definitions.kept, known=sizes())
            return layout(show_blocks(distributed, plan(distributed, distributed.order)))
        case _:
            raise BindError(f"there is no stage {quoted(stage)}", hint=nearest(stage, STAGES, "the stages are"))


def _deltas(definition: Definition, program: Program) -> Iterator[str]:
    tops = relations(program.views[definition.name].output)
    stores = [program.stores[name] for name in sorted(tops)]
    for relation in sorted(definition.reads):
        yield f"on {show_name(relation)}:"
        for store in stores:
            change = simplify(delta(store.definition, frozenset((relation,))))
            keys = ", ".join(map(show_name, store.keys))
            yield f"  d_{show_name(store.name)}({keys}) = {show(change)}"
