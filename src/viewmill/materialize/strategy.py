"""What a strategy is: for one store and one relation, the statement that follows the change.

A strategy is a function `(workshop, store, relation) -> Change`. The workshop hands out what every strategy
needs: the delta, and readers for definitions, which become stores when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from viewmill.algebra.build import product, terms
from viewmill.algebra.nodes import Expr, Product, Relation, Test, TopK
from viewmill.algebra.scalars import Call, can_fail
from viewmill.algebra.schema import children, inputs, relations, walk, with_children
from viewmill.materialize.cut import is_unrestricted
from viewmill.program.nodes import How, Store


@dataclass(frozen=True, slots=True)
class Change:
    """The right-hand side for a store: `+=` reads the state before the batch, `:=` the state after it."""

    op: Literal["+=", ":="]
    expr: Expr
    how: How
    reason: str


class Workshop(Protocol):
    def definition(self, store: Store) -> Expr:
        """The store's definition, expanded."""

    def delta(self, store: Store, relation: str) -> Expr:
        """Its change when `relation` changes, expanded."""

    def reader(self, definition: Expr) -> Expr:
        """`M(vars)` for the store of a definition."""

    def base(self, relation: Relation, tests: Sequence[Test]) -> Expr:
        """The rows that pass the tests, read from a store of the relation."""

    def apart(self, atoms: list[Relation]) -> list[list[Relation]]:
        """The relations in groups whose joins are bounded by a key."""


Strategy: TypeAlias = Callable[[Workshop, Store, str], Change]


def over_base(shop: Workshop, expr: Expr) -> Expr:
    """The expression with every relation read from a store that keeps it: the rows that pass its own tests."""
    match expr:
        case Relation():
            return shop.base(expr, ())
        case Product(parts):
            tests = [f for f in parts if isinstance(f, Test) and inputs(f) and _is_selective(f)]
            atoms = [f for f in parts if isinstance(f, Relation)]
            own = {atom: [test for test in tests if inputs(test) <= set(atom.vars)] for atom in atoms}
            passed = {test for found in own.values() for test in found}
            rest = (f for f in parts if f not in passed)
            return product(*(shop.base(f, own[f]) if isinstance(f, Relation) else over_base(shop, f) for f in rest))
        case _:
            return with_children(expr, tuple(over_base(shop, part) for part in children(expr)))


def _is_selective(test: Test) -> bool:
    """Worth a store of its own: not so the guards against NULL, of which each aggregate has others."""
    match test.scalar:
        case Call("not", (Call("is_null", _),)):
            return False
        case _:
            return not can_fail(test.scalar)


def obstacle(change: Expr, relation: str) -> str | None:
    """Why a delta would run over whole stores, if it would (Hot Dog section 3.2.3)."""
    if not any(is_unrestricted(term) for term in terms(change)):
        return None
    if any(isinstance(n, TopK) and not inputs(n) and relation in relations(n) for n in walk(change)):
        return f'which rows of "{relation}" are within a LIMIT depends on all of them'
    return f'a nested query over "{relation}" is not tied to the outer rows by an equality'


def because(strategy: Strategy, reason: str) -> Strategy:
    """The same strategy with its reason for choosing it; a re-evaluation keeps the reason that forced it."""

    def chosen(shop: Workshop, store: Store, relation: str) -> Change:
        change = strategy(shop, store, relation)
        return change if change.how == "reevaluate" else replace(change, reason=reason)

    return chosen
