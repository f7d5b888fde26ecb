"""What each batch did to the view: a file for every version that differs from the one before.

    <place>/changes-000000000012.parquet      the view's columns, _change_type, _commit_version
    <place>/_latest                           up to which version the files go

A file appears as a whole, so that `spark.read.parquet(place)` and a stream of files over the place see whole batches
only. The first file has the view as it was when it was first written here.

Law: what is inserted less what is deleted, each row as often as it occurs, is the view at the version of `_latest`. A
place that is behind, because a batch was committed and not written, or many were while nobody wrote, gets the
difference to that sum as the changes of the version that the mill is at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from viewmill.catalog import ColumnInfo
from viewmill.durable.files import FileError, Files
from viewmill.engines.spark.columns import exactly
from viewmill.engines.spark.handed import local_frame
from viewmill.errors import BindError, UnsupportedError
from viewmill.numbers import as_column, numbers
from viewmill.sinks.latest import Latest
from viewmill.sinks.parquet import STAGING, Rows, parquet_schema, write_file
from viewmill.sinks.sink import Moment
from viewmill.wording import quoted

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"

_INSERT, _DELETE = "insert", "delete"
_NAME, _SUFFIX = "changes-", ".parquet"
_FILE = re.compile(rf"{_NAME}(\d{{12,}}){re.escape(_SUFFIX)}")
_COUNT = "_count"


class ChangesSink:
    def __init__(self, place: str, files: Files, latest: Latest, columns: Sequence[ColumnInfo]) -> None:
        self.place = place
        self._files = files
        self._latest = latest
        self._columns = tuple(columns)
        self._schema = (
            parquet_schema(columns)
            .append(pa.field(CHANGE_TYPE, pa.string()))
            .append(pa.field(COMMIT_VERSION, pa.int64()))
        )
        self._has_files = False
        self._find()

    def _find(self) -> None:
        """A file may be there though `_latest` does not say so yet: it is whole, and counts."""
        found = [_FILE.fullmatch(name) for name in self._files.names("")]
        versions = [int(match[1]) for match in found if match is not None]
        self._has_files = bool(versions)
        newest = max(versions, default=-1)
        self._latest = replace(self._latest, version=max(self._latest.version, newest))
        with suppress(FileError):
            for folder in self._files.folders(""):
                if folder.startswith(STAGING):
                    self._files.remove(folder)

    @property
    def view(self) -> str:
        return self._latest.owner.view

    @property
    def shown(self) -> str:
        """Where Spark finds all changes."""
        return self._files.for_spark()

    def take(self, moment: Moment) -> None:
        version = moment.version
        if self._has_files and self._latest.version == version:
            return
        if moment.change is not None and self._has_files and self._latest.version == version - 1:
            rows: Rows | None = _listed(moment.change, version) if moment.change.num_rows else None
        else:
            rows = self._missing(moment)
        if rows is not None:
            write_file(rows, self._schema, self._files, f"{_NAME}{version:012d}{_SUFFIX}")
            self._has_files = True
        latest = replace(self._latest, version=version)
        latest.write(self._files)
        self._latest = latest

    def _missing(self, moment: Moment) -> Rows:
        """What has to be added to the changes that are there, so that they make the view."""
        whole = moment.whole()
        if isinstance(whole, pa.Table) and not self._has_files:
            ones = as_column(np.ones(whole.num_rows, np.int64))
            return _listed(whole.append_column(_COUNT, ones), moment.version)
        session = moment.session
        now = local_frame(session, whole, self._columns) if isinstance(whole, pa.Table) else whole
        names = [exactly(column.name) for column in self._columns]
        counted = now.select(*names, F.lit(1).alias(_COUNT))
        if self._has_files:
            past = session.read.parquet(self.shown)
            sign = F.when(F.col(CHANGE_TYPE) == _INSERT, -1).otherwise(1)
            counted = counted.unionAll(past.select(*names, sign.alias(_COUNT)))
            counted = counted.groupBy(*names).agg(F.sum(_COUNT).cast("int").alias(_COUNT)).filter(f"{_COUNT} != 0")
        return _repeated(counted, names, moment.version)


def _listed(change: pa.Table, version: int) -> pa.Table:
    """Rows with their weight in the last column, each as often as it was removed or added; removals first."""
    weights = numbers(change.column(change.num_columns - 1))
    order = np.argsort(weights > 0, kind="stable")
    places = np.repeat(order, np.abs(weights[order]))
    rows = change.select(range(change.num_columns - 1)).take(as_column(places))
    kinds = pa.array(np.where(weights[places] > 0, _INSERT, _DELETE).tolist(), pa.string())
    versions = as_column(np.full(len(places), version, np.int64))
    return rows.append_column(CHANGE_TYPE, kinds).append_column(COMMIT_VERSION, versions)


def _repeated(counted: DataFrame, names: Sequence[Column], version: int) -> DataFrame:
    """The same on Spark."""
    kind = F.when(F.col(_COUNT) > 0, _INSERT).otherwise(_DELETE)
    times = F.array_repeat(kind, F.abs(F.col(_COUNT)))
    commit = F.lit(version).cast("bigint").alias(COMMIT_VERSION)
    return counted.select(*names, F.explode(times).alias(CHANGE_TYPE), commit)


def check_columns(view: str, mode: str, columns: Sequence[ColumnInfo]) -> None:
    """What cannot be a column of these files."""
    for column in columns:
        if column.type.name == "void":
            raise UnsupportedError(
                f"column {quoted(column.name)} of view {quoted(view)} is always NULL, and has no type in a file",
                hint="cast it to a type in the view's query, or leave it out",
            )
        if mode == "changes" and column.name in (CHANGE_TYPE, COMMIT_VERSION, _COUNT):
            raise BindError(
                f"column {quoted(column.name)} of view {quoted(view)} has a name that written changes need",
                hint="call it something else in the view's query",
            )
