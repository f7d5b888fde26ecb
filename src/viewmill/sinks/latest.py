"""The file `_latest` of a place that a view is written to: what is there, and whose it is.

    {"format": 1, "mill": "5f0c...", "view": "revenue", "mode": "versioned", "version": 12,
     "columns": [["region", "string", true], ...],
     "folders": [["_versions/000000000011-3d5e9a10", 11, 12]]}

It is plain JSON, for whoever wants to read it, and is replaced as a whole after everything that it speaks of has been
written: what it says is there. The whole view, as it was from the first of two versions to the second, is in a folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewmill.catalog import ColumnInfo
from viewmill.durable.files import DamagedFile, Files
from viewmill.errors import DataError
from viewmill.wording import quoted

FORMAT = 1
NAME = "_latest"
NOTHING = -1
"""The version of a place that nothing has been written to."""

Mode: TypeAlias = Literal["versioned", "changes"]
MODES: tuple[Mode, ...] = ("versioned", "changes")


@dataclass(frozen=True, slots=True)
class Owner:
    """Who writes to a place: a view of a mill, in one way."""

    mill: str
    view: str
    mode: str
    columns: tuple[tuple[str, str, bool], ...]  # name, type, whether there may be NULLs

    @staticmethod
    def of(mill: str, view: str, mode: Mode, columns: Sequence[ColumnInfo]) -> Owner:
        return Owner(mill, view, mode, tuple((c.name, str(c.type), c.nullable) for c in columns))


@dataclass(frozen=True, slots=True)
class Folder:
    """The whole view, as it was from version `first` to version `last`."""

    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Latest:
    owner: Owner
    version: int = NOTHING
    folders: tuple[Folder, ...] = ()

    def write(self, files: Files) -> None:
        told = {
            "format": FORMAT,
            "mill": self.owner.mill,
            "view": self.owner.view,
            "mode": self.owner.mode,
            "version": self.version,
            "columns": self.owner.columns,
            "folders": [(folder.name, folder.first, folder.last) for folder in self.folders],
        }
        with files.output(NAME) as out:
            out.write(json.dumps(told, indent=1).encode())


def read_latest(files: Files) -> Latest | None:
    """What is there; None if nobody writes views to this place."""
    if not files.exists(NAME):
        return None
    path = files.path(NAME)
    with files.input(NAME) as file:
        data = file.read()
    try:
        told = json.loads(data)
        if told["format"] != FORMAT:
            raise DataError(
                f"{quoted(path)} has format {told['format']}, and this version of viewmill knows format {FORMAT}",
                hint="use the version of viewmill that wrote it, or write the view to another place",
            )
        columns = tuple((str(name), str(type_), bool(null)) for name, type_, null in told["columns"])
        folders = tuple(Folder(name, first, last) for name, first, last in told["folders"])
        return Latest(Owner(told["mill"], told["view"], told["mode"], columns), told["version"], folders)
    except (ValueError, KeyError, TypeError):
        raise DamagedFile(
            f"{quoted(path)} does not say what is there", hint="remove the folder, and write the view again"
        ) from None


def claimed(files: Files, owner: Owner, version: int) -> Latest:
    """What is at a place that is the owner's, or becomes so. The mill is at this version."""
    latest = read_latest(files)
    if latest is None:
        if files.names("") or files.folders(""):
            raise DataError(
                f"{quoted(str(files))} is not empty, and no view was written there",
                hint="write the view to a folder of its own",
            )
        latest = Latest(owner)
        latest.write(files)
    _check(str(files), latest, owner, version)
    return latest


def _check(place: str, latest: Latest, owner: Owner, version: int) -> None:
    there = latest.owner
    if (there.mill, there.view, there.mode) != (owner.mill, owner.view, owner.mode):
        whose = "of another mill, " if there.mill != owner.mill else ""
        raise DataError(
            f"{quoted(place)} holds view {quoted(there.view)} {whose}written with mode {quoted(there.mode)}",
            hint=f"write view {quoted(owner.view)} to another place, or remove what is there",
        )
    if there.columns != owner.columns:
        raise DataError(
            f"{quoted(place)} holds view {quoted(there.view)} with other columns: {_shown(there)}, not {_shown(owner)}",
            hint="write the view to another place, or remove what is there",
        )
    if latest.version > version:
        raise DataError(
            f"{quoted(place)} holds version {latest.version} of view {quoted(there.view)}, the mill is at {version}",
            hint="write the view to another place, or remove what is there: the mill has lost batches since",
        )


def _shown(owner: Owner) -> str:
    return ", ".join(f"{name} {type_}{'' if null else ' not null'}" for name, type_, null in owner.columns)
