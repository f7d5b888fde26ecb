"""What a task has to know: which block of which batch, and how to come by the state it starts from.

A task may run on any executor, in any Python process, and more than once. Everything that it does follows from its
`Work` and from the rows that arrive: the same work twice gives the same state and sends the same messages.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import pyarrow as pa

from viewmill.arrow import arrow_schema
from viewmill.catalog import Catalog, ColumnInfo, RelationInfo
from viewmill.distribute import plan
from viewmill.distribute.nodes import (
    WEIGHT,
    Anywhere,
    Block,
    Buckets,
    Distributed,
    Driver,
    Everywhere,
    Here,
    Plan,
    Send,
)
from viewmill.durable.files import DamagedFile, Files
from viewmill.durable.history import Entry, snapshot_of
from viewmill.engines.interpreter import Interpreter
from viewmill.engines.interpreter.tables import Table
from viewmill.engines.local.fallible import fallible_views
from viewmill.engines.local.placement import place
from viewmill.engines.spark.hash import bucket_of
from viewmill.engines.spark.homes import Home
from viewmill.engines.spark.message import Format
from viewmill.engines.spark.resolve import StoredTable
from viewmill.wording import quoted


@dataclass(frozen=True)
class Deployed:
    """A distributed program as tasks know it; `stored` are the tables whose rows are in its buckets."""

    program: Distributed
    catalog: Catalog
    stored: frozenset[str] = frozenset()
    _plans: dict[tuple[str, ...], Plan] = field(default_factory=dict, repr=False, compare=False, hash=False)

    __hash__ = object.__hash__  # one for each time it is read

    @cached_property
    def format(self) -> Format:
        """Everything that travels in messages. Rows of a batch as it came in have counts, so these are with it."""
        count = pa.field(WEIGHT, pa.int64(), nullable=False)
        schemas = {name: arrow_schema(info.columns) for name, info in self.program.infos.items()}
        return Format({name: s.append(count) if name in self.counted else s for name, s in schemas.items()})

    @cached_property
    def counted(self) -> frozenset[str]:
        """What is of a batch as it came in."""
        asked = (StoredTable(self.catalog.relations[name]).asked.name for name in self.stored)
        return frozenset((*asked, *(send.info.name for send in self.program.incoming), *self.program.source.triggers))

    @cached_property
    def known(self) -> Catalog:
        """The mill's relations, and everything that arrives anywhere."""
        return Catalog({**self.catalog.relations, **self.program.infos})

    @cached_property
    def relations(self) -> frozenset[str]:
        """Those whose changes matter to anybody."""
        return self.stored | {send.source for send in self.program.incoming} | set(self.program.source.triggers)

    @cached_property
    def given(self) -> Mapping[str, RelationInfo]:
        """Relations as batches give them. A delete by key has NULL for the other columns of a stored table, so what is
        NOT NULL there is checked in the buckets, which know the operation."""
        tables = {name: self.catalog.relations[name] for name in self.stored}
        asked = {name: replace(info, columns=StoredTable(info).asked.columns) for name, info in tables.items()}
        return {**self.catalog.relations, **asked}

    @cached_property
    def _constants(self) -> dict[str, Table]:
        """What stores hold before the first batch: rows of VALUES."""
        interpreter = Interpreter()
        interpreter.install(self.program.buckets, {})
        tables = {name: interpreter.store(name) for name in self.program.buckets.stores}
        return {name: Table(self.program.buckets.stores[name].keys, rows) for name, rows in tables.items() if rows}

    def constants(self, bucket: int, buckets: int) -> dict[str, Table]:
        """The part of them that one bucket has."""
        found = {}
        for name, table in self._constants.items():
            place = self.program.places[name]
            by = [table.fields.index(field) for field in place.by] if isinstance(place, Buckets) else None
            rows = {
                row: weight
                for row, weight in table.rows.items()
                if by is None or bucket_of([row[i] for i in by], buckets) == bucket
            }
            found[name] = Table(table.fields, rows)
        return found

    @cached_property
    def fallible(self) -> frozenset[str]:
        """Views in the buckets whose output may be an error."""
        program = self.program.buckets
        return fallible_views(program, place(program, program.stores, self.known)).ever

    def plan(self, relations: tuple[str, ...]) -> Plan:
        """What a batch over these relations does."""
        if relations not in self._plans:
            self._plans[relations] = plan(self.program, relations)
        return self._plans[relations]

    def steps(self, relations: tuple[str, ...]) -> tuple[Step, ...]:
        """What buckets do for a batch, one after another."""
        tables = tuple(StoredTable(self.catalog.relations[name]) for name in relations if name in self.stored)
        first = (Step(self.source_block(relations), tables),) if tables else ()
        blocks = (block for block in self.plan(relations).blocks if block.mode == "buckets")
        return (*first, *(Step(block) for block in blocks))

    def source_block(self, relations: tuple[str, ...]) -> Block:
        return next(block for block in self.plan(relations).blocks if block.mode == "source")

    def sends(self, relations: tuple[str, ...]) -> tuple[Send, ...]:
        """What Spark sends from where the batch comes in: to buckets, also where it goes on to the driver.

        What is only looked at where it comes in is sent `Here`.
        """
        asked = [StoredTable(self.catalog.relations[name]) for name in relations if name in self.stored]
        found = [Send(table.info.name, table.asked, table.place, incoming=True) for table in asked]
        block = self.source_block(relations)
        for send in block.sends:
            if send.incoming and send.source not in self.stored:
                found.append(replace(send, to=Anywhere()) if isinstance(send.to, Driver) else send)
        early = self.made_early(relations)
        later = {send.source for send in block.sends if send not in early}
        for relation in block.fires:
            if relation not in self.stored:
                where = self.program.looked_at.get(relation, ())
                to = Anywhere() if later & set(self.made_of(relation)) else Here()
                found.append(Send(relation, self.program.infos[relation], to, incoming=True, where=where))
        return tuple(found)

    def made_of(self, relation: str) -> tuple[str, ...]:
        """What the source makes of rows of a relation."""
        return tuple(s.target for s in self.program.source.triggers[relation].statements if s.op == "let")

    def made_early(self, relations: tuple[str, ...]) -> tuple[Send, ...]:
        """What the source makes for the first block in buckets, which is made where rows are read, to be there in time.

        If tables are asked for their rows before that block, it is made of these, in their buckets.
        """
        if not self.stored.isdisjoint(relations):
            return ()
        sends = self.source_block(relations).sends
        return tuple(send for send in sends if not send.incoming and not isinstance(send.to, Driver))


