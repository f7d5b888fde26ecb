"""A first estimate of what a program costs: work for one changed row, and rows kept.

Work counts the rows that statements visit. A look-up with all keys visits one; a slice visits the store's rows
divided by the distinct values of the keys given, for which we take the square root of the rows, or all of them where
the keys given hold a primary key; a scan visits the whole store. Stores are as large as their largest relation.
The numbers are crude and meant for comparing plans of one view, not for predicting time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewmill.algebra.nodes import AggSum, DeltaRelation, Expr, Extreme, Product, Relation
from viewmill.algebra.schema import children, relations, schema
from viewmill.catalog import Catalog
from viewmill.program.nodes import Program, Store

UNKNOWN_ROWS = 10_000
"""Assumed of a relation that is empty so far."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Rows visited for one changed row of each relation, rows kept, and number of stores."""

    work: dict[str, float]
    rows: float
    stores: int


def estimate(program: Program, catalog: Catalog, sizes: Mapping[str, int]) -> Cost:
    model = _Model(program, catalog, sizes)
    work = {
        name: sum(1 + model.visits(s.expr, frozenset())[0] for s in trigger.statements)
        for name, trigger in program.triggers.items()
    }
    return Cost(work, sum(model.rows(store) for store in program.stores.values()), len(program.stores))


@dataclass(frozen=True, slots=True)
class _Model:
    program: Program
    catalog: Catalog
    sizes: Mapping[str, int]

    def rows(self, store: Store) -> float:
        if not store.keys:
            return 1
        return max((self.sizes.get(name) or UNKNOWN_ROWS for name in relations(store.definition)), default=1)

    def fan_out(self, store: Store, given: set[str]) -> float:
        rows = self.rows(store)
        if set(store.keys) <= given or self._holds_key(store, given):
            return 1
        return float(rows**0.5) if given else rows

    def _holds_key(self, store: Store, given: set[str]) -> bool:
        definition = store.definition.body if isinstance(store.definition, AggSum) else store.definition
        parts = definition.factors if isinstance(definition, Product) else (definition,)
        atoms = [part for part in parts if isinstance(part, Relation)]
        if len(atoms) != 1:
            return False
        key = set(self.catalog.relations[atoms[0].name].primary_key)
        known = {field for field, var in zip(atoms[0].fields, atoms[0].vars, strict=True) if var in given}
        return bool(key) and key <= known

    def visits(self, expr: Expr, bound: frozenset[str]) -> tuple[float, float]:
        """Rows visited, and rows that come out."""
        match expr:
            case Relation(name, fields, vars_):
                given = {field for field, var in zip(fields, vars_, strict=True) if var in bound}
                out = self.fan_out(self.program.stores[name], given)
                return out, out
            case DeltaRelation():
                return 1, 1
            case Product(parts):
                visited, rows = 0.0, 1.0
                for part in parts:
                    more, each = self.visits(part, bound)
                    visited, rows = visited + rows * more, rows * each
                    bound |= set(schema(part))
                return visited, rows
            case AggSum(group, body):
                return self.visits(body, bound - (set(schema(body)) - set(group)))
            case Extreme(_, _, _, body):
                return self.visits(body, bound - set(schema(body)))[0], 1
            case _:
                below = [self.visits(part, bound) for part in children(expr)]
                return sum(v for v, _ in below), max((r for _, r in below), default=1) if schema(expr) else 1
