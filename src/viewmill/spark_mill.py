"""A mill on Spark: the same methods, the data as DataFrames, the state in buckets on the executors.

    mill = viewmill.connect(spark=spark, checkpoint="s3://bucket/mill")
    mill.sql("CREATE TABLE orders (...); CREATE MATERIALIZED VIEW revenue AS SELECT ...")
    mill.apply(orders=new_orders, lineitem=new_items)          # DataFrames; one batch
    mill.view("revenue").to_df()

What is committed is in the checkpoint. Connecting to it again goes on from there, on this cluster or another, and with
another number of buckets if one is asked for.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, assert_never

import pyarrow as pa

from viewmill.algebra.nodes import Lift, Relation
from viewmill.algebra.schema import schema, walk
from viewmill.arrow import arrow_schema
from viewmill.catalog import ColumnInfo
from viewmill.definition import Definition
from viewmill.definitions import Definitions
from viewmill.distribute import ALL_PASSES, distribute
from viewmill.distribute.nodes import WEIGHT, Distributed
from viewmill.distribute.part import part_of
from viewmill.durable.files import Files
from viewmill.durable.history import Commit, History
from viewmill.engines.interpreter.tables import Rows
from viewmill.engines.spark.cluster import collected
from viewmill.engines.spark.engine import SparkEngine
from viewmill.engines.spark.evaluated import answered, asked, deleted, inserted, under_names, updated
from viewmill.engines.spark.frames import Request, counted
from viewmill.engines.spark.handed import handed_over, local_frame
from viewmill.engines.spark.reading import first_rows
from viewmill.engines.spark.resolve import with_tables
from viewmill.engines.spark.work import Deployed
from viewmill.errors import DataError, UnsupportedError
from viewmill.output import Presentation, present
from viewmill.recompute import by_engine
from viewmill.result import Result
from viewmill.scripting import Scripted
from viewmill.sinks.latest import Owner
from viewmill.sinks.registry import Sinks, open_sink
from viewmill.sinks.sink import Moment
from viewmill.sources.formats import ChangeFormat, Kind
from viewmill.sources.streaming import Stream, Streams
from viewmill.spark_batch import SparkBatch
from viewmill.spark_verification import verified
from viewmill.spark_watching import Watching
from viewmill.sql.changed import changed_in_spark
from viewmill.sql.parse import parse_script
from viewmill.sql.statements import CreateTable, CreateView, Delete, Drop, Insert, ParsedQuery, Update
from viewmill.status import RelationStatus, Status, StoreStatus, ViewStatus
from viewmill.subscriptions import Subscriber, Subscriptions, changes_in
from viewmill.verification import Verification
from viewmill.wording import quoted, titled

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
        self._sinks = Sinks()
        self._watching = Watching(self.read)
        self._streams = Streams()
        self._is_deployed = bool(commit.program) and not commit.stale
        if found is not None:
            self._resume(commit)
            if buckets is not None and buckets != commit.buckets:
                self._engine.rebucket(buckets)

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
            _check_names(definitions)
            self._check_can_fill(definitions)
        gone = frozenset(n for n, table in self._definitions.tables.items() if definitions.tables.get(n) is not table)
        self._streams.check_can_go(gone)
        self._engine.define((*self._engine.commit.definitions, words), stale=another, gone=gone)
        self._streams.forget(gone)
        for name in (*self._subscriptions.followed, *self._sinks.written):
            if definitions.views.get(name) is not self._definitions.views[name]:
                self._subscriptions.forget(name)
                self._sinks.forget(name)
        self._watching.forget()
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
        definitions, counts = self._definitions, self._engine.counts()
        stored = [table.info for table in definitions.tables.values() if table.keeps_rows]
        program = with_tables(self._whole_program(_in_all(counts)), stored)
        self._engine.install(Deployed(program, definitions.kept, frozenset(info.name for info in stored)), counts)
        self._is_deployed = True

    def _whole_program(self, known: Mapping[str, int]) -> Distributed:
        """Of all views, distributed by how many rows tables have."""
        return distribute(self._definitions.program, self._definitions.kept, passes=self._passes, known=known)

    def _sizes(self) -> dict[str, int]:
        with self._lock:
            return _in_all(self._engine.counts())

    def _distributed(self, definition: Definition) -> Distributed:
        """A view's part of the program that runs, or of the one that will with the next batch."""
        with self._lock:
            if definition.name not in self._definitions.views:
                return super()._distributed(definition)
            whole = self._engine.deployed.program if self._is_deployed else self._whole_program(self._sizes())
            return part_of(whole, definition.name)

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

    def overwrite(self, table: str, data: object) -> None:
        """Replace all rows of a table by these. Views take only what differs."""
        with self.batch() as batch:
            batch.overwrite(table, data)

    def apply(self, **inserted: object) -> None:
        """Add rows to several tables in one batch."""
        with self.batch() as batch:
            for table, data in inserted.items():
                batch.insert(table, data)

    def batch(self) -> SparkBatch:
        """`with mill.batch() as batch:` changes several tables at once, or none."""
        return SparkBatch(self._engine.session, self._definitions.table, self._stored_rows, self._commit)

    def _stored_rows(self, table: str) -> DataFrame | None:
        """The rows that a stored table has; None if it never had any."""
        with self._lock:
            self._deploy()
            return self._engine.rows(table) if table in self._engine.commit.touched else None

    def _commit(self, requests: Sequence[Request], streamed: int | None = None) -> None:
        if not requests:
            return
        with self._lock:
            self._deploy()
            by_name: dict[str, list[Request]] = {}
            for request in requests:
                by_name.setdefault(request.relation, []).append(request)
            tables = self._definitions.tables
            batch = {
                name: counted(group, tables[name].info, stored=tables[name].keeps_rows)
                for name, group in by_name.items()
            }
            # A first load is where rows are many. Batches after it are taken in one job, whatever they are.
            loaded = [
                name
                for name, group in by_name.items()
                if name not in self._engine.commit.touched and not all(request.is_small for request in group)
            ]
            followed = dict.fromkeys((*self._subscriptions.followed, *self._sinks.written))
            views = [self._definitions.views[name] for name in followed]

            def apply(watched: Mapping[str, Sequence[ColumnInfo]]) -> dict[str, pa.Table]:
                changed = self._engine.apply(batch, watched, streamed, loaded)
                for name in by_name:
                    tables[name].touched = True
                self._version = self._engine.commit.version
                return changed

            changes = self._watching.take(views, self._version + 1, apply)
            notes = {name: changes_in(self._version, changes[name]) for name in self._subscriptions.followed}
            failed = self._sinks.take(lambda name: self._moment(name, changes[name]))
        self._subscriptions.notify(notes, failed)
        with self._lock:
            self._engine.settle()

    # --- streams

    def stream(
        self,
        table: str,
        frame: DataFrame,
        *,
        changes: Kind = "append",
        op: str = "op",
        order_by: str | Sequence[str] | None = None,
    ) -> None:
        """Feed a table from a streaming DataFrame, once `start` is called. `changes` is the format of its rows.

        `op` is the column of `cdc` that says what happened, and `order_by` those that tell which change of a key is the
        last one in a batch.
        """
        base = self._definitions.table(table, "stream into")
        order = (order_by,) if isinstance(order_by, str) else tuple(order_by or ())
        stream = Stream(base.info, frame, ChangeFormat(changes, op, order), base.keeps_rows)
        self._streams.add(stream)

    def start(self, *, anew: bool = False, **trigger: object) -> None:
        """Start all streams as one: each of its batches is a batch of the mill, over all tables.

        They go on where they were, and have to be the same ones; started `anew`, each begins where its own options say.
        `trigger` is Spark's: `processingTime="5 seconds"`, or `availableNow=True` to take what is there and end.
        """
        tables = self._streams.check_can_start()
        with self._lock:
            place = self._engine.feed(tables, anew=anew)
        self._streams.start(partial(self._take, place), self._engine.files.for_spark(place), trigger)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the streams end; false if they have not in so many seconds. What stopped them is raised."""
        return self._streams.await_termination(timeout)

    def stop(self) -> None:
        """End the streams. Starting them again goes on where they were."""
        self._streams.stop()

    def close(self) -> None:
        """End the streams, and give back the memory and disk that buckets take on executors.

        What the checkpoint has stays: connecting to it goes on from there.
        """
        self.stop()
        with self._lock:
            self._engine.close()

    def __enter__(self) -> SparkMill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, place: str, requests: Sequence[Request], number: int) -> None:
        """Take a batch of the streams, unless it was taken: Spark may not have heard of that."""
        with self._lock:
            feed = self._engine.commit.feed
            if feed is None or feed.place != place:
                raise DataError("the streams were started anew while a batch of before was on its way; it is left out")
            if feed.taken < number:
                self._commit(requests, number)

    def _change(self, statement: Insert | Delete | Update) -> None:
        """Ask Spark for the rows that a statement changes, over what is there at this version; then change them."""
        definition = self._definitions.changed_rows(statement)
        info = self._definitions.tables[statement.table].info
        if not definition.reads:  # VALUES
            rows = present(by_engine(definition, self._definitions, {}), Presentation())
            if rows:
                self.insert(info.name, rows)
            return
        self._check_dialect()
        query = changed_in_spark(statement, info)
        with self._asking(query.names) as session, self.batch() as batch:
            found = asked(session, query.text)
            match statement:
                case Insert(_, columns):
                    if (new := inserted(found, columns or info.names, info)) is not None:
                        batch.insert(info.name, new)
                case Delete():
                    if (old := deleted(found, info)) is not None:
                        batch.delete(info.name, old)
                case Update():
                    if (pairs := updated(found, info)) is not None:
                        batch.delete(info.name, pairs[0])
                        batch.insert(info.name, pairs[1])
                case _:
                    assert_never(statement)

    # --- reading

    def read(self, name: str) -> Result:
        with self._lock:
            self._deploy()
            definition = self._definitions.view(name)
            rows = {row: int(weight) for row, weight in self._contents(definition).items()}
            return Result(definition.columns, tuple(present(rows, definition.presentation)), self._version)

    def read_arrow(self, name: str) -> pa.Table:
        return self.read(name).to_arrow()

    def _contents(self, definition: Definition, *, whole: bool = False) -> Rows:
        """All rows that readers see, with what they are sorted by; if `whole`, also those beyond the LIMIT.

        There may be others anyway.
        """
        rows = self._engine.contents(definition.name)
        if rows is not None:
            return rows
        kept = _all_columns(definition)
        frame, how = self._engine.frame(definition.name, kept), definition.presentation
        if how.limit is not None and not whole:
            order = [(key.column, key.descending, key.nulls_first) for key in how.order]
            frame = first_rows(frame, order, how.offset + how.limit)
        found: Rows = {}
        for batch in collected(frame).cast(arrow_schema(kept)).to_batches():
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found[row] = found.get(row, 0) + 1
        return found

    def read_frame(self, name: str) -> DataFrame:
        """The view as it is now, as a DataFrame of the user's session: it stays so, whatever batches come.

        One that lives in buckets, and has no order of its own, does not pass through the driver: see `handed_over`.
        """
        with self._lock:
            self._deploy()
            definition = self._definitions.view(name)
            rows = self.read_arrow(name) if definition.presentation.order else self._whole(definition)
            if isinstance(rows, pa.Table):
                return local_frame(self._spark, rows, definition.columns)
            return handed_over(rows, self._spark)

    def _whole(self, definition: Definition) -> pa.Table | DataFrame:
        """What readers see of a view, where it is."""
        if definition.presentation.cuts or self._engine.is_on_driver(definition.name):
            return self.read_arrow(definition.name)
        return self._engine.frame(definition.name, definition.columns)

    def write(
        self, name: str, target: str | os.PathLike[str], mode: Literal["versioned", "changes"], keep: int
    ) -> Callable[[], None]:
        with self._lock:
            self._deploy()
            definition = self._definitions.view(name)
            owner = Owner.of(self._engine.commit.mill, definition.name, mode, definition.columns)
            sink = open_sink(
                self._spark,
                target,
                owner,
                definition.columns,
                keep=keep,
                checkpoint=self._engine.files,
                version=self._version,
            )
            return self._sinks.add(sink, self._moment(definition.name, None))

    def _moment(self, name: str, change: pa.Table | None) -> Moment:
        definition = self._definitions.views[name]
        return Moment(self._version, change, lambda: self._whole(definition), self._engine.session)

    def follow(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        with self._lock:
            return self._subscriptions.add(self._definitions.view(name).name, subscriber)

    def verify(self, name: str) -> Verification:
        """Have Spark SQL compute a view from the stored tables, and compare: true if it is right, else what differs."""
        with self._lock:
            self._deploy()
            definition, session = self._definitions.view(name), self._engine.session
            columns, kept = _all_columns(definition), self._contents(definition, whole=True)
            return verified(definition, columns, kept, self._definitions, self._dialect, session, self._readable)

    def status(self) -> Status:
        """Version, rows, stores, and how each view is maintained and why."""
        with self._lock:
            self._deploy()
            definitions = self._definitions
            sizes = self._engine.sizes({name: _all_columns(view) for name, view in definitions.views.items()})
            return Status(
                self._version,
                tuple(
                    RelationStatus(name, table.info.kind, sizes.tables[name] if table.keeps_rows else None)
                    for name, table in definitions.tables.items()
                ),
                tuple(
                    ViewStatus(
                        name,
                        view.presentation.shown(sizes.views[name]),
                        view.maintain,
                        definitions.program.views[name].maintenance,
                    )
                    for name, view in definitions.views.items()
                ),
                tuple(StoreStatus(name, *size) for name, size in sorted(sizes.stores.items())),
            )

    def _select(self, query: ParsedQuery) -> Result:
        """Ask Spark, over views and stored tables as they are at this version."""
        self._check_dialect()
        definition = self._definitions.query(query)
        with self._asking(definition.reads) as session:
            rows = answered(asked(session, query.text), definition.columns)
        return Result(
            definition.columns, tuple(zip(*(c.to_pylist() for c in rows.columns), strict=True)), self._version
        )

    @contextmanager
    def _asking(self, names: Iterable[str]) -> Iterator[SparkSession]:
        """A session in which views and stored tables have their names, as they are at this version."""
        self._deploy()
        session = self._engine.session
        with under_names(session, self._definitions.catalog.relations.keys() & set(names), self._readable):
            yield session

    def _check_dialect(self) -> None:
        if self._dialect != "spark":
            raise UnsupportedError(
                f"a mill on Spark answers queries in Spark SQL only, not in {self._dialect}",
                hint="read the views with to_df() and ask Spark",
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


def _in_all(counts: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {name: sum(rows) for name, rows in counts.items()}


def default_buckets(spark: SparkSession) -> int:
    """As many as tasks can run at once."""
    return max(2, spark.sparkContext.defaultParallelism)


def _all_columns(definition: Definition) -> tuple[ColumnInfo, ...]:
    typed = zip(definition.fields, definition.bound.query.columns, strict=True)
    return tuple(ColumnInfo(name, column.type, column.nullable) for name, column in typed)


def _check_names(definitions: Definitions) -> None:
    """What travels has its count in a column, whose name is then nobody else's."""
    stores = definitions.program.stores.values()
    nodes = [node for store in stores for node in walk(store.definition)]
    names = {name for info in definitions.kept.relations.values() for name in info.names}
    names |= {name for node in nodes if isinstance(node, Relation | Lift) for name in schema(node)}
    if WEIGHT in names:
        raise UnsupportedError(
            f"a column or alias {quoted(WEIGHT)} is not possible on Spark, where counts of rows have this name",
            hint="give it another name",
        )
