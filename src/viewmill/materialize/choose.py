"""Which strategy for which view and relation, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from viewmill.catalog import Catalog
from viewmill.errors import UnsupportedError
from viewmill.materialize.first_order import first_order
from viewmill.materialize.recursive import recursive
from viewmill.materialize.reevaluate import reevaluate
from viewmill.materialize.strategy import Strategy
from viewmill.program.nodes import Program, Store

STRATEGIES: dict[str, Strategy] = {"recursive": recursive, "first_order": first_order, "reevaluate": reevaluate}


@dataclass(frozen=True, slots=True)
class Plan:
    """A strategy for every store and relation: `default`, but for the relations named."""

    default: Strategy
    relations: dict[str, Strategy] = field(default_factory=dict)
    limit: int = 10_000

    def strategy(self, store: Store, relation: str) -> Strategy:
        return self.relations.get(relation, self.default)


def plan(maintain: str, trial: Callable[[Plan], Program], sizes: Mapping[str, int], catalog: Catalog) -> Plan:
    if maintain in STRATEGIES:
        return Plan(STRATEGIES[maintain])
    return Plan(recursive)
