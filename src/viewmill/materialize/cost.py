"""An estimate of what a program costs: work for one changed row, and rows kept.

Work counts the rows that statements visit and the rows they write. A look-up with all keys visits one, and so does one
that a primary key decides; a slice visits the store's rows divided by the values that the given keys have; a scan
visits the whole store. Sums over ranges, and over the rows that pass a threshold which moves (VWAP), are taken from
ordered indexes, in as many steps as a search takes. A store is as large as the relation that determines its rows; if it
takes several (`keys.py`), as their join. The numbers are crude and meant for comparing plans of one view, not for
predicting time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from viewmill.algebra.build import factors
from viewmill.algebra.nodes import (
    ONE,
    AggSum,
    DeltaRelation,
    Expr,
    Extreme,
    Lift,
    Product,
    Relation,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import Call
from viewmill.algebra.schema import bottom_up, children, inputs, relations, schema
from viewmill.catalog import Catalog
from viewmill.materialize.sizes import Sizes
from viewmill.program.keys import atoms_of, bounded_parts, candidate_keys
from viewmill.program.nodes import Program, Statement, Store
from viewmill.program.order import Found


@dataclass(frozen=True, slots=True)
class Cost:
    """Rows visited for one changed row of each relation, rows kept, and number of stores."""

    work: dict[str, float]
    rows: float
    stores: int


def estimate(program: Program, catalog: Catalog, known: Mapping[str, int]) -> Cost:
    sizes = Sizes((store.definition for store in program.stores.values()), known, catalog)
    model = _Model(program, catalog, sizes)
    work = {name: model.work(trigger.statements) for name, trigger in program.triggers.items()}
    return Cost(work, sum(model.rows(store) for store in program.stores.values()), len(program.stores))


def records_found(stores: Mapping[str, Store], catalog: Catalog, known: Mapping[str, int]) -> Found:
    """About how many records a look-up finds, for putting the cheapest one first."""
    sizes = Sizes((store.definition for store in stores.values()), known, catalog)
    model = _Model(Program(dict(stores), {}, {}, {}), catalog, sizes)
    return cache(lambda name, given: model.fan_out(stores[name], set(given)))


@dataclass(frozen=True, slots=True)
class _Model:
    program: Program
    catalog: Catalog
    sizes: Sizes

    def work(self, statements: Iterable[Statement]) -> float:
        """Statements that differ only in what they add up run as one."""
        found: dict[tuple[tuple[str, ...], Expr], float] = {}
        for s in statements:
            form = s.vars, _without_values(s.expr)
            found[form] = max(found.get(form, 0), sum(self.visits(s.expr, frozenset())))
        return sum(found.values())

    def rows(self, store: Store) -> float:
        if not store.keys:
            return 1
        atoms = atoms_of(store.definition)
        if not atoms:
            return max((self.sizes.rows(name) for name in relations(store.definition)), default=1)
        total, seen = 1.0, set[str]()
        for group in bounded_parts(atoms, self.catalog):
            total *= self.sizes.rows(group[0].name)
            for var in seen.intersection(*({v for atom in group for v in atom.vars},)):
                total /= self._values(var, group)
            seen |= {v for atom in group for v in atom.vars}
        return max(total, 1.0)

    def _values(self, var: str, atoms: Iterable[Relation]) -> float:
        """How many values a variable has in a join: as many as the column with the fewest."""
        found = [
            self.sizes.values(atom.name, field)
            for atom in atoms
            for field, name in zip(atom.fields, atom.vars, strict=True)
            if name == var
        ]
        return min(found, default=1.0)

    def fan_out(self, store: Store, given: set[str]) -> float:
        rows = self.rows(store)
        single = candidate_keys(store.definition, store.keys, self.catalog)
        if set(store.keys) <= given or any(key <= given for key in single):
            return 1
        atoms = atoms_of(store.definition)
        for key in given:
            rows /= self._values(key, atoms)
        return max(rows, 1.0)

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
                bound -= set(schema(body)) - set(group)
                steps = self._steps(factors(body), bound) if bound.issuperset(group) else None
                return self.visits(body, bound) if steps is None else (steps, 1)
            case Extreme(_, _, _, body):
                return self.visits(body, bound - set(schema(body)))[0], 1
            case TopK(_, limit, _, body):
                visited, rows = self.visits(body, bound - set(schema(body)))
                return visited, rows if limit is None else min(rows, limit)
            case _:
                below = [self.visits(part, bound) for part in children(expr)]
                return sum(v for v, _ in below), max((r for _, r in below), default=1) if schema(expr) else 1

    def _steps(self, parts: tuple[Expr, ...], bound: frozenset[str]) -> float | None:
        """The work for a sum that an ordered index gives, if one does.

        Sum[](M(p) * {p > a})                                     over a range
        Sum[](M(p) * (x := Sum[](N(q) * {q > p})) * {c > x})      over what passes a threshold that moves
        """
        visited, rows = 0.0, 1.0
        for i, part in enumerate(parts):
            free = frozenset(part.vars) - bound if isinstance(part, Relation) else frozenset()
            more, each = self.visits(part, bound)
            if free:
                search = self._search(parts[i + 1 :], free, bound, math.log2(each + 1))
                return None if search is None else visited + rows * search
            visited, rows, bound = visited + rows * more, rows * each, bound | set(schema(part))
        return None

    def _search(
        self, rest: tuple[Expr, ...], free: frozenset[str], bound: frozenset[str], depth: float
    ) -> float | None:
        """The steps until it is known which rows of an index pass all tests; None if each has to be looked at."""
        sums, total, compared = set[str](), depth, False
        for factor in rest:
            mine = inputs(factor) & (free | sums)
            match factor:
                case Test() | Value() | Lift() if not mine:
                    total += self.visits(factor, bound)[0]
                case Test(Call("<" | "<=" | ">" | ">=")) if mine <= free and not sums:
                    compared = True
                case Test() if mine <= sums:
                    compared = True
                case Lift(var, AggSum((), body)) if mine <= free and not compared:
                    steps = self._steps(factors(body), bound | free)
                    if steps is None:
                        return None
                    sums.add(var)
                    total += depth * steps
                case _:
                    return None
        return total if compared else None


def _without_values(expr: Expr) -> Expr:
    return bottom_up(lambda node: ONE if isinstance(node, Value) else node, expr)
