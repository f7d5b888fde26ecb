"""Plans made ready to run: functions compiled, each with its environment, and the pools that are theirs alone."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from viewmill.engines.local.compilers import compile_all
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.generated import compiled
from viewmill.engines.local.indexes import Ints, address
from viewmill.engines.local.libraries import CFunction
from viewmill.engines.local.lowered import Lowered, Word
from viewmill.engines.local.many import Group, Schedule
from viewmill.engines.local.ordered import Order
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.string_tables import StringTables
from viewmill.engines.local.triggers import TriggerPlan


class Surroundings(Protocol):
    """What functions find around them."""

    dictionary: Dictionary
    strings: StringTables

    def pool(self, name: str) -> Pool: ...


class Ready:
    """The functions of a plan."""

    def __init__(self, plan: TriggerPlan, around: Surroundings) -> None:
        self.plan = plan
        self.lets = {
            source.pool: Pool(len(source.keys), (source.weight.is_floating,), journalled=False)
            for source in plan.lets.values()
        }
        self.temporary = Group(self.lets.values())
        self.targets = Group(around.pool(name) for name in plan.writes)
        self.columns = frozenset[str]().union(*(f.columns for f in plan.lowered))
        self._around = around
        self._keep: list[tuple[CFunction, Ints]] = []
        compile_all([lowered.source for lowered in plan.lowered])
        functions, nothing = self._pairs(plan.functions), Group(())
        self.schedule = Schedule(self.temporary, functions, self.targets)
        self._bare = Schedule(nothing, functions, nothing)
        self.without_begin = self._bare.address
        """The functions alone, for who has filled the temporary pools."""
        self.assigned = {
            store: Schedule(self.temporary, self._pairs(functions), nothing)
            for store, functions in plan.assigned.items()
        }

    def _pairs(self, functions: list[Lowered]) -> Ints:
        pairs = [self._ready(function) for function in functions]
        return np.array([word for pair in pairs for word in pair], np.int64)

    def _ready(self, lowered: Lowered) -> tuple[int, int]:
        env = np.zeros(max(1, len(lowered.words)), np.int64)
        for i, word in enumerate(lowered.words):
            env[i] = self._word(word)
        function = compiled(lowered.source)
        self._keep.append((function, env))
        return function.address, address(env)

    def _pool(self, name: str) -> Pool:
        return self.lets[name] if name in self.lets else self._around.pool(name)

    def _word(self, word: Word) -> int:
        what: Any = word.what
        match word.kind:
            case "pool":
                return self._pool(what).address
            case "slice":
                name, columns = what
                return _slice_number(self._pool(name), columns)
            case "order":
                name, order = what
                return _order_number(self._pool(name), order)
            case "text":
                return self._around.dictionary.code(what)
            case "table":
                return self._around.strings.table(*what).address
            case "dictionary":
                return self._around.dictionary.address


def _slice_number(pool: Pool, columns: tuple[int, ...]) -> int:
    if columns in pool.slices:
        return pool.slices.index(columns)
    if not pool.can_slice():
        raise CannotLower("one more slice of a store that has many")
    return pool.add_slice(columns)


def _order_number(pool: Pool, order: Order) -> int:
    if order in pool.orders:
        return pool.orders.index(order)
    if not pool.can_order():
        raise CannotLower("one more order of a store that has many")
    return pool.add_order(order)