@dataclass(frozen=True, slots=True)
class Step:
    """A block; or, if there are `tables`, the resolving of what is asked of them, and then what the source sends."""

    block: Block
    tables: tuple[StoredTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """A committed version, and from what the buckets of that version can be made.

    All buckets have the `label`. `history` are the batches since the oldest snapshot, the oldest first; `snapshots`
    has a version for every bucket, 0 where it starts empty.
    """

    files: Files
    mill: str
    fingerprint: str
    buckets: int
    label: str
    history: tuple[Entry, ...]
    snapshots: tuple[int, ...]
    scratch: str = ""  # where executors keep buckets, if the user has said so
    beside: str = ""  # another program whose buckets are in use, too

    @property
    def home(self) -> Home:
        return Home(self.mill, self.scratch)

    def deployed(self) -> Deployed:
        return deployed(self.files.root, self.fingerprint)

    def snapshot(self, bucket: int, version: int) -> str:
        """The file of a bucket as it was at a version."""
        return snapshot_of(self.fingerprint, bucket, version)


@dataclass(frozen=True, slots=True)
class Saves:
    """Buckets of which a snapshot is due: as they are before a batch, or after it."""

    before: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a batch about views in the buckets.

    Of those that are watched, what it does to the columns that matter. Those that are `checked` must not be in error
    after it: of these, the rows that it changes are looked at, and of those that are `doubted` all. A part of a batch
    that is not where it `ends` may leave them in error.
    """

    watched: Mapping[str, Sequence[ColumnInfo]] = field(default_factory=dict)
    checked: frozenset[str] = frozenset()
    doubted: frozenset[str] = frozenset()
    ends: bool = True


NOTHING = Wanted()


@dataclass(frozen=True, slots=True)
class Work:
    """Step `number` (from 1) of a batch."""

    point: Point
    entry: Entry
    number: int
    saves: Saves = Saves()
    wanted: Wanted = NOTHING

    @property
    def saves_before(self) -> frozenset[int]:
        return self.saves.before if self.number == 1 else frozenset()

    @property
    def saves_after(self) -> frozenset[int]:
        return self.saves.after if self.number == self.entry.blocks else frozenset()

    def wanted_in(self, bucket: int) -> Wanted:
        """Of a view that is everywhere, one bucket tells the changes, and whether it is in error."""
        places = self.point.deployed().program.views

        def here(view: str) -> bool:
            return bucket == 0 or not isinstance(places[view], Everywhere)

        wanted = self.wanted
        watched = {view: columns for view, columns in wanted.watched.items() if here(view)}
        checked, doubted = (frozenset(filter(here, views)) for views in (wanted.checked, wanted.doubted))
        return Wanted(watched, checked, doubted, wanted.ends)

    @property
    def before(self) -> str:
        """The label of the state that the step starts from."""
        return self.entry.label(self.number - 1) if self.number > 1 else self.point.label


def deploy(files: Files, program: Deployed) -> str:
    """Write a program to the checkpoint, under a name of its own.

    There is another one for every attempt: what tasks write that outlived a driver is not taken for anybody else's.
    """
    fingerprint = uuid.uuid4().hex
    files.write(f"programs/{fingerprint}", pickle.dumps(program, protocol=pickle.HIGHEST_PROTOCOL))
    return fingerprint


@lru_cache(maxsize=4)
def deployed(root: str, fingerprint: str) -> Deployed:
    """The program of a checkpoint, read once per process."""
    name = f"programs/{fingerprint}"
    try:
        found = pickle.loads(Files(root).read(name))
    except (AttributeError, ImportError, TypeError, pickle.UnpicklingError):
        found = None
    if not isinstance(found, Deployed):
        raise DamagedFile(
            f"{quoted(Files(root).path(name))} was written by another version of viewmill",
            hint="use the version of viewmill that wrote the checkpoint, or start with an empty one",
        )
    return found


def to_log(table: pa.Table) -> bytes:
    """What arrived, as it is written to a log."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_log(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
