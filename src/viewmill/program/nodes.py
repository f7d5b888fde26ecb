"""The trigger program: what is kept, and what a batch does to it (Hot Dog section 2).

    store M_S(b) = Sum[b](S(b, c))                 a map from keys to one weight, defined over relations and views
    on S:                                          the trigger of one relation
      let d_M_S(b) = Sum[b](d_S(b, c))             a value of this trigger only: the change of a store
      Q(b) += Sum[b](d_M_S(b) * M_R(b))            a statement; `:=` evaluates anew
    view v(b, n) = M_Q(b) * (n := ...)             what readers see, computed from stores

Inside statements and views, `Relation` is a store and `DeltaRelation` the pending batch of the trigger's relation, or
a `let`. All `let` and `+=` read the state before the batch; `:=` statements come last and read the
state after it. Factors of products are in an order that can be run from left to right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from viewmill.algebra.nodes import Expr
from viewmill.types import BIGINT, Type

How: TypeAlias = Literal["recursive", "first_order", "reevaluate"]


@dataclass(frozen=True, slots=True)
class Access:
    """One way a store is read: `get` has all keys given, `slice` some, `scan` none, `range` bounds the last one."""

    kind: Literal["get", "slice", "scan", "range"]
    bound: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} by {', '.join(self.bound)}" if self.bound else self.kind


@dataclass(frozen=True, slots=True)
class Store:
    """`store name(keys) = definition`. The definition is over relations and views, and produces the keys.

    `types` are those of the keys, `weight` that of the weights: bigint for counts, decimal or double for sums.
    """

    name: str
    keys: tuple[str, ...]
    definition: Expr
    types: tuple[Type, ...] = ()
    weight: Type = BIGINT


@dataclass(frozen=True, slots=True)
class Statement:
    """`target(vars) op expr`. The variables stand for the target's keys, in order."""

    target: str
    vars: tuple[str, ...]
    op: Literal["let", "+=", ":="]
    expr: Expr
    how: How
    reason: str


@dataclass(frozen=True, slots=True)
class Trigger:
    """The ordered statements for one relation."""

    relation: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Maintenance:
    """How a view follows the change of one relation, and why."""

    relation: str
    how: How
    reason: str


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A view: its algebra, the expression over stores that gives its rows, and how it is maintained.

    `restricted` is the output for those keys only that a change of stores can reach, with the changes of stores as
    `DeltaRelation`s. Its value before a batch and after it differ exactly as the view does.
    """

    name: str
    columns: tuple[str, ...]
    definition: Expr
    output: Expr
    restricted: Expr
    maintenance: tuple[Maintenance, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Stores, triggers and views of a whole mill, and the fields of the relations they read. Immutable."""

    stores: dict[str, Store] = field(default_factory=dict)
    triggers: dict[str, Trigger] = field(default_factory=dict)
    views: dict[str, ViewPlan] = field(default_factory=dict)
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)


EMPTY = Program()
