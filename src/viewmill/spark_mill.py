"""A mill on Spark: the same methods, the data as DataFrames, the state in buckets on the executors.

    mill = viewmill.connect(spark=spark, checkpoint="s3://bucket/mill")
    mill.sql("CREATE TABLE orders (...); CREATE MATERIALIZED VIEW revenue AS SELECT ...")
    mill.apply(orders=new_orders, lineitem=new_items)          # DataFrames; one batch
    mill.view("revenue").to_df()

What is committed is in the checkpoint. Connecting to it again goes on from there, on this cluster or another.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from viewmill.arrow import arrow_schema
from viewmill.catalog import ColumnInfo
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.distribute import ALL_PASSES, distribute
from viewmill.durable.files import Files
from viewmill.durable.history import Commit, History
from viewmill.engines.interpreter.tables import Rows
from viewmill.engines.spark.engine import SparkEngine, collected
from viewmill.engines.spark.frames import Request, counted
from viewmill.engines.spark.resolve import with_tables
from viewmill.engines.spark.work import Deployed
from viewmill.errors import UnsupportedError
from viewmill.output import present
from viewmill.result import Result
from viewmill.scripting import Scripted
from viewmill.sources.formats import ChangeFormat, Kind
from viewmill.sources.streaming import Stream, Streams
from viewmill.spark_batch import SparkBatch
from viewmill.sql.parse import parse_script
from viewmill.sql.statements import CreateTable, CreateView, Delete, Drop, Insert, ParsedQuery, Update
from viewmill.subscriptions import Changes, Subscriber, Subscriptions, changes_between, changes_of
from viewmill.wording import titled

STREAMS = "streams"
"""What the numbers of the streams' batches are kept under."""

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkMill(Scripted):
    """Made by `viewmill.connect(spark=...)`."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str | None = None,
        *,
        buckets: int | None = None,
        dialect: str = "spark",
        scratch: str = "",
        passes: Collection[str] = ALL_PASSES,
    ) -> None:
        """`passes` are the optimisations of the distributed program, all but for experiments."""
        super().__init__(dialect=dialect)
        self._passes = passes
        history = History(Files(checkpoint or tempfile.mkdtemp(prefix="viewmill-checkpoint-")))
        found = history.newest()
        commit = found or Commit(mill=uuid.uuid4().hex, buckets=buckets or default_buckets(spark), dialect=dialect)
        self._spark = spark
        self._engine = SparkEngine(spark, history, commit, scratch)
        self._subscriptions = Subscriptions()
        self._streams = Streams()
        self._is_deployed = found is not None and bool(commit.program)
        if found is not None:
            self._resume(commit)

    def _resume(self, commit: Commit) -> None:
        self._dialect = commit.dialect
        for words in commit.definitions:
            for statement, _ in parse_script(words, commit.dialect):
                assert isinstance(statement, CreateTable | CreateView | Drop)
                self._definitions = self._defined(statement)
        for name in commit.touched:
            self._definitions.tables[name].touched = True
        self._version = commit.version

    # --- definitions

    def _install(self, definitions: Definitions, words: str) -> None:
        another = definitions.program is not self._definitions.program or _stored(definitions) != _stored(
            self._definitions
        )
        if another:
            self._check_can_fill(definitions)
        self._engine.define((*self._engine.commit.definitions, words))
        for name in self._subscriptions.followed:
            if definitions.views.get(name) is not self._definitions.views[name]:
                self._subscriptions.forget(name)
        self._definitions = definitions
        self._is_deployed = self._is_deployed and not another

    def _check_can_fill(self, definitions: Definitions) -> None:
        """Another program starts from the rows of stored tables: what others have had would be lost."""
        for name in self._engine.commit.touched:
            table = definitions.tables.get(name)
            if table is not None and not table.keeps_rows and name in definitions.program.fields:
                raise UnsupportedError(
                    f"views cannot be added or dropped any more: they have rows of {titled(table.info)}, "
                    "which does not keep them",
                    hint="create everything before its first batch, or the table without stored = false",
                )

    def _deploy(self) -> None:
        """Distribute the program, if there is another one since the last time."""
        if self._is_deployed:
            return
        definitions = self._definitions
        stored = [table.info for table in definitions.tables.values() if table.keeps_rows]
        program = with_tables(distribute(definitions.program, definitions.kept, passes=self._passes), stored)
        self._engine.install(Deployed(program, definitions.kept, frozenset(info.name for info in stored)))
        self._is_deployed = True

    # --- changes

    def insert(self, table: str, data: object) -> None:
        """Add rows: a DataFrame, or whatever an embedded mill takes."""
        with self.batch() as batch:
            batch.insert(table, data)

    def delete(self, table: str, data: object) -> None:
        """Remove rows, given whole, or with only the primary key."""
        with self.batch() as batch:
            batch.delete(table, data)

    def update(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key."""
        with self.batch() as batch:
            batch.update(table, data)

    def upsert(self, table: str, data: object) -> None:
        """Replace rows by whole new ones with the same primary key; add those whose key is new."""
        with self.batch() as batch:
            batch.upsert(table, data)

    def apply(self, **inserted: object) -> None:
        """Add rows to several tables in one batch."""
        with self.batch() as batch:
            for table, data in inserted.items():
                batch.insert(table, data)

    def batch(self) -> SparkBatch:
        """`with mill.batch() as batch:` changes several tables at once, or none."""
        return SparkBatch(self._engine.session, self._definitions.table, self._commit)

    def _commit(self, requests: Sequence[Request], sources: Mapping[str, int] | None = None) -> None:
        if not requests:
            return
        with self._lock:
            self._deploy()
            by_name: dict[str, list[Request]] = {}
            for request in requests:
                by_name.setdefault(request.relation, []).append(request)
            tables = self._definitions.tables
            frames = {
                name: counted(group, tables[name].info, stored=tables[name].keeps_rows)
                for name, group in by_name.items()
            }
            followed = self._subscriptions.followed
            before = {name: self.read(name) for name in followed if self._needs_reading(name)}
            changed = self._engine.apply(frames, frozenset(followed) - set(before), sources or {})
            for name in by_name:
                tables[name].touched = True
            self._version = self._engine.commit.version
            notes = {name: self._changes(name, changed, before) for name in followed}
        self._subscriptions.notify(notes)

    # --- streams

    def stream(
        self,
        table: str,
        frame: DataFrame,
        *,
        changes: Kind = "append",
        op: str = "op",
        order_by: str | None = None,
    ) -> None:
        """Feed a table from a streaming DataFrame, once `start` is called. `changes` is the format of its rows."""
        info = self._definitions.table(table, "stream into").info
        self._streams.add(Stream(info, frame, ChangeFormat(changes, op, order_by)))

    def start(self, **trigger: object) -> None:
        """Start all streams as one: each of its batches is a batch of the mill, over all tables.

        `trigger` is Spark's: `processingTime="5 seconds"`, or `availableNow=True` to take what is there and end.
        """
        self._streams.start(self._take, f"{self._engine.files.root}/streams", trigger)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the streams end; false if they have not in so many seconds. What stopped them is raised."""
        return self._streams.await_termination(timeout)

    def stop(self) -> None:
        """End the streams. Starting them again goes on where they were."""
        self._streams.stop()

    def _take(self, requests: Sequence[Request], number: int) -> None:
        with self._lock:
            if self._engine.commit.sources.get(STREAMS, -1) < number:
                self._commit(requests, {STREAMS: number})

    def _needs_reading(self, view: str) -> bool:
        """What a batch does to it is known only from reading it before and after."""
        return self._definitions.views[view].presentation.cuts or not self._engine.is_on_driver(view)

    def _changes(self, name: str, changed: Mapping[str, Rows], before: Mapping[str, Result]) -> Changes:
        if name in before:
            return changes_between(self._version, before[name], self.read(name))
        return changes_of(self._version, changed[name], self._definitions.views[name].presentation.hidden)

    def _change(self, statement: Insert | Delete | Update) -> None:
        raise UnsupportedError(
            "INSERT, UPDATE and DELETE statements are not there yet for a mill on Spark",
            hint="use mill.insert, mill.update and mill.delete with DataFrames",
        )

    # --- reading

    def read(self, name: str) -> Result:
        with self._lock:
            self._deploy()
            definition = self._definitions.view(name)
            rows = {row: int(weight) for row, weight in self._contents(definition).items()}
            return Result(definition.columns, tuple(present(rows, definition.presentation)), self._version)

    def read_arrow(self, name: str) -> pa.Table:
        return self.read(name).to_arrow()

    def _contents(self, definition: Definition) -> Rows:
        """All rows, with what they are sorted by."""
        rows = self._engine.contents(definition.name)
        if rows is not None:
            return rows
        kept = _all_columns(definition)
        found: Rows = {}
        for batch in collected(self._engine.frame(definition.name, kept)).to_batches():
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found[row] = found.get(row, 0) + 1
        return found

    def read_frame(self, name: str) -> DataFrame:
        """The view as it is now, as a DataFrame of the user's session."""
        return self._spark.createDataFrame(self.read_arrow(name))

    def follow(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        with self._lock:
            return self._subscriptions.add(self._definitions.view(name).name, subscriber)

    def _select(self, query: ParsedQuery) -> Result:
        """Ask Spark, over views and stored tables as they are at this version."""
        if self._dialect != "spark":
            raise UnsupportedError(
                f"a mill on Spark answers queries in Spark SQL only, not in {self._dialect}",
                hint="read the views with to_df() and ask Spark",
            )
        definition = self._definitions.query(query)
        self._deploy()
        session = self._engine.session
        try:
            for name in definition.reads:
                self._readable(name).createOrReplaceTempView(name)
            found = collected(session.sql(query.text))
        finally:
            for name in definition.reads:
                session.catalog.dropTempView(name)
        rows = found.cast(arrow_schema(definition.columns))
        return Result(
            definition.columns, tuple(zip(*(c.to_pylist() for c in rows.columns), strict=True)), self._version
        )

    def _readable(self, name: str) -> DataFrame:
        """A view or stored table, as a DataFrame of the session that we ask."""
        if name in self._definitions.views:
            return self._engine.session.createDataFrame(self.read_arrow(name))
        if not self._definitions.tables[name].keeps_rows:
            raise UnsupportedError(
                f"the rows of {titled(self._definitions.tables[name].info)} are not kept",
                hint="query a view over it, or create it without stored = false",
            )
        return self._engine.rows(name)


def _stored(definitions: Definitions) -> frozenset[str]:
    return frozenset(name for name, table in definitions.tables.items() if table.keeps_rows)


def default_buckets(spark: SparkSession) -> int:
    """As many as tasks can run at once."""
    return max(2, spark.sparkContext.defaultParallelism)


def _all_columns(definition: Definition) -> tuple[ColumnInfo, ...]:
    typed = zip(definition.fields, definition.bound.query.columns, strict=True)
    return tuple(ColumnInfo(name, column.type, column.nullable) for name, column in typed)
