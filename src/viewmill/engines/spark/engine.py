"""Batches on Spark: what the driver does (Hot Dog, section 4.4).

    incoming rows -> the buckets, block by block -> what is gathered        one Spark job (`cluster.py`)
    gathered rows -> the driver's log -> the driver's stores -> the commit

A batch is committed by one file, written last. Before that it has changed nothing that counts: if the job fails, or
the driver dies, buckets find by their labels that they are ahead, and go back.

A batch with very many rows is taken in parts, of a bounded size. One job reads the rows and writes the logs of all
parts (`spool.py`). Then part after part goes on from the label that the one before has left, and the commit at the end
names them all. They count together, or not at all.

Another program starts with stores that are filled from the rows of stored tables, in parts, too:

    commit n        the old program and its buckets, from which the rows are read
    part 1 ... p    batches of the new program, each going on from the label that the one before has left
    commit n + 1    the new program at the same version: snapshots taken after part p, of buckets and driver

The law of parts: each row is in exactly one, which follows from the row alone (`parts.py`). Only the end counts. Until
it is committed the mill is at commit n, whatever parts there are: they are under the name of the new program, which no
other attempt has, and no file that commit n names is touched. A bucket that is lost in between is made again: from the
logs of the parts so far. A driver that dies leaves files that no commit names;
the next one fills from the first part. A statement may fail in a state that is not the end, such as a division by a sum
of some of the rows: then everything is taken in one part, whose only states are those of a batch.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from viewmill.catalog import ColumnInfo
from viewmill.distribute.nodes import Driver, Everywhere
from viewmill.durable.files import FileError, Files
from viewmill.durable.history import DRIVER as DRIVER_PART
from viewmill.durable.history import Commit, Entry, Feed, History
from viewmill.engines.interpreter.tables import Rows
from viewmill.engines.spark.anchor import Anchor, stage
from viewmill.engines.spark.arrivals import from_messages
from viewmill.engines.spark.changed import add_rows, change_of_rows, gathered_changes
from viewmill.engines.spark.cluster import Cluster, Frames, collected
from viewmill.engines.spark.columns import checked, free_name, spark_type
from viewmill.engines.spark.driver import Check, DriverState
from viewmill.engines.spark.failure import refused
from viewmill.engines.spark.frames import Counted
from viewmill.engines.spark.hash import hash_column
from viewmill.engines.spark.incoming import Incoming
from viewmill.engines.spark.message import MESSAGES
from viewmill.engines.spark.moving import REPORTS_DDL, STORES_DDL, arriving, leaving
from viewmill.engines.spark.parts import WHOLE, Part, parts
from viewmill.engines.spark.progress import shown
from viewmill.engines.spark.reading import COUNTS_DDL, remover, row_counter, table_reader, view_reader
from viewmill.engines.spark.refusals import StateError, final
from viewmill.engines.spark.resolve import Op, StoredTable
from viewmill.engines.spark.saving import SAVED_DDL, saver
from viewmill.engines.spark.sizes import SIZES_DDL, Sizes, sizer
from viewmill.engines.spark.source import Origin
from viewmill.engines.spark.spool import with_logs, written
from viewmill.engines.spark.task import Report
from viewmill.engines.spark.work import Deployed, Point, Saves, Wanted, deploy, from_log, to_log
from viewmill.engines.spark.work import deployed as deployed_at
from viewmill.errors import BindError, DataError
from viewmill.wording import quoted

SAVE_AFTER = 2**23
"""A snapshot of a bucket is due when so many bytes were logged since the last one, and as many as that has."""
SAVE_AFTER_BATCHES = 64


class SparkEngine:
    """The state of a mill on Spark, as of `commit`."""

    def __init__(self, spark: SparkSession, history: History, commit: Commit, scratch: str = "") -> None:
        self._cluster = Cluster(spark, commit.buckets)
        self._history = history
        self._scratch = scratch
        self._incoming = Incoming()
        self._deployed: Deployed | None = None
        self._driver: DriverState | None = None
        self._is_loaded = False  # just now, in parts
        self.commit = commit

    @property
    def files(self) -> Files:
        return self._history.files

    @property
    def session(self) -> SparkSession:
        return self._cluster.session

    # --- programs

    def define(self, definitions: tuple[str, ...], *, stale: bool, gone: frozenset[str] = frozenset()) -> None:
        """Go on with other definitions. If they make the program `stale`, another is installed when it is needed.

        Of tables that are `gone`, nothing is known any more: one of the same name is another one.
        """
        number, stale = self.commit.number + 1, stale or self.commit.stale
        touched = tuple(name for name in self.commit.touched if name not in gone)
        commit = replace(self.commit, number=number, definitions=definitions, stale=stale, touched=touched)
        if commit.feed is not None and not gone.isdisjoint(commit.feed.tables):
            left = tuple(name for name in commit.feed.tables if name not in gone)
            commit = replace(commit, feed=replace(commit.feed, tables=left) if left else None)
        self._history.commit(commit)
        self.commit = commit

    def feed(self, tables: tuple[str, ...], *, anew: bool) -> str:
        """Where Spark keeps how far the streams into these tables are, which the commit names.

        Spark knows streams by their order alone. So they have to be the same as before, or to start `anew`.
        """
        feed, files = self.commit.feed, self._history.files
        if feed is not None and not anew:
            _check_fed(feed, tables, files)
            return feed.place
        new = Feed(f"streams/{uuid.uuid4().hex}", tables)
        commit = replace(self.commit, number=self.commit.number + 1, feed=new)
        self._history.commit(commit)
        self.commit = commit
        if feed is not None:
            with suppress(FileError):
                files.remove(feed.place)
        return new.place

    def counts(self) -> dict[str, list[int]]:
        """By stored table that has had rows, how many of them each bucket has."""
        full = [name for name in self.commit.touched if name in self.deployed.stored] if self.commit.program else []
        found: dict[str, list[int]] = {name: [] for name in full}
        if full:
            stored = [StoredTable(self.deployed.catalog.relations[name]) for name in full]
            told = collected(self._cluster.asked(row_counter(self._point(self.commit), stored), COUNTS_DDL))
            for name, rows in zip(*(column.to_pylist() for column in told.columns), strict=True):
                found[name].append(rows)
        return found

    def install(self, deployed: Deployed, counts: Mapping[str, Sequence[int]]) -> None:
        """Go on with another program. Its stores are filled from the rows of stored tables, by Spark.

        `counts` says how many these are.
        """
        program = deploy(self._history.files, deployed)
        empty = (0,) * self.commit.buckets
        commit = replace(
            self.commit,
            number=self.commit.number + 1,
            program=program,
            stale=False,
            entries=(),
            snapshots=empty,
            saved=empty,
            logged=empty,
            driver=0,
            label="",
        )
        full = {name: counts[name] for name in sorted(deployed.stored) if name in counts}
        commit, driver = self._filled(deployed, commit, full) if full else (commit, DriverState(deployed))
        self._history.commit(commit)
        self.commit, self._deployed, self._driver = commit, deployed, driver
        self._clean()

    def _filled(
        self, deployed: Deployed, commit: Commit, counts: Mapping[str, Sequence[int]]
    ) -> tuple[Commit, DriverState]:
        """The commit with stores that hold what the tables hold, and snapshots of these; and the driver's."""
        tables, in_buckets = tuple(counts), map(sum, zip(*counts.values(), strict=True))
        several = parts(max(in_buckets))
        try:
            return self._filled_by(deployed, commit, tables, several)
        except StateError:  # before the last part
            self._cluster.forget()
            return self._filled_by(deployed, commit, tables, (WHOLE,))

    def _filled_by(
        self, deployed: Deployed, commit: Commit, tables: tuple[str, ...], several: Sequence[Part]
    ) -> tuple[Commit, DriverState]:
        """Part by part, each a batch that goes on from the one before, the first from nothing."""
        driver, sizes = DriverState(deployed), dict[int, int]()
        old, insert = self._point(self.commit, beside=commit.program), Op.INSERT.code(0)
        names = {name: free_name("hash_", self.deployed.catalog.relations[name].names) for name in tables}
        kept = {name: [Counted(self._rows(name, old, hash_), insert)] for name, hash_ in names.items()}
        rows = self._incoming.rows(deployed.sends(tables), kept, deployed.given, names)
        blocks = len(deployed.steps(tables))
        entries = [Entry(commit.version, uuid.uuid4().hex, tables, blocks) for _ in several]
        with self._spooled(rows, commit.program, entries) as pieces:
            for part, (entry, mine) in zip(several, pieces, strict=True):
                point = self._point(commit, beside="" if part.is_last else self.commit.program)
                saves = Saves(after=frozenset(range(commit.buckets)) if part.is_last else frozenset())
                wanted = Wanted(doubted=deployed.fallible, ends=part.is_last)
                with final(part.is_last, _unfillable):
                    with shown(self.session, f"filling the views, {part}" if part.of > 1 else "filling the views"):
                        gathered = self._cluster.run(deployed, point, entry, mine, saves, wanted)
                    check: Check = "everything" if part.is_last else "nothing"
                    driver.take(deployed.plan(tables), gathered.arrivals, check=check)
                commit = commit.passing(replace(entry, logs=_logs(gathered.reports)))
                sizes = {report.bucket: report.saved for report in gathered.reports if report.saved}
        self._history.files.write(commit.snapshot(DRIVER_PART, commit.version), driver.saved())
        commit = replace(
            commit,
            entries=(),
            snapshots=(commit.version,) * commit.buckets,
            saved=tuple(sizes[bucket] for bucket in range(commit.buckets)),
            driver=commit.version,
        )
        return commit, driver

    def rebucket(self, buckets: int) -> None:
        """Go on with another number of buckets: their stores move, in one job, and are theirs with the commit."""
        old, nothing = self.commit, (0,) * buckets
        commit = replace(old, number=old.number + 1, buckets=buckets, snapshots=nothing, saved=nothing, logged=nothing)
        here = self._cluster.anchor
        with self._cluster.other_buckets(buckets) as there:
            if old.program:
                program = deploy(self._history.files, self.deployed)
                commit = self._with_driver(replace(commit, program=program, entries=()))
            if old.label:  # else the buckets are empty
                commit = self._moved(here, there, old, commit)
            self._history.commit(commit)
        self.commit = commit
        self._clean()

    def _moved(self, here: Anchor, there: Anchor, old: Commit, commit: Commit) -> Commit:
        """The commit with snapshots of new buckets that hold what the old ones do."""
        version = commit.version
        commit = replace(commit, label=f"{version}-{uuid.uuid4().hex}/moved")
        stores = here.frame.mapInArrow(leaving(self._point(old), commit.buckets), STORES_DDL)
        with shown(self.session, f"moving to {commit.buckets} buckets"):
            told = collected(stage(there, stores, arriving(self._point(commit), version), REPORTS_DDL))
        reports = [Report(**json.loads(report)) for report in told.column("report").to_pylist()]
        sizes = {report.bucket: report.saved for report in reports}
        saved = tuple(sizes[bucket] for bucket in range(commit.buckets))
        return replace(commit, snapshots=(version,) * commit.buckets, saved=saved)

    def _with_driver(self, commit: Commit) -> Commit:
        """The commit with a snapshot of the driver as it is."""
        if not commit.version:
            return commit
        self._history.files.write(commit.snapshot(DRIVER_PART, commit.version), self.driver.saved())
        return replace(commit, driver=commit.version)

    @property
    def deployed(self) -> Deployed:
        """The program that runs. After connecting to a checkpoint, it and the driver's stores are read from there."""
        if self._deployed is None:
            self._deployed = deployed_at(self._history.files.root, self.commit.program)
        return self._deployed

    @property
    def driver(self) -> DriverState:
        if self._driver is None:
            self._driver = self._driver_at(self.commit)
        return self._driver

    def _driver_at(self, commit: Commit) -> DriverState:
        """The driver's stores, from their snapshot and what was gathered since."""
        files = self._history.files
        driver = DriverState(self.deployed)
        if commit.driver:
            driver.restore(files.read(commit.snapshot(DRIVER_PART, commit.driver)))
        for entry in commit.since(commit.driver):
            if entry.gathered:
                arrivals = from_messages(self.deployed, from_log(files.read(entry.driver_log)))
                driver.take(self.deployed.plan(entry.relations), arrivals, check="nothing")  # that was done
        return driver

    # --- batches

    def apply(
        self,
        batch: Mapping[str, Sequence[Counted]],
        watched: Mapping[str, Sequence[ColumnInfo]] | None = None,
        streamed: int | None = None,
        unmeasured: Collection[str] = (),
    ) -> dict[str, pa.Table]:
        """Take a batch: for each relation, rows with counts. All or nothing.

        Returns what it did to the leading columns of watched views: rows, each with its `weight_`. `Untold` is raised
        if that cannot be told of one. `streamed` is the number of the batch among those of the streams that it is
        made of. Rows of `unmeasured` relations may be very many: they are counted, and taken in parts if they are.
        """
        watched = watched or {}
        relations = tuple(sorted(name for name in batch if name in self.deployed.relations))
        if not relations:  # no view looks at any of this
            entry = Entry(self.commit.version + 1, uuid.uuid4().hex, tuple(sorted(batch)))
            self._commit(self.commit.after(entry, streamed))
            return gathered_changes(MESSAGES.empty_table(), watched)
        with self._measured({name: batch[name] for name in relations}, unmeasured) as (rows, several):
            try:
                return self._taken(relations, rows, several, watched, streamed)
            except StateError:  # before the last part
                self._cluster.forget()
                return self._taken(relations, rows, (WHOLE,), watched, streamed)

    @contextmanager
    def _measured(
        self, batch: Mapping[str, Sequence[Counted]], unmeasured: Collection[str]
    ) -> Iterator[tuple[Frames, Sequence[Part]]]:
        """What is taken of the rows of a batch, and the parts that it takes. What is counted is computed once, and kept
        by executors until the batch is over.
        """
        relations = tuple(batch)
        sends, known = self.deployed.sends(relations), self.deployed.given
        if not (set(unmeasured) & set(batch) and self.deployed.steps(relations)):
            rows = self._incoming.rows(sends, batch, known, packed=True)
            yield {name: frame.coalesce(self._cluster.tasks) for name, frame in rows.items()}, (WHOLE,)
            return
        names = {name: free_name("hash_", self.deployed.given[name].names) for name in relations}
        hashed = {name: [self._hashed(name, given, names[name]) for given in batch[name]] for name in relations}
        rows = self._incoming.rows(sends, hashed, known, names)
        for frame in rows.values():
            frame.persist(StorageLevel.DISK_ONLY)
        try:
            yield rows, parts(-(-_count(rows.values()) // self.commit.buckets))
        finally:
            for frame in rows.values():
                frame.unpersist()

    def _hashed(self, relation: str, given: Counted, hash_: str) -> Counted:
        """With that by which rows of a relation are cut: a table's key, or all of a relation that keeps no rows."""
        info = self.deployed.catalog.relations[relation]
        source = checked(given.frame.schema, self.deployed.given[relation])
        names = StoredTable(info).key if relation in self.deployed.stored else info.names
        column = hash_column([(source.columns[name], source.types[name]) for name in names])
        return Counted(given.frame.withColumn(hash_, column), given.count)

    @contextmanager
    def _spooled(
        self, rows: Frames, program: str, entries: Sequence[Entry]
    ) -> Iterator[Sequence[tuple[Entry, Frames | None]]]:
        """The entries of parts, with logs of what arrives in each. A single one has none, and takes the rows."""
        if len(entries) == 1:
            yield [(entries[0], rows)]
            return
        buckets, files = self.commit.buckets, self._history.files
        messages = Origin(files.root, program, entries[0].relations).to_buckets(rows, buckets, len(entries))
        try:
            with shown(self.session, "reading the rows"):
                found = collected(written(self._cluster.ours(messages), files, entries, buckets))
            yield [(entry, None) for entry in with_logs(entries, found)]
        except BaseException:
            with suppress(FileError):  # what is not needed now is not needed later, and may be much
                for entry in entries:
                    files.remove(entry.folder)
            raise

    def _taken(
        self,
        relations: tuple[str, ...],
        rows: Frames,
        several: Sequence[Part],
        watched: Mapping[str, Sequence[ColumnInfo]],
        streamed: int | None,
    ) -> dict[str, pa.Table]:
        """Part by part, each going on from the one before. The commit names the logs of all of them.

        Snapshots are of the version before: what is committed is the same for everybody, and a mill that is refused,
        since another one uses the checkpoint, has replaced nothing of what that one needs.
        """
        is_due = self.commit.version - self.commit.driver >= SAVE_AFTER_BATCHES // 2
        commit = self._with_driver(self.commit) if is_due else self.commit
        in_buckets = {name: columns for name, columns in watched.items() if not self.is_on_driver(name)}
        on_driver: dict[str, Rows] = {name: {} for name in watched if name not in in_buckets}
        told, reports, doubted = [MESSAGES.empty_table()], list[Report](), frozenset[str]()
        blocks, saves = len(self.deployed.steps(relations)), Saves(before=self._due())
        entries = [Entry(commit.version + 1, uuid.uuid4().hex, relations, blocks) for _ in several]
        try:
            with self._spooled(rows, commit.program, entries) as pieces:
                for part, (entry, mine) in zip(several, pieces, strict=True):
                    wanted = Wanted(in_buckets, self.deployed.fallible, doubted, ends=part.is_last)
                    with final(part.is_last):
                        with shown(self.session, f"taking the batch, {part}") if part.of > 1 else nullcontext():
                            gathered = self._cluster.run(self.deployed, self._point(commit), entry, mine, saves, wanted)
                        plan, names = self.deployed.plan(relations), frozenset(on_driver)
                        check: Check = "changed" if part.of == 1 else "everything" if part.is_last else "nothing"
                        changes = self.driver.take(plan, gathered.arrivals, names, check=check)
                    entry = replace(entry, gathered=bool(gathered.arrivals), logs=_logs(gathered.reports))
                    if entry.gathered:
                        self._history.files.write(entry.driver_log, to_log(gathered.messages))
                    for name, found in changes.items():
                        add_rows(on_driver[name], found)
                    told.append(gathered.changes)
                    reports += gathered.reports
                    doubted |= gathered.doubted
                    saves = Saves()
                    commit = commit.after(entry, streamed) if part.is_last else commit.passing(entry)
            changed = gathered_changes(pa.concat_tables(told), in_buckets)
            changed |= {name: change_of_rows(found, watched[name]) for name, found in on_driver.items()}
            self._commit(self._saved(commit, reports))
        except BaseException:
            self._driver = None
            raise
        self._is_loaded = len(several) > 1
        return changed

    def _point(self, commit: Commit, *, beside: str = "") -> Point:
        return Point(
            self._history.files,
            commit.mill,
            commit.program,
            commit.buckets,
            commit.label,
            commit.entries,
            commit.snapshots,
            self._scratch,
            beside,
        )

    # --- commits and snapshots

    def _commit(self, commit: Commit) -> None:
        before, commit = self.commit, commit.without_old_entries()
        self._history.commit(commit)
        self.commit = commit
        # Batches that nobody keeps anything of leave commits behind, and nothing else.
        if not set(before.entries) <= set(commit.entries) or commit.number % SAVE_AFTER_BATCHES == 0:
            self._clean()

    def _clean(self) -> None:
        """What is committed counts, whatever becomes of old files: those that cannot be removed now can be later."""
        with suppress(FileError):
            self._history.clean(self.commit)

    def _due(self) -> frozenset[int]:
        """Buckets of which a snapshot is due. If small batches are what makes it due, buckets take turns."""
        commit = self.commit
        return frozenset(
            bucket
            for bucket in range(commit.buckets)
            if commit.logged[bucket] > max(SAVE_AFTER, commit.saved[bucket])
            or commit.version - commit.snapshots[bucket] >= SAVE_AFTER_BATCHES + bucket % SAVE_AFTER_BATCHES
        )

    def _saved(self, commit: Commit, reports: Sequence[Report]) -> Commit:
        """The commit with what its tasks have written."""
        snapshots, saved, bytes_logged = list(commit.snapshots), list(commit.saved), list(commit.logged)
        for report in reports:
            if report.saved:
                snapshots[report.bucket], saved[report.bucket] = commit.version - 1, report.saved
                bytes_logged[report.bucket] = 0
            bytes_logged[report.bucket] += report.logged
        return replace(commit, snapshots=tuple(snapshots), saved=tuple(saved), logged=tuple(bytes_logged))

    def settle(self) -> None:
        """To be called when everybody knows of a batch. After a load in parts, everything is saved: its logs are many,
        and no batch should have to wait for what becomes of them. If that fails, the next batch does it, or says why.
        """
        if self._is_loaded:
            self._is_loaded = False
            with suppress(Exception):
                self._save()

    def _save(self) -> None:
        """Snapshots of everything as it is, in a commit of their own."""
        old = self.commit
        with shown(self.session, "saving the buckets"):
            told = collected(self._cluster.asked(saver(self._point(old), old.version), SAVED_DDL))
        sizes = dict(zip(told.column("bucket").to_pylist(), told.column("bytes").to_pylist(), strict=True))
        commit = replace(
            self._with_driver(old),
            number=old.number + 1,
            snapshots=(old.version,) * old.buckets,
            saved=tuple(sizes[bucket] for bucket in range(old.buckets)),
            logged=(0,) * old.buckets,
        )
        self._commit(commit)

    # --- reading

    def is_on_driver(self, view: str) -> bool:
        return isinstance(self.deployed.program.views[view], Driver)

    def contents(self, view: str) -> Rows | None:
        """The rows of a view, hidden columns included; None if they are in the buckets."""
        return self.driver.engine.contents(view) if self.is_on_driver(view) else None

    def frame(self, view: str, columns: Sequence[ColumnInfo]) -> DataFrame:
        """The leading columns of a view in the buckets, at the version of now, whenever it is read."""
        place = self.deployed.program.views[view]
        buckets = self._cluster.anchor.frame
        if isinstance(place, Everywhere):
            buckets = buckets.filter("bucket = 0")
        schema = StructType([StructField(c.name, spark_type(c.type), c.nullable) for c in columns])
        return buckets.mapInArrow(view_reader(self._point(self.commit), view, columns), schema)

    def rows(self, table: str) -> DataFrame:
        """The rows of a stored table, each as often as it occurs."""
        return self._rows(table, self._point(self.commit))

    def _rows(self, table: str, point: Point, hash_: str | None = None) -> DataFrame:
        """If they are to be taken in parts, with a hash for each, under that name."""
        info = self.deployed.catalog.relations[table]
        schema = StructType([StructField(c.name, spark_type(c.type), c.nullable) for c in info.columns])
        if hash_ is not None:
            schema = schema.add(hash_, IntegerType(), nullable=False)
        return self._cluster.asked(table_reader(point, StoredTable(info), hash_), schema)

    def sizes(self, views: Mapping[str, Sequence[ColumnInfo]]) -> Sizes:
        """How much there is of everything, and of views with these columns."""
        sizes = Sizes()
        in_buckets = {name: columns for name, columns in views.items() if not self.is_on_driver(name)}
        sizes.add(collected(self._cluster.asked(sizer(self._point(self.commit), in_buckets), SIZES_DDL)))
        for name in set(views) - set(in_buckets):
            sizes.views[name] = int(sum(self.driver.engine.contents(name).values()))
        for name in self.deployed.program.driver.stores:
            rows, size = self.driver.engine.size(name)
            sizes.stores[name] = rows, size or 0
        return sizes

    # --- the end

    def close(self) -> None:
        """Give back what executors hold. Of executors that are lost or busy, it is given back when they end."""
        self._cluster.asked(remover(self._point(self.commit)), self._cluster.anchor.frame.schema).collect()
        self._cluster.release()


def _count(frames: Iterable[DataFrame]) -> int:
    """Rows of some frames, in one job."""
    together = reduce(DataFrame.unionAll, (frame.select(F.lit(1)) for frame in frames))
    try:
        return together.count()
    except PySparkException as error:
        raise refused(error) or error from None


def _check_fed(feed: Feed, tables: tuple[str, ...], files: Files) -> None:
    """Whether streams into these tables can go on where they were."""
    hint = "or start(anew=True), and each begins where its own options say"
    if feed.tables != tables:
        raise BindError(
            f"the streams were into {quoted(feed.tables)}, and are now into {quoted(tables)}",
            hint=f"add the same ones; {hint}",
        )
    if feed.taken >= 0 and not files.exists(f"{feed.place}/metadata"):
        raise DataError(
            f"{quoted(files.path(feed.place))} is not there: nobody knows how far the streams are",
            hint=f"restore it; {hint}",
        )


def _unfillable(error: StateError) -> DataError:
    return DataError(
        f"the views cannot be filled from the rows that are there: {error.message}",
        hint="drop the view that cannot be computed; the mill is as it was before it was created",
    )


def _logs(reports: Sequence[Report]) -> tuple[str, ...]:
    return tuple(sorted(f"{report.number}-{report.bucket}" for report in reports if report.logged))
