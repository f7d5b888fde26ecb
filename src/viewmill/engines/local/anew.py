"""What the triggers of a batch evaluate anew, and when: `T := ...` runs by itself, after what it reads has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewmill.engines.interpreter.engine import deferrable, in_order
from viewmill.program.nodes import Statement, Trigger


@dataclass(frozen=True, slots=True)
class Anew:
    """In order: `now`, after the statements of a relation, and `late`, once after those of all.

    `owner` is the relation whose trigger has the code for a store.
    """

    now: dict[str, list[Statement]]
    late: list[Statement]
    owner: dict[str, str]

    @staticmethod
    def of(triggers: Sequence[Trigger]) -> Anew:
        anew = {t.relation: [s for s in t.statements if s.op == ":="] for t in triggers}
        late = deferrable([s for t in triggers for s in t.statements]) if any(anew.values()) else {}
        now = {name: [s for s in statements if s.target not in late] for name, statements in anew.items()}
        return Anew(now, list(in_order(late)), {s.target: name for name, found in anew.items() for s in found})
