"""Run a program in memory: slow and obvious, the executable meaning of the trigger IR.

A batch is atomic: what it changes is journalled, and put back if anything fails.

The change of a view is found by evaluating its restricted output twice, before and after, so that a row is taken back
with exactly the values it was given out with, also where they are floats. That change is the batch of the view's
own trigger, for the views above it: they see a change and never need to know how the view below was maintained.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from viewmill.algebra.functions import EXACT
from viewmill.algebra.nodes import Expr
from viewmill.algebra.schema import deltas, relations
from viewmill.engines.interpreter.expressions import Run, compile_expr
from viewmill.engines.interpreter.pauses import nothing, paused
from viewmill.engines.interpreter.tables import Number, Row, Rows, State, Table
from viewmill.program.nodes import EMPTY, Program, Statement, Store, ViewPlan
from viewmill.program.order import order


class Interpreter:
    """Stores in dictionaries. `install` a program, `apply` batches, read `contents`.

    What takes long will `pause` now and then, which is when somebody may read what was `before` the batch.
    """

    def __init__(self, pause: Callable[[], None] = nothing) -> None:
        self._pause = pause
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
                    sources[view] = Table(plan.columns, self._found(plan.output, plan.columns, State(kept, {})))
            kept[name] = Table(store.keys, self._found(order(store.definition), store.keys, State(sources, {})))

        with decimal.localcontext(EXACT):
            for name in program.stores:
                fill(name)
        self._tables = kept
        self.program = program
        self._runs = {}

    def _store(self, name: str) -> Store | None:
        return self.program.stores.get(name)

    def contents(self, view: str, *, before: bool = False) -> Rows:
        """The rows of a view, hidden columns included, without order; as they were `before` the batch under way."""
        plan = self.program.views[view]
        old = {name: self._journal.get(name, {}) for name in relations(plan.output)} if before else {}
        with decimal.localcontext(EXACT), self._swapped(old):
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
        late = deferrable([s for trigger in triggers for s in trigger.statements])
        for trigger in triggers:
            changes = {trigger.relation: pending[trigger.relation]}
            for s in trigger.statements:
                if s.target not in late:
                    self._execute(s, changes)
        for s in in_order(late):
            self._execute(s, {})

    def _execute(self, s: Statement, changes: dict[str, Table]) -> None:
        rows = self._found(s.expr, s.vars, State(self._tables, changes))
        if s.op == "let":
            changes[s.target] = Table(s.vars, rows)
            return
        table = self._tables[s.target]
        if s.op == ":=":
            for row in paused([row for row in table.rows if row not in rows], self._pause):
                self._set(s.target, row, 0)
            for row, weight in paused(rows.items(), self._pause):
                self._set(s.target, row, weight)
        else:
            for row, weight in paused(rows.items(), self._pause):
                self._set(s.target, row, table.rows.get(row, 0) + weight)

    def _set(self, name: str, row: Row, weight: Number) -> None:
        table = self._tables[name]
        self._journal.setdefault(name, {}).setdefault(row, table.rows.get(row, 0))
        table.set(row, weight)

    def _view_change(self, plan: ViewPlan) -> Rows:
        """New rows less old rows, for the keys that the changed stores reach."""
        touched = self._touched(plan)
        if not touched:
            return {}
        after = self._rows(plan.restricted, plan.columns, State(self._tables, touched))
        with self._swapped({name: self._journal[name] for name in touched}):
            before = self._rows(plan.restricted, plan.columns, State(self._tables, touched))
        difference = {row: after.get(row, 0) - before.get(row, 0) for row in {**before, **after}}
        return {row: weight for row, weight in difference.items() if weight}

    def _check_view(self, plan: ViewPlan) -> None:
        """Raise what the new rows raise, if it is an error to compute them; of the old rows it may well be one."""
        touched = self._touched(plan)
        if touched:
            self._rows(plan.restricted, plan.columns, State(self._tables, touched))

    def _touched(self, plan: ViewPlan) -> dict[str, Table]:
        """What the batch has changed in the stores that a view reads."""
        touched: dict[str, Table] = {}
        for name in relations(plan.output):
            old = self._journal.get(name, {})
            new = self._tables[name].rows
            rows = {row: new.get(row, 0) - weight for row, weight in old.items() if new.get(row, 0) != weight}
            if rows:
                touched[name] = Table(self._tables[name].fields, rows)
        return touched

    @contextmanager
    def _swapped(self, contents: Mapping[str, Mapping[Row, Number]]) -> Iterator[None]:
        """These weights are in place for a while, in which nobody may be let in."""
        replaced = self._swap(contents)
        try:
            yield
        finally:
            self._swap(replaced)

    def _swap(self, contents: Mapping[str, Mapping[Row, Number]]) -> dict[str, dict[Row, Number]]:
        """Put these weights in place; returns those they replace."""
        replaced: dict[str, dict[Row, Number]] = {}
        for name, rows in contents.items():
            table = self._tables[name]
            replaced[name] = {row: table.rows.get(row, 0) for row in rows}
            for row, weight in rows.items():
                table.set(row, weight)
        return replaced

    def _found(self, expr: Expr, names: tuple[str, ...], state: State) -> Rows:
        """As `_rows`, with pauses."""
        return _total(paused(self._run_of(expr)(state, {}), self._pause), names)

    def _rows(self, expr: Expr, names: tuple[str, ...], state: State) -> Rows:
        return _total(self._run_of(expr)(state, {}), names)

    def _run_of(self, expr: Expr) -> Run:
        run = self._runs.get(expr)
        if run is None:
            run = self._runs[expr] = compile_expr(expr)
        return run


def _total(found: Iterable[tuple[Mapping[str, object], Number]], names: tuple[str, ...]) -> Rows:
    total: Rows = {}
    for env, weight in found:
        row = tuple(env[name] for name in names)
        total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight != 0}


def deferrable(statements: Sequence[Statement]) -> dict[str, Statement]:
    """The stores to re-evaluate at the end: nobody who runs before then reads them or their change."""
    late = {s.target: s for s in statements if s.op == ":="}
    while True:
        early = [s for s in statements if s.target not in late]
        read = frozenset().union(*(relations(s.expr) | deltas(s.expr) for s in early))
        kept = {target: s for target, s in late.items() if target not in read}
        if len(kept) == len(late):
            return kept
        late = kept


def in_order(statements: Mapping[str, Statement]) -> Iterator[Statement]:
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
