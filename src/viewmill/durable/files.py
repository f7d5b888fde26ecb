"""Named files in a folder, each whole or not there, each with its checksum.

    files = Files("s3://bucket/mill")          or a path, or any other URI that Arrow knows
    files.write("logs/000012", b"...")
    files.create("commits/000012", b"...")     False if somebody was here first
    files.read("commits/000012")               raises DamagedFile if a byte of it has changed

What goes wrong with a place is a `FileError` that names the file: nobody has to know what Arrow or a disk may raise.

A file is written as a draft and gets its name when it is complete: who reads a name sees all of it, also if the writer
was killed. On a disk of this machine it is on the disk before that, and its name before `write` returns, so that what a
commit names outlives the machine's power, too.

Object stores have no names to change. There a file appears when its writer ends, and one that was interrupted ends with
half of it: Arrow has no way to give up what it has begun. A draft is then copied to its name. What nobody looks for
until something complete names it is written `in_place` instead, which saves the copy (and its limit of 5 GB).
"""

from __future__ import annotations

import io
import os
import re
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import BinaryIO
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.fs as fs

from viewmill.errors import DataError
from viewmill.wording import quoted

_MAGIC = b"VMF1"
_TRAILER = len(_MAGIC) + 4
_DRAFT = ".draft"
_WRITABLE = "it must be a place that the driver and every executor can write"
_OF_HADOOP = re.compile("^s3[an]://")  # as Spark calls S3
_OF_HERE = re.compile("^file:(//(localhost)?)?(?=/)")


class FileError(DataError):
    """A file or its folder cannot be used."""


class DamagedFile(FileError):
    """A file of ours is not as it was written."""


class _Taken(Exception):
    """Somebody has the name."""


