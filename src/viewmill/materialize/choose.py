"""Which strategy for which view and relation, and why.

`auto` compares higher-order maintenance, with all joins kept or only those that a key bounds, and first-order
maintenance by their estimated cost, each relation weighed by its size: large relations change more often. Small
relations are joined on the spot, because serving them with stores of their own costs every other relation the upkeep of
those stores. The number of stores is bounded: a join of n relations can need as many as 2^n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from viewmill.catalog import Catalog
from viewmill.materialize.cost import Cost, estimate
from viewmill.materialize.first_order import first_order
from viewmill.materialize.keyed import keyed
from viewmill.materialize.recursive import recursive
from viewmill.materialize.reevaluate import reevaluate
from viewmill.materialize.sizes import Sizes
from viewmill.materialize.strategy import Strategy, because
from viewmill.program.nodes import Program

AUTO_LIMIT = 50
"""Stores that `auto` allows for one view."""

RECURSIVE_LIMIT = 128
"""Stores that `recursive` allows where it is asked for by name."""

SMALL = 0.01
"""A relation is small next to the largest of the view below this ratio."""


class StoreLimit(Exception):
    """More stores than the plan allows."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A strategy for every relation: `default`, but for the relations named."""

    default: Strategy
    relations: dict[str, Strategy] = field(default_factory=dict)
    limit: int = 10_000

    def strategy(self, relation: str) -> Strategy:
        return self.relations.get(relation, self.default)


Trial = Callable[[Plan], Program]


def plan(maintain: str, relations: frozenset[str], trial: Trial, catalog: Catalog, sizes: Mapping[str, int]) -> Plan:
    """The plan for a view over `relations`. `trial` compiles a candidate, or raises StoreLimit."""
    match maintain:
        case "reevaluate":
            return Plan(reevaluate)
        case "first_order":
            return Plan(first_order)
        case "recursive":
            return Plan(recursive, limit=RECURSIVE_LIMIT)
        case _:
            return _auto(relations, trial, catalog, sizes)


def _auto(relations: frozenset[str], trial: Trial, catalog: Catalog, known: Mapping[str, int]) -> Plan:
    whole = trial(Plan(first_order))
    sizes = Sizes((store.definition for store in whole.stores.values()), known, catalog)
    rows = {name: sizes.rows(name) for name in relations}
    small = {name for name in relations if rows[name] < SMALL * max(rows.values(), default=0)}
    on_the_spot = {name: because(first_order, _small_reason(name, rows[name], name in known)) for name in sorted(small)}
    found: list[tuple[float, str, Plan, Cost]] = []
    candidates = {"higher-order": recursive, "higher-order within keys": keyed, "first-order": first_order}
    for name, strategy in candidates.items():
        candidate = Plan(strategy, on_the_spot if strategy is not first_order else {}, AUTO_LIMIT)
        try:
            cost = estimate(trial(candidate), catalog, known)
        except StoreLimit:
            continue
        found.append((_total(cost, rows), name, candidate, cost))
    _, name, best, cost = min(found, key=lambda one: one[0])
    others = "; ".join(f"{other}: {_numbers(theirs)}" for _, other, _, theirs in found if other != name)
    reason = f"{name}: {_numbers(cost)}" + (f"; {others}" if others else "")
    if len(found) < 3:
        reason += f"; the rest would need more than {AUTO_LIMIT} stores"
    return Plan(because(best.default, reason), best.relations)


def _small_reason(name: str, rows: float, is_known: bool) -> str:
    size = f"is small ({rows:,.0f} rows)" if is_known else "refers to no large relation, so it should be small"
    return f'"{name}" {size} and changes seldom: joined on the spot'


def _total(cost: Cost, rows: Mapping[str, float]) -> float:
    changing = sum(rows.values())
    return sum(cost.work.get(name, 0) * rows[name] for name in rows) / changing if changing else 0


def _numbers(cost: Cost) -> str:
    most = max(cost.work.values(), default=0)
    return f"{cost.stores} stores, at most {most:,.0f} rows visited for one changed"
