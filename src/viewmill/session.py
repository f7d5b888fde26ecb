"""The mill: tables, views, and the batches that keep them in step.

    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE MATERIALIZED VIEW v AS SELECT sum(b) AS s FROM t")
    mill.insert("t", [(1, 10), (2, 20)])
    mill.view("v").to_arrow()

Everything is checked before anything changes: a statement or batch that is refused leaves no trace.

A mill may be used from several threads. Batches are committed one after the other (`_alone`). Who reads sees a state
between two of them, and does not wait for the batch under way: stores are behind a gate that a writer opens now and
then (`engines/local/gate.py`), and rows of tables change when all stores have.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never, overload

import pyarrow as pa

from viewmill.algebra.functions import Number
from viewmill.arrow import arrow_schema
from viewmill.batch import Batch, NetChange
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.engines.local.engine import LocalEngine
from viewmill.engines.local.gate import Gate
from viewmill.engines.local.pending import Pending
from viewmill.engines.local.warming import warm_up
from viewmill.errors import BindError, DataError, UnsupportedError
from viewmill.intake import Row
from viewmill.interrupts import uninterrupted
from viewmill.output import Presentation, present
from viewmill.recompute import by_engine, by_reference, kept_rows, recompute
from viewmill.result import Result
from viewmill.scripting import Scripted
from viewmill.sql.statements import (
    CreateTable,
    CreateView,
    Delete,
    Drop,
    Explain,
    Insert,
    ParsedQuery,
    Select,
    Statement,
    Update,
)
from viewmill.status import RelationStatus, Status, StoreStatus, ViewStatus
from viewmill.subscriptions import Changes, Subscriber, Subscriptions, changes_between, changes_of
from viewmill.tables import BaseTable
from viewmill.verification import Verification, compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from viewmill.engines.local.quick import QuickWays
    from viewmill.spark_mill import SparkMill


Quick: TypeAlias = Callable[[object, int], bool]
"""Takes a single row or whole columns: to insert (1), to delete (-1) or to update (0); false leaves that to a batch."""


@overload
def connect(path: str | None = None, *, dialect: str = "spark") -> Mill: ...


@overload
def connect(
    *,
    spark: SparkSession,
    checkpoint: str | None = None,
    buckets: int | None = None,
    scratch: str = "",
    dialect: str = "spark",
) -> SparkMill: ...


def connect(
    path: str | None = None,
    *,
    spark: SparkSession | None = None,
    checkpoint: str | None = None,
    buckets: int | None = None,
    scratch: str = "",
    dialect: str = "spark",
) -> Mill | SparkMill:
    """A mill: in this process and in memory, or on Spark. `dialect` is the SQL dialect: any that sqlglot knows.

    On Spark, what is committed is in `checkpoint`, a folder or URI that the driver and all executors can write:
    connecting to it again goes on from there. State is spread over so many `buckets`, by default as many as tasks can
    run at once. Executors keep them in the folder `scratch` of their machines, in which `$NAMES` are variables of their
    environment; by default in memory and, when that gets short, where temporary files are. `close` gives it back.
    """
    if path is not None:
        raise UnsupportedError(
            "a mill that lives on disk is not there yet", hint="use viewmill.connect() without a path"
        )
    if spark is not None:
        from viewmill.spark_mill import SparkMill  # PySpark is needed by those who use it

        return SparkMill(spark, checkpoint, buckets=buckets, dialect=dialect, scratch=scratch)
    if checkpoint is not None or buckets is not None or scratch:
        raise BindError("a checkpoint and buckets belong to a mill on Spark", hint="pass spark=, too")
    return Mill(dialect=dialect)


class Mill(Scripted):
    """Tables, streams and views in this process. Made by `viewmill.connect()`."""

    def __init__(self, *, dialect: str = "spark") -> None:
        super().__init__(dialect=dialect)
        self._gate = Gate()
        self._is_settled = True  # tables are as the stores are, or as they were before the batch under way
        self._engine = LocalEngine(gate=self._gate)
        self._subscriptions = Subscriptions()
        self._ways: dict[str, Quick] = {}  # to take changes quickly
        self._quick: dict[str, Quick] = {}  # the same, if nobody is to be alone
        self._entered = 0
        self._state = 0  # counts batches and definitions, so that an open batch notices that it is out of date

    def _defined(self, statement: CreateTable | CreateView | Drop) -> Definitions:
        if isinstance(statement, CreateView):
            warm_up()
        return super()._defined(statement)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else changes the mill, but others may read it."""
        with self._lock:
            self._entered += 1
            try:
                with self._gate.lock:  # who is on the quick way has left it
                    self._quick = {}
                yield
            finally:
                self._entered -= 1
                if not self._entered:
                    self._quick = self._ways

    def _guard(self, statement: Statement) -> AbstractContextManager[None]:
        return nullcontext() if isinstance(statement, Select | Explain) else self._alone()

    def _install(self, definitions: Definitions, words: str) -> None:
        with self._gate.lock, self._gate.writing():
            if definitions.program is not self._definitions.program:
                self._engine = self._engine_for(definitions)
            for name in self._subscriptions.followed:
                if definitions.views.get(name) is not self._definitions.views[name]:
                    self._subscriptions.forget(name)
            self._definitions = definitions
        self._state += 1
        self._renew_quick()

    def _engine_for(self, definitions: Definitions) -> LocalEngine:
        """An engine that runs these definitions. Ours stays as it is, in case a new view fails on its rows."""
        engine = copy(self._engine)
        engine.install(definitions.program, definitions.kept, definitions.rows)
        for name, view in definitions.views.items():
            if view is not self._definitions.views.get(name):
                engine.contents(name)
        return engine

    # --- changes

    def insert(self, table: str, data: object) -> None:
        """Add rows: Arrow, pandas, a list of tuples or of dicts."""
        quick = self._quick.get(table)
        if quick is not None and quick(data, 1):
            return
        with self._alone(), self._batch(at_once=True) as batch:
            batch.insert(table, data)

    def delete(self, table: str, data: object) -> None:
        """Remove rows, given whole, or by name with only the primary key."""
        quick = self._quick.get(table)
        if quick is not None and quick(data, -1):
            return
        with self._alone(), self._batch(at_once=True) as batch:
            batch.delete(table, data)

    def update(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key."""
        quick = self._quick.get(table)
        if quick is not None and quick(data, 0):
            return
        with self._alone(), self._batch(at_once=True) as batch:
            batch.update(table, data)

    def upsert(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key; add those whose key is new."""
        with self._alone(), self._batch(at_once=True) as batch:
            batch.upsert(table, data)

    def overwrite(self, table: str, data: object) -> None:
        """Replace all rows of a table by these. Views take only what differs."""
        with self._alone(), self._batch(at_once=True) as batch:
            batch.overwrite(table, data)

    def batch(self) -> Batch:
        """`with mill.batch() as batch:` changes several tables at once, or none."""
        return self._batch(at_once=False)

    def _batch(self, *, at_once: bool) -> Batch:
        state = self._state

        def commit(batch: Batch) -> None:
            with self._alone():
                if self._state != state:
                    raise DataError(
                        "the mill changed while this batch was open; nothing of the batch was applied",
                        hint="change the mill only through the batch until its block ends",
                    )
                changes = batch.changes()
                self._commit(changes, batch.pending(changes))

        return Batch(self._definitions.table, commit, at_once=at_once)

    def _renew_quick(self) -> None:
        """Tables that take changes the quick way, and how."""
        tables = self._definitions.tables.values()
        self._ways = {}
        if self._engine.is_compiled and not self._subscriptions.followed:
            self._ways |= {table.info.name: self._quick_way(table, self._ways) for table in tables}

    def _quick_way(self, table: BaseTable, valid: dict[str, Quick]) -> Quick:
        """A function that takes a change by the quick way; false if there is none, or it is not for this change.

        It is called a hundred thousand times a second, so it looks up nothing that can be known before. For a single
        row it only takes the gate's lock, which is quicker than to be alone.
        """
        lock, engine = self._gate.lock, self._engine
        keeps_rows, only_grows = table.keeps_rows, table.info.kind == "stream"
        ways: QuickWays | None = None

        def quick(data: object, weight: int) -> bool:
            if type(data) is not list or len(data) != 1:
                return take_columns(data, weight)
            row = data[0]
            with lock:
                # If not, the mill has changed since this was looked up, or somebody is alone with it.
                way = (ways or found()) if self._quick is valid else None
                if way is None:
                    return False
                if keeps_rows:
                    changes = table.single(row, weight)
                    if changes is None:
                        return False
                    is_taken = way.exchange(*changes) if len(changes) == 2 else way.take(*next(iter(changes.items())))
                    if not is_taken:
                        return False
                    table.commit(changes)
                elif type(row) is not tuple or not weight or (only_grows and weight < 0) or not way.take(row, weight):
                    return False
                table.touched = True
                self._version += 1
                self._state += 1
            return True

        def take_columns(data: object, weight: int) -> bool:
            is_plain = type(data) is pa.RecordBatch or type(data) is pa.Table
            if keeps_rows or not is_plain or not weight or (only_grows and weight < 0):
                return False
            with self._alone(), self._gate.lock, self._gate.writing():
                way = (ways or found()) if self._ways is valid else None
                if way is None or not way.take_columns(data, weight):
                    return False
                table.touched = True
                self._version += 1
                self._state += 1
            return True

        def found() -> QuickWays | None:
            nonlocal ways
            ways = engine.quick(table.info.name)
            if ways is None:
                valid.pop(table.info.name, None)
            return ways

        return quick

    def _change(self, statement: Insert | Delete | Update) -> None:
        query = self._definitions.changed_rows(statement)
        with self._gate.reading():
            read = self._readable(query)
        rows = present(by_engine(query, self._definitions, read), Presentation())
        with self.batch() as batch:
            match statement:
                case Insert(table):
                    batch.insert(table, rows)
                case Delete(table):
                    batch.delete(table, rows)
                case Update(table):
                    width = len(self.tables[table].columns)
                    batch.delete(table, [row[:width] for row in rows])
                    batch.insert(table, [row[width:] for row in rows])
                case _:
                    assert_never(statement)

    def _commit(self, changes: NetChange, pending: Sequence[Pending]) -> None:
        if not pending:
            return
        followed = self._subscriptions.followed
        before = {name: self.read(name) for name in followed if self._definitions.views[name].presentation.cuts}
        try:
            with self._gate.lock, self._gate.writing():
                changed = self._applied(changes, pending, frozenset(followed))
                self._version += 1
                self._is_settled = False
        except BaseException:
            self._renew_quick()  # the engine may be another
            raise
        try:
            with uninterrupted():
                for name, rows in changes.items():
                    self._definitions.tables[name].commit(rows)
                for change in pending:
                    self._definitions.tables[change.relation].touched = True
        finally:
            self._state += 1  # now: a batch that was begun meanwhile has seen some of the rows
            self._is_settled = True
        if not self._ways or not self._engine.is_compiled:
            self._renew_quick()
        self._subscriptions.notify({name: self._changes(name, changed[name], before.get(name)) for name in followed})

    def _applied(
        self, changes: NetChange, pending: Sequence[Pending], followed: frozenset[str]
    ) -> dict[str, dict[Row, Number]]:
        try:
            return self._engine.apply_pending(pending, followed)
        except DataError:
            if not all(table.keeps_rows for table in self._definitions.tables.values()):
                raise
            return self._recomputed(changes)

    def _recomputed(self, changes: NetChange) -> dict[str, dict[Row, Number]]:
        """The change of each view, from the tables as they will be.

        Relations take their batches one after the other, so a statement may see a state that the batch does not end in,
        and fail there: a subquery with two rows, one of which the batch takes away. What counts is the state at the
        end; if that is in error, so is the batch.
        """
        engine = LocalEngine(gate=self._gate)
        engine.install(self._definitions.program, self._definitions.kept, self._definitions.rows_after(changes))
        changed = {}
        for name in self._definitions.views:
            before, after = self._engine.contents(name), engine.contents(name)
            difference = {row: after.get(row, 0) - before.get(row, 0) for row in {**before, **after}}
            changed[name] = {row: count for row, count in difference.items() if count}
        self._engine = engine
        self._renew_quick()
        return changed

    def _changes(self, name: str, change: Mapping[Row, Number], before: Result | None) -> Changes:
        if before is None:
            return changes_of(self._version, change, self._definitions.views[name].presentation.hidden)
        return changes_between(self._version, before, self.read(name))

    # --- reading

    def read(self, name: str) -> Result:
        """All rows of a view, as its ORDER BY and LIMIT say."""
        with self._gate.reading():
            definition = self._definitions.view(name)
            contents, version = self._contents(definition.name), self._version
        return Result(definition.columns, tuple(present(contents, definition.presentation)), version)

    def read_arrow(self, name: str) -> pa.Table:
        """The same as an Arrow table: column by column, if the view has no order of its own."""
        with self._gate.reading():
            definition = self._definitions.view(name)
            how = definition.presentation
            types = [column.type for column in definition.columns]
            plain = not how.order and not how.cuts and not how.hidden
            columns = self._engine.columns(definition.name, types, before=self._gate.is_opened) if plain else None
        if columns is None:
            return self.read(name).to_arrow()
        return pa.table(columns, schema=arrow_schema(definition.columns))

    def _contents(self, view: str) -> dict[Row, int]:
        """The rows of a view, for who has come in by the gate."""
        contents = self._engine.contents(view, before=self._gate.is_opened)
        return {row: int(weight) for row, weight in contents.items()}

    def follow(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` after every batch that changes the view; returns what ends this."""
        with self._alone():
            self._ways = {}  # somebody wants to know what each batch changes
            return self._subscriptions.add(self._definitions.view(name).name, subscriber)

    def verify(self, name: str, *, by: Literal["reference", "engine"] = "reference") -> Verification:
        """Recompute a view from the base tables and compare: true if it is right, else it holds what differs.

        The reference evaluator shares nothing with what it checks, and takes minutes for thousands of rows. The engine,
        run from scratch, is quick; it finds mistakes of maintenance, and not its own.
        """
        with self._alone():
            definition = self._definitions.view(name)
            recomputed = recompute(definition, self._definitions, by_reference if by == "reference" else by_engine)
            with self._gate.reading():
                contents = self._contents(definition.name)
        return compare(definition.name, contents, recomputed)

    def _sizes(self) -> dict[str, int]:
        return self._definitions.sizes

    def status(self) -> Status:
        """Version, rows, stores, and how each view is maintained and why."""
        with self._alone():
            return self._status()

    def _status(self) -> Status:
        return Status(
            self._version,
            tuple(
                RelationStatus(name, table.info.kind, sum(table.rows.values()) if table.keeps_rows else None)
                for name, table in self._definitions.tables.items()
            ),
            tuple(
                ViewStatus(name, len(self.read(name)), view.maintain, self._definitions.program.views[name].maintenance)
                for name, view in self._definitions.views.items()
            ),
            tuple(StoreStatus(name, *self._engine.size(name)) for name in self._definitions.program.stores),
        )

    def _select(self, query: ParsedQuery) -> Result:
        while True:
            definitions = self._definitions
            definition = definitions.query(query)
            needs_tables = not definition.reads.isdisjoint(definitions.tables)
            with self._gate.reading():
                if self._definitions is definitions and (self._is_settled or not needs_tables):
                    read, version = self._readable(definition), self._version
                    break
            time.sleep(0.001)
        rows = present(by_engine(definition, definitions, read), definition.presentation)
        return Result(definition.columns, tuple(rows), version)

    def _readable(self, query: Definition) -> dict[str, dict[Row, int]]:
        """What an ad-hoc query sees of the tables and views that it reads, for who has come in by the gate."""
        return {name: self._readable_rows(name) for name in query.reads}

    def _readable_rows(self, name: str) -> dict[Row, int]:
        if view := self._definitions.views.get(name):
            contents = self._contents(name)
            return contents if view.presentation.cuts else dict(Counter(present(contents, view.presentation)))
        return dict(kept_rows(self._definitions.tables[name]))
