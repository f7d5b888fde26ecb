"""The whole view after every batch, version by version.

    <place>/_latest                                      which folder has which versions
    <place>/_versions/000000000012-3d5e9a10/part-*.parquet

A folder is written first and named in `_latest` then, which is the moment the version appears. A batch that does not
change the view writes no folder: the last one has that version, too. Older folders are removed but for a few, so that
who reads the version before is not cut off. Nothing depends on moving or listing folders, so this is the same
on object stores.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from viewmill.catalog import ColumnInfo
from viewmill.durable.files import FileError, Files
from viewmill.sinks.latest import Folder, Latest
from viewmill.sinks.parquet import parquet_schema, write_parts
from viewmill.sinks.sink import Moment

VERSIONS = "_versions"


class VersionedSink:
    """Keeps so many folders."""

    def __init__(self, place: str, files: Files, latest: Latest, columns: Sequence[ColumnInfo], keep: int) -> None:
        self.place = place
        self._files = files
        self._latest = latest
        self._schema = parquet_schema(columns)
        self._keep = keep

    @property
    def view(self) -> str:
        return self._latest.owner.view

    @property
    def shown(self) -> str:
        """Where Spark finds the newest version."""
        return self._files.for_spark(self._latest.folders[-1].name)

    def take(self, moment: Moment) -> None:
        before = self._latest
        if before.folders and before.version == moment.version:
            return
        if before.folders and _is_same(before, moment):
            folders = (*before.folders[:-1], replace(before.folders[-1], last=moment.version))
        else:
            name = f"{VERSIONS}/{moment.version:012d}-{uuid.uuid4().hex[:8]}"
            write_parts(moment.whole(), self._schema, self._files, name)
            folders = (*before.folders, Folder(name, moment.version, moment.version))[-self._keep :]
        latest = replace(before, version=moment.version, folders=folders)
        latest.write(self._files)
        self._latest = latest
        if folders[-1].first == moment.version:
            self._clean()

    def _clean(self) -> None:
        """What is there counts, whatever becomes of old folders: those that cannot be removed now can be later."""
        kept = {folder.name for folder in self._latest.folders}
        with suppress(FileError):
            for name in self._files.folders(VERSIONS):
                if f"{VERSIONS}/{name}" not in kept:
                    self._files.remove(f"{VERSIONS}/{name}")


def _is_same(before: Latest, moment: Moment) -> bool:
    """Whether the view is known to be what it was."""
    return moment.change is not None and moment.change.num_rows == 0 and before.version == moment.version - 1
