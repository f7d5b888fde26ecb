"""Read what a view was written as, version by version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewmill.durable.files import Files
from viewmill.errors import DataError
from viewmill.sinks.latest import Folder, read_latest
from viewmill.wording import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_versioned(spark: SparkSession, path: str, *, version: int | None = None) -> DataFrame:
    """A view that is written to `path` with mode "versioned": its newest version, or this one.

    The rows are those of one version, however many batches are committed before they are read. Only the newest
    versions are kept (`view.write(..., keep=2)`): who still reads one that is removed gets an error, not other rows.
    """
    files = Files(path)
    latest = read_latest(files)
    if latest is None or latest.owner.mode != "versioned" or not latest.folders:
        raise DataError(
            f"{quoted(path)} holds no version of a view",
            hint='write one there with view.write(path, mode="versioned")',
        )
    return spark.read.parquet(files.for_spark(_folder(latest.folders, path, version).name))


def _folder(folders: tuple[Folder, ...], path: str, version: int | None) -> Folder:
    if version is None:
        return folders[-1]
    for folder in folders:
        if folder.first <= version <= folder.last:
            return folder
    there = ", ".join(_span(folder) for folder in folders)
    raise DataError(f"{quoted(path)} does not have version {version}", hint=f"there are versions {there}")


def _span(folder: Folder) -> str:
    return str(folder.first) if folder.first == folder.last else f"{folder.first} to {folder.last}"
