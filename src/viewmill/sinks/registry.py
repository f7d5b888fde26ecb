"""The sinks of a mill: what is written where after every batch.

The batch is committed before its views are written. So a crash in between loses nothing that counts: the sink knows
which version it has, and is brought up to date when it is opened again, or with the next batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from viewmill.catalog import ColumnInfo
from viewmill.durable.files import Files
from viewmill.errors import BindError, DataError, SinkError
from viewmill.sinks.changes import ChangesSink, check_columns
from viewmill.sinks.latest import MODES, Mode, Owner, claimed
from viewmill.sinks.sink import Moment, Sink
from viewmill.sinks.tables import TableSink, is_table
from viewmill.sinks.versioned import VersionedSink
from viewmill.wording import nearest, quoted


class Sinks:
    def __init__(self) -> None:
        self._sinks: list[Sink] = []

    @property
    def written(self) -> tuple[str, ...]:
        """The views that are written somewhere."""
        return tuple(dict.fromkeys(sink.view for sink in self._sinks))

    def add(self, sink: Sink, moment: Moment) -> Callable[[], None]:
        """Bring a sink up to date, and keep it so. Returns what ends this; to end it twice is harmless."""
        if any(other.place == sink.place for other in self._sinks):
            raise BindError(
                f"a view is written to {quoted(sink.place)} already", hint="end that first, or write to another place"
            )
        sink.take(moment)
        self._sinks.append(sink)

        def end() -> None:
            if sink in self._sinks:
                self._sinks.remove(sink)

        return end

    def forget(self, view: str) -> None:
        self._sinks = [sink for sink in self._sinks if sink.view != view]

    def take(self, moments: Callable[[str], Moment]) -> list[SinkError]:
        """Write what a batch did. It is committed whatever happens here: what fails is told, and made up for later."""
        failures = []
        for sink in tuple(self._sinks):
            moment = moments(sink.view)
            try:
                sink.take(moment)
            except Exception as error:
                failures.append(_failure(sink, moment.version, error))
        return failures


def _failure(sink: Sink, version: int, error: Exception) -> SinkError:
    reason = error.message if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
    failure = SinkError(
        f"the batch was committed as version {version}, "
        f"but view {quoted(sink.view)} could not be written to {quoted(sink.place)}: {reason}",
        hint="do not apply the batch again: what is missing is written with the next one",
    )
    failure.__cause__ = error
    return failure


def open_sink(
    spark: SparkSession,
    target: str | os.PathLike[str],
    owner: Owner,
    columns: Sequence[ColumnInfo],
    *,
    keep: int,
    checkpoint: Files,
    version: int,
) -> Sink:
    """The sink at a path, or under a name of the catalog whose files are then in the checkpoint."""
    _check(owner, columns, keep)
    if isinstance(target, str) and is_table(target):
        files = checkpoint.within(f"tables/{target.lower()}")
        inner = _opened(target.lower(), files, owner, columns, keep, version)
        return TableSink(spark, target.lower(), f"{owner.mill} {owner.view} {owner.mode}", inner)
    files = Files(os.fspath(target))
    if files.is_within(checkpoint):
        raise BindError(
            f"view {quoted(owner.view)} cannot be written to {quoted(str(files))}, which is in the mill's checkpoint",
            hint="write it to a folder beside the checkpoint, or to a name of Spark's catalog",
        )
    return _opened(str(files), files, owner, columns, keep, version)


def _opened(
    place: str, files: Files, owner: Owner, columns: Sequence[ColumnInfo], keep: int, version: int
) -> VersionedSink | ChangesSink:
    latest = claimed(files, owner, version)
    if owner.mode == "changes":
        return ChangesSink(place, files, latest, columns)
    return VersionedSink(place, files, latest, columns, keep)


def _check(owner: Owner, columns: Sequence[ColumnInfo], keep: int) -> None:
    if owner.mode not in MODES:
        raise BindError(
            f"view {quoted(owner.view)} cannot be written with mode {quoted(owner.mode)}",
            hint=nearest(owner.mode, MODES, "modes are"),
        )
    if keep < 1:
        raise BindError(f"{keep} versions of view {quoted(owner.view)} cannot be kept", hint="keep at least 1")
    check_columns(owner.view, owner.mode, columns)


__all__ = ["Mode", "Sinks", "open_sink"]
