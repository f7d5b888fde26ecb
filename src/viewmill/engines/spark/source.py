"""What is made of a batch where it comes in, before any bucket: sums, and rows that the driver gets as they are.

It needs no state, so it can be done by any task that has rows of the batch. What is for buckets is made where Spark
reads the rows, and arrives with what is sent as it came in. What is for the driver is made there, too, if no bucket has
to do with the batch, which then takes a single stage; else in the buckets that Spark brings rows to.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from viewmill.distribute.nodes import Driver, Send
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.arrivals import Arrival, Arrivals
from viewmill.engines.spark.counted import Rows
from viewmill.engines.spark.message import MESSAGES_IN_SPARK, letters
from viewmill.engines.spark.outgoing import Outgoing, outgoing
from viewmill.engines.spark.refusals import refused_as_message
from viewmill.engines.spark.routing import RowsFunction, Travelling, check_nulls, routing_task, sent_rows, together
from viewmill.engines.spark.work import Deployed, deployed
from viewmill.engines.spark.worker import settle
from viewmill.errors import ViewmillError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a batch over some relations comes in, and by which program it goes on."""

    root: str
    program: str
    relations: tuple[str, ...]

    def to_buckets(self, rows: Mapping[str, DataFrame], buckets: int, parts: int = 1) -> DataFrame:
        """Messages to buckets, of all parts (see `routing_task`). Rows are those of `Incoming.rows`."""
        return _messages(rows, lambda relation: routing_task(self.travelling, relation, buckets, parts))

    def to_driver(self, rows: Mapping[str, DataFrame]) -> DataFrame:
        """Messages to the driver, made by the tasks that read the rows: no bucket has to do with them."""
        return _messages(rows, lambda relation: source_task(self, relation))

    def travelling(self) -> Travelling:
        """For a task."""
        program = deployed(self.root, self.program)
        return Travelling(program.format, program.sends(self.relations), program.given, self._made)

    def _made(self, found: Mapping[str, Rows]) -> list[Outgoing]:
        program = deployed(self.root, self.program)
        early = program.made_early(self.relations)
        arrivals = {name: Arrival(*rows) for name, rows in found.items()} if early else {}
        return at_source(program, program.source_block(self.relations).fires, early, arrivals)


def _messages(rows: Mapping[str, DataFrame], task: Callable[[str], RowsFunction]) -> DataFrame:
    frames = (frame.mapInArrow(task(relation), MESSAGES_IN_SPARK) for relation, frame in rows.items())
    return reduce(DataFrame.unionAll, frames)


def source_task(origin: Origin, relation: str) -> RowsFunction:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        program, relations = deployed(origin.root, origin.program), origin.relations
        for batch in together(batches):
            try:
                check_nulls(program.given[relation], program.sends(relations), batch)
                found = sent_rows(relation, program.sends(relations), batch)
                arrivals = {name: Arrival(*rows) for name, rows in found.items()}
                block = program.source_block(relations)
                sent = at_source(program, block.fires, block.sends, arrivals)
                mail = letters(program.format, 0, {}, {out.name: out.rows for out in sent}, 1)
            except ViewmillError as error:
                mail = refused_as_message(error, 0, 1)
            yield from mail.to_batches()
        settle()

    return run


def at_source(program: Deployed, fires: Sequence[str], sends: Sequence[Send], arrivals: Arrivals) -> list[Outgoing]:
    """What the source's triggers make for these sends, and what of them goes to the driver as it came in.

    What arrived is called by the name of its relation, if that keeps rows, or else by that under which it is sent.
    """
    lets: dict[str, pa.RecordBatch] = {}
    wanted = {send.source for send in sends}
    for relation in fires:
        arrival, names = arrivals.get(relation), [name for name in program.made_of(relation) if name in wanted]
        if arrival is None or not names:
            continue
        engine = _engine(program)
        engine.begin()
        try:
            lets |= engine.fire([arrival.pending(program.program.infos[relation])], {relation: names})
        finally:
            engine.rollback()
    sent = []
    for send in sends:
        if send.incoming and isinstance(send.to, Driver):
            arrival = arrivals.get(send.source if send.source in program.stored else send.info.name)
            if arrival is not None:
                sent.append(Outgoing(send.info.name, send.to, arrival.message(send.info)))
        elif (out := outgoing(send, lets, {})) is not None:
            sent.append(out)
    return sent


def _engine(program: Deployed) -> Kept:
    return _engine_of(program, os.getpid())


@lru_cache(maxsize=2)
def _engine_of(program: Deployed, process: int) -> Kept:
    """An engine without stores. What it runs is undone at once, since there is nothing to keep."""
    folder = Path(tempfile.mkdtemp(prefix="viewmill-source-"))
    kept = Kept.create(folder / "source", program.program.source, program.known)
    for file in folder.iterdir():  # the memory stays until the process ends
        file.unlink()
    folder.rmdir()
    return kept