class Files:
    """Pickles to where it points."""

    def __init__(self, root: str) -> None:
        root = _OF_HERE.sub("", _OF_HADOOP.sub("s3://", root))
        self.root = root.rstrip("/") if "://" in root else os.path.abspath(root)

    def __str__(self) -> str:
        """As it is told to people: neither keys nor settings that Arrow is given."""
        if "://" not in self.root:
            return self.root
        parts = urlsplit(self.root)
        keys, _, host = parts.netloc.rpartition("@")
        return urlunsplit((parts.scheme, host if ":" in keys else parts.netloc, parts.path, "", ""))

    def within(self, folder: str) -> Files:
        """A place below this one."""
        if "://" not in self.root:
            return Files(f"{self.root}/{folder}")
        parts = urlsplit(self.root)
        return Files(urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{folder}")))

    def is_within(self, other: Files) -> bool:
        """Whether it is the other place, or below it."""
        mine, others = (str(one) if "://" in one.root else os.path.realpath(one.root) for one in (self, other))
        return f"{mine.rstrip('/')}/".startswith(f"{others.rstrip('/')}/")

    def for_spark(self, name: str = "") -> str:
        """The place, or a name in it, as Spark knows it: keys and settings are those of its own configuration."""
        path = f"{self}/{name}" if name else str(self)
        if "://" not in self.root:  # a cluster may take what has no scheme for a place of its own
            return f"file://{path}"
        return f"s3a://{path.removeprefix('s3://')}" if path.startswith("s3://") else path

    def __reduce__(self) -> tuple[type[Files], tuple[str]]:
        return Files, (self.root,)

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        try:
            system, path = fs.FileSystem.from_uri(self.root)
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            raise FileError(
                f"cannot use {quoted(str(self))} as a checkpoint: {_line(error).replace(self.root, str(self))}",
                hint="give a folder, or a URI that Arrow can write: file://, s3://, gs://, abfs://, hdfs://",
            ) from None
        return system, path

    def path(self, name: str) -> str:
        return f"{self._place[1]}/{name}"

    # --- whole files

    def write(self, name: str, data: bytes) -> None:
        """All of it, or nothing. A file of that name is replaced. It counts when something names it."""
        with self.output(name, in_place=True) as out:
            out.write(_sealed(data))

    def create(self, name: str, data: bytes) -> bool:
        """The same, unless there is a file of that name: of two who create it at the same time, one does.

        Where a disk knows links, that is. Elsewhere, who looks just before the other is done replaces it.
        """
        try:
            with self._draft(name) as draft:
                with self._place[0].open_output_stream(draft) as out:
                    out.write(_sealed(data))
                self._settle(draft)
                self._link(draft, self.path(name))
                self._settle_name(name)
        except _Taken:
            return False
        return True

    @contextmanager
    def output(self, name: str, *, in_place: bool = False) -> Iterator[BinaryIO]:
        """A file to write piece by piece, there once the block ends. Who writes it sees to checksums.

        If it is `in_place`, and the block does not end well, an object store may have a part of it.
        """
        with self._draft(name, in_place=in_place and not self._moves) as draft:
            with self._place[0].open_output_stream(draft) as out:
                yield out
            if draft != self.path(name):
                self._settle(draft)
                self._rename(draft, self.path(name))
                self._settle_name(name)

    @contextmanager
    def _draft(self, name: str, *, in_place: bool = False) -> Iterator[str]:
        """Where a file is written; if it is not its place, what is still there in the end is removed."""
        system, path = self._place[0], self.path(name)
        folder, _, base = path.rpartition("/")
        # Spark does not look at names that start with a dot.
        draft = path if in_place else f"{folder}/.{base}.{uuid.uuid4().hex}{_DRAFT}"
        try:
            if self._moves:  # else there are no folders
                system.create_dir(folder, recursive=True)
            yield draft
        except OSError as error:
            raise _cannot(f"write {quoted(path)}", error, hint=_WRITABLE) from None
        finally:
            if not in_place:
                with suppress(OSError):
                    system.delete_file(draft)

    def _link(self, draft: str, path: str) -> None:
        """A name for a draft, if nobody has it."""
        if isinstance(self._place[0], fs.LocalFileSystem):
            try:
                os.link(draft, path)
                return
            except FileExistsError:
                if os.path.samefile(draft, path):  # a network has lost the answer, and asked again
                    return
                raise _Taken from None
            except OSError:
                pass  # a disk without links, or one that says why below
        if self._place[0].get_file_info(path).type != fs.FileType.NotFound:
            raise _Taken
        self._rename(draft, path)

    def _rename(self, draft: str, path: str) -> None:
        """The file is there when its last byte is, whatever becomes of what it is copied from."""
        if self._moves:
            self._place[0].move(draft, path)
        else:
            self._place[0].copy_file(draft, path)

    def _settle_name(self, name: str) -> None:
        folder = self.path(name).rpartition("/")[0]
        with suppress(OSError):  # not every file system knows this of folders
            self._settle(folder)
            self._settle(folder.rpartition("/")[0] or "/")  # the folder may be new, too

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
        with _reading(path):
            file = self._place[0].open_input_file(path)
        with file, io.BufferedReader(file) as buffered:
            yield buffered

    def read(self, name: str) -> bytes:
        path = self.path(name)
        with self.input(name) as file, _reading(path):
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
        return self._listed(folder, fs.FileType.File)

    def folders(self, folder: str) -> list[str]:
        return self._listed(folder, fs.FileType.Directory)

    def _listed(self, folder: str, kind: fs.FileType) -> list[str]:
        path = self.path(folder)
        with _reading(path):
            infos = self._place[0].get_file_info(fs.FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in infos if info.type == kind)

    def exists(self, name: str) -> bool:
        return bool(self._type(name) != fs.FileType.NotFound)

    def _type(self, name: str) -> fs.FileType:
        path = self.path(name)
        with _reading(path):
            return self._place[0].get_file_info(path).type

    def move(self, name: str, to: str) -> None:
        """A file to another name in the same folder, or in one that is there. One of that name is replaced."""
        try:
            self._rename(self.path(name), self.path(to))
        except OSError as error:
            what = f"move {quoted(self.path(name))} to {quoted(self.path(to))}"
            raise _cannot(what, error, hint="see that the place can be written, and try again") from None
        if not self._moves:
            with suppress(OSError):
                self._place[0].delete_file(self.path(name))

    def remove(self, name: str) -> None:
        """A file or a folder; that it is gone already is no mistake."""
        kind, path = self._type(name), self.path(name)
        try:
            if kind == fs.FileType.Directory:
                self._place[0].delete_dir(path)
            elif kind == fs.FileType.File:
                self._place[0].delete_file(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _cannot(f"remove {quoted(path)}", error, hint=_WRITABLE) from None

    @property
    def _moves(self) -> bool:
        return isinstance(self._place[0], fs.LocalFileSystem) or self._place[0].type_name == "hdfs"


def _sealed(data: bytes) -> bytes:
    """With its checksum behind it."""
    return b"".join((data, _MAGIC, zlib.crc32(data).to_bytes(4, "little")))


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """What keeps us from reading a file or a folder, in words."""
    try:
        yield
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        hint = "see that it is what it was, and that the driver and every executor may read it"
        raise _cannot(f"read {quoted(path)}", error, hint=hint) from None


def _cannot(what: str, error: OSError, *, hint: str) -> FileError:
    return FileError(f"cannot {what}: {_line(error)}", hint=hint)


def _missing(path: str) -> DamagedFile:
    return DamagedFile(f"{quoted(path)} is not there, and is needed", hint="restore the checkpoint from a copy of it")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
