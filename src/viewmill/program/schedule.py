"""Order the statements of one trigger (Hot Dog section 2.3).

Every `+=` reads the state before the batch, so a store is updated only after all who read it: stores are maintained in
decreasing order of complexity. A store whose change is itself read (`d_M` for a store M) has its change computed first,
as a `let`. Re-evaluated stores (`:=`) read the state after the batch and come last, those read by others first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from viewmill.algebra.nodes import DeltaRelation
from viewmill.algebra.schema import deltas, relations
from viewmill.errors import InternalError
from viewmill.program.nodes import Statement


def schedule(relation: str, statements: Sequence[Statement]) -> tuple[Statement, ...]:
    updates = [s for s in statements if s.op == "+="]
    anew = [s for s in statements if s.op == ":="]
    lets = {s.target: s for s in statements if s.op == "let"}
    wanted = frozenset().union(*(deltas(s.expr) for s in (*updates, *lets.values()))) - {relation}
    for s in updates:
        if s.target in wanted and s.target not in lets:
            lets[s.target] = replace(s, op="let")
    updates = [_add_let(s) if s.target in lets else s for s in updates]
    return (
        *_sorted(list(lets.values()), after=lambda a, b: b.target in deltas(a.expr)),
        *_sorted(updates, after=lambda a, b: a.target in relations(b.expr)),
        *_sorted(anew, after=lambda a, b: b.target in relations(a.expr)),
    )


def _sorted(statements: list[Statement], *, after: Callable[[Statement, Statement], bool]) -> list[Statement]:
    """In an order where `after(a, b)` puts a after b; otherwise as given."""
    left = list(statements)
    done: list[Statement] = []
    while left:
        free = next((a for a in left if not any(b is not a and after(a, b) for b in left)), None)
        if free is None:
            raise InternalError(f"statements read each other in a circle: {', '.join(s.target for s in left)}")
        left.remove(free)
        done.append(free)
    return done


def _add_let(statement: Statement) -> Statement:
    """`M(b) += d_M(b)`: exactly what the others read as its change, to the last bit of a float."""
    return replace(statement, expr=DeltaRelation(statement.target, statement.vars, statement.vars))
