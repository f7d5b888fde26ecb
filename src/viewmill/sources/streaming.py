"""Streams in step: several streaming DataFrames become one streaming query, so that each of its batches is one of ours.

Spark gives batches of one query a number and, after a failure, the same batch again under the same number. The number
of the last batch is part of our commit, so a batch that Spark repeats is known, and skipped. Spark keeps how far each
stream is by its place among the others, which is that of its table's name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from viewmill.catalog import RelationInfo
from viewmill.engines.spark.columns import checked, exactly
from viewmill.engines.spark.frames import Request, counted
from viewmill.errors import BindError, DataError, ViewmillError
from viewmill.sources.formats import ChangeFormat
from viewmill.wording import quoted

Taker = Callable[[list[Request], int], None]
"""Takes the batch with this number, once."""


@dataclass(frozen=True, slots=True)
class Stream:
    info: RelationInfo
    frame: DataFrame
    format: ChangeFormat
    stored: bool  # the rows of the relation are

    def check(self) -> None:
        """What names and types tell is refused before there is a batch."""
        for given in counted(self.format.requests(self.frame, self.info), self.info, stored=self.stored):
            checked(given.frame.schema, self.info)


class Streams:
    """Streams of a mill: added one by one, then started together."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}
        self._query: StreamingQuery | None = None
        self._failure: Exception | None = None

    def add(self, stream: Stream) -> None:
        self._check_ended("adding another one")
        if not stream.frame.isStreaming:
            raise BindError(
                f"the DataFrame for {stream.info.name} is not a stream", hint="use mill.apply or mill.insert for it"
            )
        if stream.info.name in self._streams:
            raise BindError(f"{stream.info.name} has a stream already", hint="union the two, and add the union")
        stream.check()
        self._streams[stream.info.name] = stream

    def _check_ended(self, what: str) -> None:
        if self._query is not None and self._query.isActive:
            raise BindError("the mill's streams are running", hint=f"call mill.stop() before {what}")

    @property
    def tables(self) -> tuple[str, ...]:
        """Those that streams feed. Spark knows the streams by this order."""
        return tuple(sorted(self._streams))

    def check_can_go(self, tables: Collection[str]) -> None:
        """Whether tables can be dropped."""
        for name in self._streams.keys() & tables:
            self._check_ended(f"dropping table {quoted(name)}")

    def forget(self, tables: Collection[str]) -> None:
        """They are dropped."""
        for name in self._streams.keys() & tables:
            del self._streams[name]

    def check_can_start(self) -> tuple[str, ...]:
        """The tables that are fed then."""
        self._check_ended("starting them again")
        if not self._streams:
            raise BindError("there is no stream to start", hint="add one with mill.stream(table, dataframe)")
        return self.tables

    def start(self, take: Taker, checkpoint: str, trigger: Mapping[str, Any]) -> None:
        self._failure = None

        def batch(rows: DataFrame, number: int) -> None:
            rows = rows.persist()  # it is read once for every table
            try:
                take(self._requests(rows), number)
            except (ViewmillError, ExceptionGroup) as error:  # ours, and what subscribers raise
                self._failure = error
                raise
            finally:
                rows.unpersist()

        # Each row is a struct in the column of its table: streams of different columns in one.
        tagged = [self._streams[name].frame.select(F.struct("*").alias(name)) for name in self.tables]
        together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
        writer = together.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
        self._query = (writer.trigger(**trigger) if trigger else writer).start()

    def _requests(self, rows: DataFrame) -> list[Request]:
        requests = []
        for name in self._with_rows(rows):
            row, stream = exactly(name), self._streams[name]
            frame = rows.filter(row.isNotNull()).select(*(row.getField(n).alias(n) for n in stream.frame.columns))
            requests += stream.format.requests(frame, stream.info)
        return requests

    def _with_rows(self, rows: DataFrame) -> list[str]:
        """Tables whose streams have given any. Of several, a batch is of these alone: the others are not touched."""
        if len(self._streams) == 1:  # it has, but for streams that filter
            return list(self._streams)
        counts = rows.agg(*(F.count(exactly(name)) for name in self.tables)).first()
        return [name for name, count in zip(self.tables, counts or (), strict=True) if count]

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the streams end; false if they have not in so many seconds. What stopped them is raised."""
        if self._query is None:
            return True
        try:
            ended = self._query.awaitTermination(timeout)  # type: ignore[arg-type]  # any number of seconds
        except StreamingQueryException as error:
            raise self._failure or DataError(f"the stream has failed: {' '.join(str(error).split())[:500]}") from error
        return True if timeout is None else bool(ended)

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None
