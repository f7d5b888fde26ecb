"""Any stage of any view, as text.

sql        what the user wrote
bound      every name resolved, every type known
algebra    the query in the calculus
delta      its change, relation by relation
program    the stores and triggers that keep it
placed     where its stores live on a cluster, and why
blocks     what a batch over all its relations does there, block by block
code       the triggers as they are compiled for this process

A mill on Spark shows what runs there: the part of all its views' program that the view needs. Elsewhere it is shown
what would run, if the view were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from viewmill.algebra.schema import relations
from viewmill.algebra.text import show, show_name
from viewmill.algebra.text.layout import layout
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.delta.derive import delta
from viewmill.distribute import plan
from viewmill.distribute.nodes import Distributed
from viewmill.distribute.text import show_blocks, show_placed
from viewmill.engines.local.code_text import code_text
from viewmill.errors import BindError
from viewmill.program.nodes import EMPTY, Program
from viewmill.program.text import show as show_program
from viewmill.rewrite.pipeline import simplify
from viewmill.sql.show import show as show_bound
from viewmill.wording import nearest, quoted

STAGES = ("sql", "bound", "algebra", "delta", "program", "placed", "blocks", "code")


def explain(
    definition: Definition, definitions: Definitions, stage: str, distributed: Callable[[], Distributed]
) -> str:
    """`distributed` is what runs on a cluster for the view, or would."""
    program = definitions.program
    if definition.name not in program.views or stage == "code":
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
            return show_placed(distributed())
        case "blocks":
            found = distributed()
            stored = [name for name in found.order if definitions.tables[name].keeps_rows]
            return layout(show_blocks(found, plan(found, found.order), stored))
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
