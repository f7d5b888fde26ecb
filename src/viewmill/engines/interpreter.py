"""Run a program in memory: slow and obvious, the executable meaning of the trigger IR.

Products run from left to right, as the program orders them; a relation is read through a dictionary of the variables
already known. Everything else follows the table in `algebra/nodes.py`. A batch is atomic: what it changes is
journalled, and put back if anything fails.

The change of a view is found by evaluating its restricted output twice, before and after, so that a row is taken back
with exactly the values it was given out with, also where they are floats. That change is the batch of the view's
own trigger, for the views above it: they see a change and never need to know how the view below was maintained.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, assert_never

from viewmill.algebra.functions import EXACT, FUNCTIONS, NAN, cast, greatest, least
from viewmill.algebra.nodes import (
    After,
    AggSum,
    DeltaRelation,
    Exists,
    Expr,
    Extreme,
    Lift,
    Product,
    Relation,
    Sum,
    Test,
    Value,
)
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.schema import relations, schema
from viewmill.errors import InternalError
from viewmill.program.nodes import EMPTY, Program, Statement, Store, ViewPlan
from viewmill.program.order import order

Row: TypeAlias = tuple[object, ...]
Number: TypeAlias = Any  # int, Decimal or float; translation has seen to it that no weight mixes the last two
Rows: TypeAlias = dict[Row, Number]
Env: TypeAlias = dict[str, object]
Run: TypeAlias = Callable[["State", Env], Iterator[tuple[Env, Number]]]


class Table:
    """Rows with weights, and a dictionary for every set of columns they are looked up by."""

    def __init__(self, fields: tuple[str, ...], rows: Mapping[Row, Number] | None = None) -> None:
        self.fields = fields
        self.rows: Rows = dict(rows or {})
        self._indexes: dict[tuple[int, ...], dict[Row, dict[Row, None]]] = {}

    def find(self, columns: tuple[int, ...], values: Row) -> list[tuple[Row, Number]]:
        """The rows that have `values` in `columns`."""
        if not columns:
            return list(self.rows.items())
        index = self._indexes.get(columns)
        if index is None:
            index = self._indexes[columns] = {}
            for row in self.rows:
                index.setdefault(tuple(row[i] for i in columns), {})[row] = None
        return [(row, self.rows[row]) for row in index.get(values, ())]

    def set(self, row: Row, weight: Number) -> None:
        if weight == 0:
            if self.rows.pop(row, None) is not None:
                for columns, index in self._indexes.items():
                    del index[tuple(row[i] for i in columns)][row]
            return
        if row not in self.rows:
            for columns, index in self._indexes.items():
                index.setdefault(tuple(row[i] for i in columns), {})[row] = None
        self.rows[row] = weight


class State:
    """What expressions read: tables by name, and pending changes by name."""

    def __init__(self, tables: Mapping[str, Table], changes: Mapping[str, Table]) -> None:
        self.tables = tables
        self.changes = changes


# --- expressions as functions from known variables to rows


def compile_expr(expr: Expr, bound: frozenset[str] = frozenset()) -> Run:
    match expr:
        case Relation() | DeltaRelation():
            return _atom(expr, bound)
        case Value(scalar):
            value = compile_scalar(scalar)
            return lambda state, env: _weighted(env, value(env))
        case Test(scalar):
            holds = compile_scalar(scalar)
            return lambda state, env: iter(((env, 1),)) if holds(env) is True else iter(())
        case Lift(var, Value(scalar)):
            assigned = compile_scalar(scalar)
            return _binding(var, bound, lambda state, env: assigned(env))
        case Lift(var, body):
            total = compile_expr(body, bound)
            return _binding(var, bound, lambda state, env: sum(weight for _, weight in total(state, env)))
        case Extreme(var, kind, of, body):
            pick = least if kind == "min" else greatest
            rows = _grouped(body, schema(body), bound - set(schema(body)))
            place = schema(body).index(of)
            return _binding(var, bound, lambda state, env: _extreme(pick, [row[place] for row in rows(state, env)]))
        case Exists(body):
            return _listed(schema(body), bound, _grouped(body, schema(body), bound), one=True)
        case AggSum(group, body):
            inner = bound - (set(schema(body)) - set(group))
            return _listed(group, bound, _grouped(body, group, inner))
        case Sum(terms):
            return _union(terms, bound)
        case Product(factors):
            return _product(factors, bound)
        case After():
            raise InternalError("a program has no After left in it")
        case _:
            assert_never(expr)


def _weighted(env: Env, value: object) -> Iterator[tuple[Env, Number]]:
    if value is not None and value != 0:
        yield env, value


def _binding(var: str, bound: frozenset[str], value: Callable[[State, Env], object]) -> Run:
    """One row: the variable takes the value, or must have it already."""
    if var in bound:
        return lambda state, env: iter(((env, 1),)) if _same(env[var], value(state, env)) else iter(())
    return lambda state, env: iter((({**env, var: _key(value(state, env))}, 1),))


def _key(value: object) -> object:
    """There is one NaN: as a key it must be equal to itself, which only the same object is."""
    return NAN if isinstance(value, float) and value != value else value


def _same(left: object, right: object) -> bool:
    return left == right or left is _key(right)


def _extreme(pick: Callable[..., object], values: list[object]) -> object:
    known = [value for value in values if value is not None]
    return pick(*known) if len(known) > 1 else known[0] if known else None


def _atom(atom: Relation | DeltaRelation, bound: frozenset[str]) -> Run:
    pairs = list(zip(atom.fields, atom.vars, strict=True))
    given = [(field, var) for field, var in pairs if var in bound]
    free = [(field, var) for field, var in pairs if var not in bound]
    repeated = len({var for _, var in free}) < len(free)
    places: dict[tuple[str, ...], tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def run(state: State, env: Env) -> Iterator[tuple[Env, Number]]:
        table = (state.changes if isinstance(atom, DeltaRelation) else state.tables).get(atom.name)
        if table is None:
            return
        if table.fields not in places:
            at = {field: i for i, field in enumerate(table.fields)}
            places[table.fields] = tuple(at[f] for f, _ in given), tuple(at[f] for f, _ in free)
        look, read = places[table.fields]
        for row, weight in table.find(look, tuple(env[var] for _, var in given)):
            new = dict(env)
            for (_, var), i in zip(free, read, strict=True):
                new[var] = row[i]
            if repeated and any(new[var] != row[i] for (_, var), i in zip(free, read, strict=True)):
                continue
            yield new, weight

    return run


def _product(factors: tuple[Expr, ...], bound: frozenset[str]) -> Run:
    steps: list[Run] = []
    for factor in factors:
        steps.append(compile_expr(factor, bound))
        bound |= set(schema(factor))

    def run(state: State, env: Env, depth: int = 0, weight: Number = 1) -> Iterator[tuple[Env, Number]]:
        if depth == len(steps):
            yield env, weight
            return
        for new, more in steps[depth](state, env):
            yield from run(state, new, depth + 1, weight * more)

    return run


def _grouped(body: Expr, group: tuple[str, ...], bound: frozenset[str]) -> Callable[[State, Env], Rows]:
    """Rows of `body` over `group`, weights added up, those of weight 0 left out."""
    run = compile_expr(body, bound)

    def rows(state: State, env: Env) -> Rows:
        total: Rows = {}
        for new, weight in run(state, env):
            row = tuple(new[name] for name in group)
            total[row] = total.get(row, 0) + weight
        return {row: weight for row, weight in total.items() if weight != 0}

    return rows


def _listed(
    names: tuple[str, ...], bound: frozenset[str], rows: Callable[[State, Env], Rows], *, one: bool = False
) -> Run:
    def run(state: State, env: Env) -> Iterator[tuple[Env, Number]]:
        for row, weight in rows(state, env).items():
            yield {**env, **dict(zip(names, row, strict=True))}, 1 if one else weight

    return run


def _union(terms: tuple[Expr, ...], bound: frozenset[str]) -> Run:
    """Weights of equal rows are added before anyone sees them: `M + d_M` is the store after the batch, row by row."""
    names = schema(terms[0])
    parts = [compile_expr(term, bound) for term in terms]

    def rows(state: State, env: Env) -> Rows:
        total: Rows = {}
        for part in parts:
            for new, weight in part(state, env):
                row = tuple(new[name] for name in names)
                total[row] = total.get(row, 0) + weight
        return {row: weight for row, weight in total.items() if weight != 0}

    return _listed(names, bound, rows)


def compile_scalar(scalar: Scalar) -> Callable[[Env], object]:
    match scalar:
        case Var(name):
            return lambda env: env[name]
        case Const(value):
            return lambda env: value
        case Cast(arg, type_):
            inner = compile_scalar(arg)
            return lambda env: cast(inner(env), type_)
        case Call(op, args):
            return _call(op, [compile_scalar(arg) for arg in args])
        case _:
            assert_never(scalar)


def _call(op: str, args: list[Callable[[Env], object]]) -> Callable[[Env], object]:
    if op == "case":
        *pairs, otherwise = args
        branches = list(zip(pairs[::2], pairs[1::2], strict=True))
        return lambda env: _case(branches, otherwise, env)
    if op == "coalesce":
        return lambda env: next((value for arg in args if (value := arg(env)) is not None), None)
    function = FUNCTIONS[op]
    if op in ("and", "or"):
        decisive = op == "or"

        def junction(env: Env) -> object:
            values = []
            for arg in args:
                values.append(arg(env))
                if values[-1] is decisive:
                    return decisive
            return function(*values)

        return junction
    if len(args) == 2:
        left, right = args
        return lambda env: function(left(env), right(env))
    return lambda env: function(*(arg(env) for arg in args))


def _case(
    branches: list[tuple[Callable[[Env], object], Callable[[Env], object]]],
    otherwise: Callable[[Env], object],
    env: Env,
) -> object:
    for holds, value in branches:
        if holds(env) is True:
            return value(env)
    return otherwise(env)


# --- the engine


class Interpreter:
    """Stores in dictionaries. `install` a program, `apply` batches, read `contents`."""

    def __init__(self) -> None:
        self.program: Program = EMPTY
        self._tables: dict[str, Table] = {}
        self._runs: dict[Expr, Run] = {}
        self._journal: dict[str, dict[Row, Number]] = {}

    def install(self, program: Program, tables: Mapping[str, Mapping[Row, int]]) -> None:
        """Switch to another program. Stores it has and we have not are filled from base tables and views."""
        sources = {name: Table(program.fields[name], rows) for name, rows in tables.items() if name in program.fields}
        kept = {name: table for name, table in self._tables.items() if program.stores.get(name) == self._store(name)}

        def fill(name: str) -> None:
            """The store, after the stores of the views it reads. What is neither kept nor a view starts empty."""
            if name in kept:
                return
            store = program.stores[name]
            for view in relations(store.definition) - set(sources):
                if plan := program.views.get(view):
                    for below in relations(plan.output):
                        fill(below)
                    sources[view] = Table(plan.columns, self._rows(plan.output, plan.columns, State(kept, {})))
            kept[name] = Table(store.keys, self._rows(order(store.definition), store.keys, State(sources, {})))

        with decimal.localcontext(EXACT):
            for name in program.stores:
                fill(name)
        self._tables = kept
        self.program = program
        self._runs = {}

    def _store(self, name: str) -> Store | None:
        return self.program.stores.get(name)

    def contents(self, view: str) -> Rows:
        """The rows of a view, hidden columns included, without order."""
        plan = self.program.views[view]
        with decimal.localcontext(EXACT):
            return self._rows(plan.output, plan.columns, State(self._tables, {}))

    def store(self, name: str) -> Rows:
        return dict(self._tables[name].rows)

    def apply(self, batch: Mapping[str, Mapping[Row, int]], watched: frozenset[str] = frozenset()) -> dict[str, Rows]:
        """Take a batch, all or nothing. Returns the change of each watched view."""
        self._journal = {}
        try:
            with decimal.localcontext(EXACT):
                return self._run(batch, watched)
        except BaseException:
            for name, old in self._journal.items():
                for row, weight in old.items():
                    self._tables[name].set(row, weight)
            raise
        finally:
            self._journal = {}

    def _run(self, batch: Mapping[str, Mapping[Row, int]], watched: frozenset[str]) -> dict[str, Rows]:
        pending = {
            name: Table(self.program.fields[name], {row: n for row, n in rows.items() if n})
            for name, rows in batch.items()
            if name in self.program.triggers
        }
        self._fire(pending)
        changes: dict[str, Rows] = {}
        for name, plan in self.program.views.items():  # a view stands behind the views it reads
            if name in watched or name in self.program.triggers:
                changes[name] = self._view_change(plan)
                if name in self.program.triggers and changes[name]:
                    width = len(self.program.fields[name])
                    rows: Rows = {}
                    for row, weight in changes[name].items():
                        rows[row[:width]] = rows.get(row[:width], 0) + weight
                    self._fire({name: Table(self.program.fields[name], {r: w for r, w in rows.items() if w})})
        return {name: changes[name] for name in watched}

    def _fire(self, pending: Mapping[str, Table]) -> None:
        """The triggers of several relations, one after the other. A store that nobody reads on the way and that is
        re-evaluated for one of them is so once, at the end."""
        moved = [name for name, table in pending.items() if table.rows]
        triggers = [self.program.triggers[name] for name in moved]
        read = frozenset().union(*(relations(s.expr) for t in triggers for s in t.statements if s.op != ":="))
        late: dict[str, Statement] = {
            s.target: s for t in triggers for s in t.statements if s.op == ":=" and s.target not in read
        }
        for trigger in triggers:
            changes = {trigger.relation: pending[trigger.relation]}
            for s in trigger.statements:
                if s.target not in late:
                    self._execute(s, changes)
        for s in _in_order(late):
            self._execute(s, {})

    def _execute(self, s: Statement, changes: dict[str, Table]) -> None:
        rows = self._rows(s.expr, s.vars, State(self._tables, changes))
        if s.op == "let":
            changes[s.target] = Table(s.vars, rows)
            return
        table = self._tables[s.target]
        if s.op == ":=":
            for row in [row for row in table.rows if row not in rows]:
                self._set(s.target, row, 0)
            for row, weight in rows.items():
                self._set(s.target, row, weight)
        else:
            for row, weight in rows.items():
                self._set(s.target, row, table.rows.get(row, 0) + weight)

    def _set(self, name: str, row: Row, weight: Number) -> None:
        table = self._tables[name]
        self._journal.setdefault(name, {}).setdefault(row, table.rows.get(row, 0))
        table.set(row, weight)

    def _view_change(self, plan: ViewPlan) -> Rows:
        """New rows less old rows, for the keys that the changed stores reach."""
        touched: dict[str, Table] = {}
        for name in relations(plan.output):
            old = self._journal.get(name, {})
            new = self._tables[name].rows
            rows = {row: new.get(row, 0) - weight for row, weight in old.items() if new.get(row, 0) != weight}
            if rows:
                touched[name] = Table(self._tables[name].fields, rows)
        if not touched:
            return {}
        state = State(self._tables, touched)
        after = self._rows(plan.restricted, plan.columns, state)
        swapped = self._swap({name: self._journal[name] for name in touched})
        before = self._rows(plan.restricted, plan.columns, state)
        self._swap(swapped)
        difference = {row: after.get(row, 0) - before.get(row, 0) for row in {**before, **after}}
        return {row: weight for row, weight in difference.items() if weight}

    def _swap(self, contents: Mapping[str, Mapping[Row, Number]]) -> dict[str, dict[Row, Number]]:
        """Put these weights in place; returns those they replace."""
        replaced: dict[str, dict[Row, Number]] = {}
        for name, rows in contents.items():
            table = self._tables[name]
            replaced[name] = {row: table.rows.get(row, 0) for row in rows}
            for row, weight in rows.items():
                table.set(row, weight)
        return replaced

    def _rows(self, expr: Expr, names: tuple[str, ...], state: State) -> Rows:
        run = self._runs.get(expr)
        if run is None:
            run = self._runs[expr] = compile_expr(expr)
        total: Rows = {}
        for env, weight in run(state, {}):
            row = tuple(env[name] for name in names)
            total[row] = total.get(row, 0) + weight
        return {row: weight for row, weight in total.items() if weight != 0}


def _in_order(statements: Mapping[str, Statement]) -> Iterator[Statement]:
    """Re-evaluated stores that others read come before them."""
    done: set[str] = set()

    def visit(s: Statement) -> Iterator[Statement]:
        if s.target in done:
            return
        done.add(s.target)
        for name in sorted(relations(s.expr) & set(statements)):
            yield from visit(statements[name])
        yield s

    for statement in statements.values():
        yield from visit(statement)
