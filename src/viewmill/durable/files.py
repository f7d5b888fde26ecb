"""Named files in a folder, each whole or not there, each with its checksum.

    files = Files("s3://bucket/mill")          or a path, or any other URI that Arrow knows
    files.write("commits/000012", b"...")
    files.read("commits/000012")               raises DamagedFile if a byte of it has changed

A file is written under another name and moved where it belongs: who reads a name sees the file complete, also if the
writer was killed. On a disk of this machine it is on the disk before that, and its name before `write` returns, so that
what a commit names outlives the machine's power, too. On object stores, where there is no move, a file appears when its
last byte has arrived.
"""

from __future__ import annotations

import io
import os
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.fs as fs

from viewmill.errors import DataError
from viewmill.wording import quoted

_MAGIC = b"VMF1"
_TRAILER = len(_MAGIC) + 4
_DRAFT = ".draft"


class DamagedFile(DataError):
    """A file of ours is not as it was written."""


class Files:
    """Pickles to where it points."""

    def __init__(self, root: str) -> None:
        self.root = root if "://" in root else str(Path(root).absolute())

    def __reduce__(self) -> tuple[type[Files], tuple[str]]:
        return Files, (self.root,)

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        try:
            system, path = fs.FileSystem.from_uri(self.root)
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            raise DataError(
                f"cannot use {quoted(self.root)} as a checkpoint: {_line(error)}",
                hint="give a folder, or a URI that Arrow can write: file://, s3://, gs://, abfs://, hdfs://",
            ) from None
        return system, path

    def path(self, name: str) -> str:
        return f"{self._place[1]}/{name}"

    # --- whole files

    def write(self, name: str, data: bytes) -> None:
        """All of it, or nothing. A file of that name is replaced."""
        with self.output(name) as out:
            out.write(data)
            out.write(_MAGIC + zlib.crc32(data).to_bytes(4, "little"))

    @contextmanager
    def output(self, name: str) -> Iterator[BinaryIO]:
        """A file to write piece by piece, there once the block ends. Who writes it sees to checksums."""
        system, path = self._place[0], self.path(name)
        folder, _, base = path.rpartition("/")
        # Spark does not look at names that start with a dot.
        draft = f"{folder}/.{base}.{uuid.uuid4().hex}{_DRAFT}" if self._moves else path
        try:
            system.create_dir(folder, recursive=True)
            with system.open_output_stream(draft) as out:
                yield out
            if draft != path:
                self._settle(draft)
                system.move(draft, path)
                with suppress(OSError):  # not every file system knows this of folders
                    self._settle(folder)
                    self._settle(folder.rpartition("/")[0] or "/")  # the folder may be new, too
        except BaseException as error:
            if draft != path:
                with suppress(OSError):
                    system.delete_file(draft)
            if not isinstance(error, OSError):
                raise
            raise DataError(
                f"cannot write {quoted(path)}: {_line(error)}",
                hint="the checkpoint must be a place that the driver and every executor can write",
            ) from None

    def _settle(self, path: str) -> None:
        """Have a file or a folder of this machine written to its disk."""
        if isinstance(self._place[0], fs.LocalFileSystem) and os.name == "posix":
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    @contextmanager
    def input(self, name: str) -> Iterator[BinaryIO]:
        """A file to read piece by piece."""
        path = self.path(name)
        try:
            file = self._place[0].open_input_file(path)
        except FileNotFoundError:
            raise _missing(path) from None
        with file, io.BufferedReader(file) as buffered:
            yield buffered

    def read(self, name: str) -> bytes:
        path = self.path(name)
        with self.input(name) as file:
            data = file.read()
        body, trailer = data[:-_TRAILER], data[-_TRAILER:]
        if len(data) < _TRAILER or trailer != _MAGIC + zlib.crc32(body).to_bytes(4, "little"):
            raise DamagedFile(
                f"{quoted(path)} is damaged: its checksum is wrong", hint="restore the checkpoint from a copy of it"
            )
        return body

    def names(self, folder: str) -> list[str]:
        """The files of a folder, by name; none if it is not there."""
        return [name for name in self._all(folder) if not name.endswith(_DRAFT)]

    def drafts(self, folder: str) -> list[str]:
        """What is being written in a folder, or was by somebody who did not live to the end of it."""
        return [name for name in self._all(folder) if name.endswith(_DRAFT)]

    def _all(self, folder: str) -> list[str]:
        selector = fs.FileSelector(self.path(folder), allow_not_found=True)
        infos = self._place[0].get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type == fs.FileType.File)

    def folders(self, folder: str) -> list[str]:
        selector = fs.FileSelector(self.path(folder), allow_not_found=True)
        infos = self._place[0].get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type == fs.FileType.Directory)

    def exists(self, name: str) -> bool:
        return bool(self._place[0].get_file_info(self.path(name)).type != fs.FileType.NotFound)

    def move(self, name: str, to: str) -> None:
        """A file to another name in the same folder, or in one that is there. One of that name is replaced."""
        try:
            self._place[0].move(self.path(name), self.path(to))
        except OSError as error:
            raise DataError(
                f"cannot move {quoted(self.path(name))} to {quoted(self.path(to))}: {_line(error)}",
                hint="see that the place can be written, and try again",
            ) from None

    def remove(self, name: str) -> None:
        """A file or a folder; that it is gone already is no mistake."""
        info = self._place[0].get_file_info(self.path(name))
        try:
            if info.type == fs.FileType.Directory:
                self._place[0].delete_dir(self.path(name))
            elif info.type == fs.FileType.File:
                self._place[0].delete_file(self.path(name))
        except FileNotFoundError:
            pass

    @property
    def _moves(self) -> bool:
        return isinstance(self._place[0], fs.LocalFileSystem) or self._place[0].type_name == "hdfs"


def _missing(path: str) -> DamagedFile:
    return DamagedFile(f"{quoted(path)} is not there, and is needed", hint="restore the checkpoint from a copy of it")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
