"""A mill on Spark without Spark: rows are routed, steps are taken and the driver runs by the same code, in one process.

What Spark does is done by hand: it hands rows over as columns, in two pieces, with a mark for those that a send takes,
and carries messages. Everything is compared with an interpreter that runs the program undistributed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from distribute.simulate import difference, passing
from distribute.stories import Change

from viewmill.arrow import arrow_type
from viewmill.catalog import Catalog
from viewmill.distribute import distribute
from viewmill.distribute.nodes import Driver, Everywhere, Place, Send
from viewmill.durable.files import Files
from viewmill.durable.history import Entry
from viewmill.engines.interpreter import Interpreter
from viewmill.engines.interpreter.tables import Row, Rows
from viewmill.engines.local.engine import LocalEngine
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.arrivals import from_messages
from viewmill.engines.spark.driver import DriverState
from viewmill.engines.spark.message import MESSAGES
from viewmill.engines.spark.resolve import Op, with_tables
from viewmill.engines.spark.routing import columns_of, routing_task
from viewmill.engines.spark.source import Origin, source_task
from viewmill.engines.spark.step import take
from viewmill.engines.spark.task import mail
from viewmill.engines.spark.work import Deployed, deploy, deployed
from viewmill.program.nodes import Program


class Carried:
    """Buckets and a driver. Tables named in `stored` keep their rows, the others tell what is gone and what is new."""

    def __init__(self, program: Program, catalog: Catalog, folder: Path, stored: Collection[str], buckets: int) -> None:
        infos = [catalog.relations[name] for name in sorted(stored)]
        distributed = with_tables(distribute(program, catalog), infos)
        self._files, self._buckets, self._version = Files(str(folder)), buckets, 0
        self._program = deploy(self._files, Deployed(distributed, catalog, frozenset(stored)))
        self.deployed = deployed(self._files.root, self._program)
        self._kept = [
            Kept.create(
                folder / f"bucket-{bucket}",
                self.deployed.program.buckets,
                self.deployed.known,
                self.deployed.constants(bucket, buckets),
            )
            for bucket in range(buckets)
        ]
        self._driver = DriverState(self.deployed)

    def close(self) -> None:
        for kept in self._kept:
            kept.close()

    def apply(self, batch: Change) -> None:
        self._version += 1
        relations = tuple(sorted(name for name in batch if name in self.deployed.relations))
        if not relations:
            return
        steps = len(self.deployed.steps(relations))
        entry = Entry(self._version, uuid.uuid4().hex, relations, steps)
        messages = list(self._read(relations, batch, to_buckets=bool(steps)))
        gathered = [] if steps else messages
        for number in range(1, steps + 1):
            arrived, messages = _together(messages), []
            for bucket, kept in enumerate(self._kept):
                mine = _for(arrived, bucket)
                taken = take(kept, self.deployed, entry, number, mine if mine.num_rows else None)
                sent = mail(self.deployed.format, taken.sent, bucket, self._buckets)
                messages.append(sent)
                gathered.append(sent)
        self._driver.take(self.deployed.plan(relations), from_messages(self.deployed, _for(_together(gathered), -1)))

    def _read(self, relations: tuple[str, ...], batch: Change, *, to_buckets: bool) -> Iterator[pa.Table]:
        """What leaves the tasks that read the batch, two for each relation."""
        origin = Origin(self._files.root, self._program, relations)
        sends = self.deployed.sends(relations)
        for relation in dict.fromkeys(send.source for send in sends):
            rows = self._rows(relation, batch[relation], sends)
            middle = rows.num_rows // 2
            for piece in (rows.slice(0, middle), rows.slice(middle)):
                to_driver = source_task(origin, relation)
                task = routing_task(origin.travelling, relation, self._buckets) if to_buckets else to_driver
                yield from (pa.Table.from_batches([sent]) for sent in task(iter([piece])))

    def _rows(self, relation: str, changed: Mapping[Row, int], sends: tuple[Send, ...]) -> pa.RecordBatch:
        """As `Incoming.rows` has them."""
        info = self.deployed.catalog.relations[relation]
        rows = [row for row, n in changed.items() for _ in range(abs(n))]
        weights = [1 if n > 0 else -1 for n in changed.values() for _ in range(abs(n))]
        if relation in self.deployed.stored:
            weights = [(Op.ADD if weight > 0 else Op.REMOVE).code(0) for weight in weights]
        columns: dict[str, pa.Array] = {}
        for place, name in enumerate(columns_of(relation, sends)):
            at = info.names.index(name)
            columns[f"c{place}"] = pa.array([row[at] for row in rows], arrow_type(info.columns[at].type))
        columns["w"] = pa.array(weights, pa.int64())
        for number, send in enumerate(sends):
            if send.source == relation and send.where:
                kept = passing(send.where, info.names, changed)
                columns[f"k{number}"] = pa.array([row in kept for row in rows])
        return pa.RecordBatch.from_pydict(columns)

    def contents(self, view: str) -> Rows:
        return self._found(self.deployed.program.views[view], lambda place: place.contents(view))

    def store(self, name: str) -> Rows:
        return self._found(self.deployed.program.places[name], lambda place: place.store(name))

    def _found(self, place: Place, read: Callable[[Kept | LocalEngine], Rows]) -> Rows:
        if isinstance(place, Driver):
            return read(self._driver.engine)
        parts = [read(kept) for kept in self._kept]
        if isinstance(place, Everywhere):
            assert not any(difference(part, parts[0]) for part in parts), "copies that are not the same"
            return parts[0]
        assert sum(map(len, parts)) == len({row for part in parts for row in part}), "a row in two buckets"
        return {row: weight for part in parts for row, weight in part.items()}


def _together(messages: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([MESSAGES.empty_table(), *messages]).cast(MESSAGES)


def _for(messages: pa.Table, target: int) -> pa.Table:
    return messages.filter(pa.array(np.asarray(messages.column("target")) == target))


def wrong(
    program: Program,
    catalog: Catalog,
    story: Iterator[Change],
    folder: Path,
    *,
    stored: Collection[str] = (),
    buckets: int = 3,
) -> str:
    """Views and stores that are not as in the undistributed program, after the first batch that shows it."""
    truth = Interpreter()
    truth.install(program, {})
    ours = Carried(program, catalog, folder, stored, buckets)
    try:
        for number, batch in enumerate(story):
            truth.apply({name: rows for name, rows in batch.items() if name in program.triggers})
            ours.apply(batch)
            found = {f"view {view}": difference(ours.contents(view), truth.contents(view)) for view in program.views}
            kept = program.stores.keys() & ours.deployed.program.places.keys()
            found |= {f"store {name}": difference(ours.store(name), truth.store(name)) for name in kept}
            if any(found.values()):
                return f"after batch {number}: " + "\n".join(f"{what}: {w[:500]}" for what, w in found.items() if w)
    finally:
        ours.close()
    return ""
