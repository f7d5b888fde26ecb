"""The history of a mill: which batches are committed, and from what the state of each part can be made again.

A part of the state (a bucket, or the driver) is the state of its newest *snapshot* and the *logs* of what it took
since. A batch exists from the moment its commit file does: all files that it needs were written before. What was
written for a batch without a commit is never looked at again.

    programs/<fingerprint>              a distributed program
    commits/<number>                    JSON: see `Commit`
    logs/<version>-<batch>/<block>-<bucket>    what arrived in a bucket for a block; driver: what was gathered
    snapshots/<program>/<bucket>-<version>     a bucket, or the driver, as it was when the version was committed
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from viewmill.durable.files import DamagedFile, FileError, Files
from viewmill.errors import DataError
from viewmill.wording import quoted

FORMAT = 7


@dataclass(frozen=True, slots=True)
class Entry:
    """A committed batch, or a part of one: `blocks` ran in the buckets, for changes of `relations`.

    The parts of a batch have its version, and are committed together, one entry after another.
    """

    version: int
    batch: str
    relations: tuple[str, ...] = ()
    blocks: int = 0
    logs: tuple[str, ...] = ()  # of which buckets and blocks there are
    gathered: bool = False  # the driver has a log of its own

    @property
    def folder(self) -> str:
        return f"logs/{self.version:012d}-{self.batch}"

    def log(self, block: int, bucket: int) -> str:
        return f"{self.folder}/{block}-{bucket}"

    def has_log(self, block: int, bucket: int) -> bool:
        return f"{block}-{bucket}" in self.logs

    @property
    def driver_log(self) -> str:
        return f"{self.folder}/driver"

    def label(self, block: int) -> str:
        return f"{self.version}-{self.batch}/{block}"


@dataclass(frozen=True, slots=True)
class Feed:
    """Streams into some tables: where Spark keeps how far they are, and the number of the last batch that was taken."""

    place: str
    tables: tuple[str, ...]
    taken: int = -1


DRIVER = "driver"


def snapshot_of(program: str, part: int | str, version: int) -> str:
    """The file of a bucket, or of the driver."""
    return f"snapshots/{program}/{part}-{version:012d}"


@dataclass(frozen=True, slots=True)
class Commit:
    """The mill at a version: everything that is needed to go on from here. Definitions are commits of their own.

    `entries` are the batches since the oldest snapshot, the newest last. `snapshots` holds a version for each bucket,
    `driver` that of the driver's; a version of 0 is the empty state, which needs no file. `saved` are the bytes of
    these snapshots, `logged` those of the logs since. `definitions` are the statements that made the tables and views;
    if the program is `stale`, it is not yet that of all of them. `label` is that of all buckets, and `touched` the
    relations that have ever changed. `feed` are the streams that feed the mill.
    """

    number: int = 0
    version: int = 0
    mill: str = ""
    program: str = ""
    stale: bool = False
    dialect: str = "spark"
    definitions: tuple[str, ...] = ()
    buckets: int = 0
    entries: tuple[Entry, ...] = ()
    snapshots: tuple[int, ...] = ()
    saved: tuple[int, ...] = ()
    logged: tuple[int, ...] = ()
    driver: int = 0
    label: str = ""
    touched: tuple[str, ...] = ()
    feed: Feed | None = None
    format: int = FORMAT

    def after(self, entry: Entry, streamed: int | None = None) -> Commit:
        """After a batch, or the last part of one; that number of its streams, if it is of them."""
        return replace(
            self.passing(entry),
            number=self.number + 1,
            version=entry.version,
            touched=tuple(dict.fromkeys((*self.touched, *entry.relations))),
            feed=replace(self.feed, taken=streamed) if self.feed and streamed is not None else self.feed,
        )

    def passing(self, entry: Entry) -> Commit:
        """After a part of something that is to be committed as a whole: not to be written, but to go on from."""
        label = entry.label(entry.blocks) if entry.blocks else self.label
        return replace(self, entries=(*self.entries, entry), label=label)

    def without_old_entries(self) -> Commit:
        """Without entries that are in the snapshots of all parts that have had anything of them."""
        oldest = min(self.snapshots, default=0)

        def is_needed(entry: Entry) -> bool:
            return (entry.blocks > 0 and entry.version > oldest) or (entry.gathered and entry.version > self.driver)

        return replace(self, entries=tuple(filter(is_needed, self.entries)))

    def snapshot(self, part: int | str, version: int) -> str:
        """The file of a bucket, or of the driver, as it was at a version."""
        return snapshot_of(self.program, part, version)

    def since(self, version: int) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.version > version)


class History:
    """Commits in files."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def newest(self) -> Commit | None:
        names = self.files.names("commits")
        if not names:
            return None
        name = f"commits/{names[-1]}"
        return _commit(json.loads(self.files.read(name)), self.files.path(name))

    def commit(self, commit: Commit) -> None:
        """From here on the version exists.

        Of two mills that use a checkpoint, one has each number. It may be gone when the other comes, but never before
        there is a later one.
        """
        name, data = f"{commit.number:012d}", json.dumps(asdict(commit)).encode()
        if not self.files.create(f"commits/{name}", data) or self._is_late(name):
            raise DataError(
                f"another mill uses the checkpoint {quoted(str(self.files))}, and committed version {commit.version}",
                hint="one mill at a time may use a checkpoint; connect again to go on from what is there",
            )

    def _is_late(self, name: str) -> bool:
        """Whether somebody has gone on before a commit that was just created. If that cannot be told, nobody has."""
        with suppress(FileError):
            return any(other > name for other in self.files.names("commits"))
        return False

    def clean(self, commit: Commit) -> None:
        """Remove what the commit does not need: older commits, logs, snapshots and programs."""
        for name in self.files.names("commits")[:-1]:
            self.files.remove(f"commits/{name}")
        kept = {entry.folder for entry in commit.entries}
        for folder in self.files.folders("logs"):
            version, is_ours, _ = folder.partition("-")
            if f"logs/{folder}" not in kept and is_ours and version.isdigit() and int(version) <= commit.version:
                self.files.remove(f"logs/{folder}")
        kept_folder = f"snapshots/{commit.program}"
        for folder in self.files.folders("snapshots"):
            if f"snapshots/{folder}" != kept_folder:
                self.files.remove(f"snapshots/{folder}")
        needed = {commit.snapshot(bucket, version) for bucket, version in enumerate(commit.snapshots)}
        needed.add(commit.snapshot(DRIVER, commit.driver))
        for name in self.files.names(kept_folder):
            if f"{kept_folder}/{name}" not in needed:
                self.files.remove(f"{kept_folder}/{name}")
        for name in self.files.names("programs"):
            if name != commit.program:
                self.files.remove(f"programs/{name}")
        for folder in ("commits", "programs", kept_folder):  # nobody writes there now, unless nobody waits for it
            for name in self.files.drafts(folder):
                self.files.remove(f"{folder}/{name}")


def _commit(data: dict[str, Any], path: str) -> Commit:
    if data.get("format") != FORMAT:
        raise DataError(
            f"{quoted(path)} has format {data.get('format')}, and this version of viewmill knows format {FORMAT}",
            hint="use the version of viewmill that wrote the checkpoint, or start with an empty one",
        )
    try:
        data["entries"] = tuple(_entry(entry) for entry in data["entries"])
        for name in ("definitions", "snapshots", "saved", "logged", "touched"):
            data[name] = tuple(data[name])
        if data["feed"] is not None:
            data["feed"] = Feed(**{**data["feed"], "tables": tuple(data["feed"]["tables"])})
        return Commit(**data)
    except (TypeError, KeyError):
        raise DamagedFile(f"{quoted(path)} is not a commit", hint="restore the checkpoint from a copy of it") from None


def _entry(data: dict[str, Any]) -> Entry:
    return Entry(**{**data, "relations": tuple(data["relations"]), "logs": tuple(data["logs"])})
