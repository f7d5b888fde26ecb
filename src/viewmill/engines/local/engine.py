"""The engine in this process: interprets what is small, compiles what is worth it.

A mill that has seen few rows is interpreted, since compiling takes longer than that. With more rows its stores move
into record pools, and its triggers are compiled, one by one, when they are first needed. Numbers of more than 64 bits
have no place in a pool: a mill that meets one goes on interpreted, slower and exact.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from viewmill.catalog import Catalog
from viewmill.engines.interpreter import Interpreter
from viewmill.engines.interpreter.tables import Row, Rows, Table
from viewmill.engines.local.gate import Gate
from viewmill.engines.local.values import TooWide
from viewmill.program.nodes import EMPTY, Program
from viewmill.types import Type

if TYPE_CHECKING:  # what needs the compiler is imported when something is compiled
    from viewmill.engines.local.pending import Pending
    from viewmill.engines.local.quick import QuickWays
    from viewmill.engines.local.run import CompiledEngine

COMPILE_AFTER = 1000
"""Rows that are interpreted before anything is compiled."""


class LocalEngine:
    """The interface of the interpreter, and columns. Whether sets are `exact` is for `CompiledEngine`."""

    def __init__(self, *, exact: bool = False, gate: Gate | None = None) -> None:
        """Who shares the `gate` may read while a batch is under way, whenever it is opened."""
        self._exact = exact
        self._gate = gate or Gate()
        self.program: Program = EMPTY
        self._catalog = Catalog()
        self._slow: Interpreter | None = Interpreter(self._gate.pause)
        self._fast: CompiledEngine | None = None
        self._seen = 0
        self._wide = False  # there are numbers that do not fit a pool

    @property
    def is_compiled(self) -> bool:
        return self._fast is not None

    # --- programs

    def install(self, program: Program, catalog: Catalog, tables: Mapping[str, Mapping[Row, int]]) -> None:
        """Switch to another program. Stores that are new are filled from base tables and views."""
        filler = Interpreter(self._gate.pause)
        filler.program = self.program
        filler._tables = dict(self._tables)
        filler.install(program, tables)
        if self._fast is not None:
            self._fast = self._fast.extended(program, catalog, filler._tables)
        else:
            self._slow = filler
        self.program, self._catalog = program, catalog

    def load(self, program: Program, catalog: Catalog, stores: Mapping[str, Mapping[Row, object]]) -> None:
        """Take on a program with its stores as `store` gave them."""
        self._slow, self._fast, self._wide, self._seen = Interpreter(self._gate.pause), None, False, 0
        self._slow.program = self.program = program
        self._slow._tables = {name: Table(store.keys, stores[name]) for name, store in program.stores.items()}
        self._catalog = catalog

    @property
    def _tables(self) -> Mapping[str, Table]:
        if self._fast is not None:
            return self._fast.tables
        assert self._slow is not None
        return self._slow._tables

    # --- batches

    def apply(self, batch: Mapping[str, Mapping[Row, int]], watched: frozenset[str] = frozenset()) -> dict[str, Rows]:
        """Take a batch, all or nothing. Returns the change of each watched view."""
        if not self._compiles(sum(map(len, batch.values())), batch):
            return self._interpreted(batch, watched)
        from viewmill.engines.local.pending import PendingRows

        read = {name: rows for name, rows in batch.items() if name in self.program.triggers}
        infos = self._catalog.relations
        return self._compiled([PendingRows(infos[name], rows) for name, rows in read.items()], watched)

    def apply_pending(
        self, batch: Sequence[Pending], watched: frozenset[str] = frozenset(), *, checked: bool = True
    ) -> dict[str, Rows]:
        """The same for a sequence of batches, each of one relation.

        If it is not `checked`, views may be in error after it: others are to follow, and `check` after the last.
        """
        if self._compiles(sum(pending.count for pending in batch), {pending.relation: None for pending in batch}):
            return self._compiled(batch, watched, checked)
        net: dict[str, dict[Row, int]] = {}
        for pending in batch:
            rows = net.setdefault(pending.relation, {})
            for row, weight in pending.rows().items():
                rows[row] = rows.get(row, 0) + weight
        return self._interpreted(net, watched, checked)

    def check(self) -> None:
        """Raise what readers of some view would meet."""
        for view in self._fast.fallible if self._fast is not None else self.program.views:
            self.contents(view)

    def _interpreted(
        self, batch: Mapping[str, Mapping[Row, int]], watched: frozenset[str], checked: bool = True
    ) -> dict[str, Rows]:
        assert self._slow is not None
        # All views are watched, so that an error in any view's output (a division by zero) rejects the batch.
        changes = self._slow.apply(batch, frozenset(self.program.views) if checked else watched)
        return {name: changes[name] for name in watched}

    def _compiled(self, batch: Sequence[Pending], watched: frozenset[str], checked: bool = True) -> dict[str, Rows]:
        assert self._fast is not None
        try:
            return self._fast.apply(batch, watched, checked=checked)
        except TooWide:
            fast = self._fast
            self._interpret()
            try:
                return self.apply_pending(batch, watched, checked=checked)
            except BaseException:  # the batch is refused, and with it goes what did not fit
                self._slow, self._fast, self._wide = None, fast, False
                raise

    def _compiles(self, rows: int, relations: Collection[str]) -> bool:
        """Whether a batch of so many rows of these relations is run by compiled code."""
        self._seen += rows
        return self._fast is not None or (self._seen > COMPILE_AFTER and not self._wide and self._compile(relations))

    def _compile(self, relations: Collection[str]) -> bool:
        from viewmill.engines.local.run import CompiledEngine

        assert self._slow is not None
        first = [name for name in relations if name in self.program.triggers]
        try:
            with self._gate.opened():
                fast = CompiledEngine(
                    self.program, self._catalog, self._slow._tables, exact=self._exact, first=first, gate=self._gate
                )
        except TooWide:
            self._wide = True
            return False
        self._slow, self._fast = None, fast
        return True

    def _interpret(self) -> None:
        assert self._fast is not None
        self._slow = Interpreter(self._gate.pause)
        self._slow.program = self.program
        self._slow._tables = {
            name: Table(table.fields, dict(table.rows.items())) for name, table in self._fast.tables.items()
        }
        self._fast, self._wide = None, True

    def quick(self, relation: str) -> QuickWays | None:
        """The quick ways for changes of a relation, if there are any."""
        if self._fast is None or relation not in self.program.triggers:
            return None
        return self._fast.quick(relation)

    # --- reading

    def contents(self, view: str, *, before: bool = False) -> Rows:
        """The rows of a view, hidden columns included, without order; as they were `before` the batch under way."""
        if self._fast is not None:
            return self._fast.contents(view, before=before)
        assert self._slow is not None
        return self._slow.contents(view, before=before)

    def columns(
        self, view: str, types: Sequence[Type], *, before: bool = False
    ) -> list[pa.Array | pa.ChunkedArray] | None:
        """The rows as Arrow columns of these types, in no order; None if they must be read one by one."""
        return self._fast.columns(view, types, before=before) if self._fast is not None else None

    def size(self, store: str) -> tuple[int, int | None]:
        """Rows of a store, and its bytes if it is in a pool."""
        if self._fast is not None:
            return self._fast.size(store)
        return len(self._tables[store].rows), None

    def store(self, name: str) -> Rows:
        return dict(self._tables[name].rows.items())
