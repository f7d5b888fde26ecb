"""The state of one bucket: stores in a file that any process can map, with a label that says what they hold.

    kept = Kept.create(path, program, catalog)           # empty stores, label ""
    kept.begin()                                         # from here on the file is dirty
    rows = kept.fire([PendingData(info, batch, 1)], {"orders": ["d_1"]})
    kept.commit("7")                                     # clean again, label "7"
    kept.close()

    with Kept.open(path, program, catalog) as kept:      # in another process, whatever the size of the state
        kept.label                                       # "7"
        kept.undo()                                      # what the last batch did, until the next one begins: label ""

A process that dies in the middle of a batch leaves the file dirty. That, a file of another version of this package, and
one that was not written since the machine was started are `Torn`: it is to be made anew from a snapshot (`restore`).
So is whatever is not sure to be whole: the file is a copy on a local disk of what is kept safe elsewhere.

Kept open, a bucket can be left (`leave`) to other processes and entered again (`enter`). Then what is compiled is still
there, and only what others have changed is looked up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from viewmill.catalog import Catalog, ColumnInfo
from viewmill.engines.interpreter.tables import Rows, Table
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.held import Found, HeldEngine
from viewmill.engines.local.interning import BLOCK
from viewmill.engines.local.kept_marks import code_mark, machine_mark, store_mark
from viewmill.engines.local.locks import PATIENCE, Lock, draft_of
from viewmill.engines.local.pending import Pending
from viewmill.engines.local.pieces import PIECE, Piece
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.region import FIRST_OTHER, Region
from viewmill.engines.local.snapshots import Snapshot, save_engine
from viewmill.errors import DataError, InternalError, ViewmillError
from viewmill.program.nodes import Program
from viewmill.types import Type

_MAGIC = int.from_bytes(b"viewmill", "little", signed=True)
_FORMAT = 1

# Words of the header
_WHAT = 0
_VERSION = 1
_STATE = 2  # one of the two below
_BASE = 3  # where its last user had the region
_USER = 4  # who that was
_CONTENTS = 5  # where the table of contents is, in bytes from the start, and how long
_WIDE, _WIDE_BEFORE = 10, 12  # as _CONTENTS: stores that are not in pools, now and before the last batch; else 0
_CLEAN, _DIRTY = 1, 2

# Texts in the header, each with its length before it; in words from the start
_LONGEST = 1000  # bytes
_LABEL, _BEFORE, _MACHINE, _CODE = (FIRST_OTHER + 128 * i for i in range(4))


class Torn(ViewmillError):
    """A file whose contents cannot be trusted. It is to be restored."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the bucket {path} {reason}", hint="restore it from its last snapshot")


class OtherProgram(DataError):
    """The file has the stores of another program."""


class Kept:
    """A bucket that is open. Entered by one process at a time."""

    def __init__(self, lock: Lock, region: Region, program: Program, catalog: Catalog) -> None:
        """`create` and `open` do this."""
        self._lock = lock
        self._region = region
        self._user = int.from_bytes(os.urandom(7), "little")
        self._process = os.getpid()
        self._in_batch = False
        self.program = program
        self.catalog = catalog
        self._engine: HeldEngine

    @classmethod
    def create(
        cls,
        path: Path | str,
        program: Program,
        catalog: Catalog,
        tables: Mapping[str, Table] | None = None,
        *,
        label: str = "",
        patience: float = PATIENCE,
    ) -> Kept:
        """A bucket with these stores, those that are not in `tables` empty. What is at the path is replaced.

        A store that has rows before there are any in relations (`VALUES` in a query) is among the tables of the bucket
        that these rows belong to.
        """

        def make(region: Region) -> HeldEngine:
            return HeldEngine(program, catalog, tables or {}, region)

        return cls._made(Path(path), program, catalog, make, label, patience)

    @classmethod
    def _made(
        cls,
        path: Path,
        program: Program,
        catalog: Catalog,
        make: Callable[[Region], HeldEngine],
        label: str,
        patience: float,
    ) -> Kept:
        """A new bucket. It is at its path as a whole, or not at all."""
        lock = Lock(path)
        lock.take(patience)
        draft = draft_of(path)
        region: Region | None = None
        try:
            draft.unlink(missing_ok=True)  # whoever left one here did not live to give back the lock
            region = Region.create(draft)
            kept = cls(lock, region, program, catalog)
            kept._engine = make(region)
            kept._write_header(label)
            draft.replace(path)
            region.path = path
        except BaseException:
            draft.unlink(missing_ok=True)
            _give_back(region, lock)
            raise
        return kept

    @classmethod
    def open(
        cls,
        path: Path | str,
        program: Program,
        catalog: Catalog,
        tables: Mapping[str, Table] | None = None,
        *,
        patience: float = PATIENCE,
    ) -> Kept:
        """The bucket at a path. If it has stores of another program, `tables` must be given: see `extend`."""
        path = Path(path)
        lock = Lock(path)
        lock.take(patience)
        region: Region | None = None
        try:
            region = _region(path)
            kept = cls(lock, region, program, catalog)
            kept._check()
            kept._find(program, catalog, tables)
        except BaseException:
            _give_back(region, lock)
            raise
        return kept

    # --- snapshots

    def save(self, file: Path | str | BinaryIO) -> None:
        """Write what the stores hold, as it was committed. A file is there as a whole, or not at all."""
        if self._in_batch:
            raise InternalError(f"the bucket {self.path} cannot be saved in the middle of a batch")
        if not isinstance(file, (Path, str)):
            self._save(file)
            return
        path = Path(file)
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        try:
            with draft.open("wb") as stream:
                self._save(stream)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def _save(self, file: BinaryIO) -> None:
        save_engine(file, self._engine, {"label": self.label, "stores": self._stores()})

    @classmethod
    def restore(
        cls,
        file: Path | str | BinaryIO,
        path: Path | str,
        program: Program,
        catalog: Catalog,
        tables: Mapping[str, Table] | None = None,
        *,
        name: str = "that is read",
        patience: float = PATIENCE,
    ) -> Kept:
        """A bucket at `path` as it was saved, with its label. What is there is replaced.

        A stream has the `name` that errors give it.
        """
        if isinstance(file, (Path, str)):
            with Path(file).open("rb") as stream:
                return cls._restored(stream, str(file), Path(path), program, catalog, tables, patience)
        return cls._restored(file, name, Path(path), program, catalog, tables, patience)

    @classmethod
    def _restored(
        cls,
        file: BinaryIO,
        name: str,
        path: Path,
        program: Program,
        catalog: Catalog,
        tables: Mapping[str, Table] | None,
        patience: float,
    ) -> Kept:
        snapshot = Snapshot(file, name)
        same = _same_stores(f"the snapshot {name}", snapshot.told["stores"], program, tables)

        def make(region: Region) -> HeldEngine:
            return HeldEngine(program, catalog, tables or {}, region, snapshot.load(region, same))

        return cls._made(path, program, catalog, make, snapshot.told["label"], patience)

    # --- entering and leaving

    @property
    def path(self) -> Path:
        return self._region.path

    def enter(self, *, patience: float = PATIENCE) -> bool:
        """Work on the bucket again. False if the file has been replaced: it is to be opened anew."""
        if os.getpid() != self._process:
            raise InternalError(f"the bucket {self.path} was opened by another process, from which this one was made")
        self._lock.take(patience)
        try:
            if not self._region.is_at_its_path:
                self._lock.drop()
                return False
            self._check()
            self._take_over()
        except BaseException:
            self._lock.drop()
            raise
        return True

    def leave(self) -> None:
        """Let others work on it. A batch that was not committed is undone."""
        if not self._lock.is_held:
            return
        try:
            if self._in_batch:
                self.rollback()
        finally:
            self._in_batch = False
            self._lock.drop()

    def close(self) -> None:
        self.leave()
        self._region.close()

    def __enter__(self) -> Kept:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        """Whether what is there can be trusted."""
        header, path = self._region.header, self.path
        if header[_WHAT] != _MAGIC:
            raise Torn(path, "is not a bucket")
        if header[_VERSION] != _FORMAT or self._text(_CODE) != code_mark():
            raise Torn(path, "was written by another version of viewmill")
        if header[_STATE] != _CLEAN:
            raise Torn(path, "was left in the middle of a batch")
        if self._text(_MACHINE) != machine_mark():
            raise Torn(path, "was not written since this machine was started")

    def _take_over(self) -> None:
        """Adapt addresses in the file to this process, if another one has used it."""
        header, region = self._region.header, self._region
        if header[_USER] == self._user:
            return
        with self._changing():
            self._engine.take_over(region.base - int(header[_BASE]))
            self._find_wide()
            header[_BASE], header[_USER] = region.base, self._user

    # --- the file

    def _text(self, word: int) -> str:
        header = self._region.header
        length = int(header[word])
        if not 0 <= length <= _LONGEST:
            raise Torn(self.path, "is damaged")
        return bytes(header[word + 1 : word + 128].view(np.uint8)[:length]).decode(errors="replace")

    def _set_text(self, word: int, text: str) -> None:
        data = text.encode()
        if len(data) > _LONGEST:
            raise DataError(f"the label {text[:40]!r}... of a bucket is longer than {_LONGEST} bytes")
        header = self._region.header
        header[word + 1 : word + 128].view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
        header[word] = len(data)

    def _write_header(self, label: str) -> None:
        header = self._region.header
        header[_WHAT], header[_VERSION] = _MAGIC, _FORMAT
        header[_BASE], header[_USER] = self._region.base, self._user
        for word, text in ((_LABEL, label), (_MACHINE, machine_mark()), (_CODE, code_mark())):
            self._set_text(word, text)
        self._write_program()
        header[_STATE] = _CLEAN

    def _write_contents(self) -> None:
        """The table of contents: where blocks are, and what is in which."""
        engine, region = self._engine, self._region
        contents = {
            "strings": engine.dictionary.address - region.base,
            "pools": {
                name: [pool.address - region.base, len(pool.arrays.block)] for name, pool in engine.pools.items()
            },
            "stores": self._stores(),
        }
        data = json.dumps(contents).encode()
        self._drop(_CONTENTS)
        self._put(_CONTENTS, data)

    def _stores(self) -> dict[str, list[Any]]:
        """Where stores are: for each its mark, the name of its pool, its lane, and how many lanes there are."""
        return {
            name: [store_mark(self.program.stores[name]), source.pool, source.lane, source.lanes]
            for name, source in self._engine.placed.items()
        }

    def _put(self, word: int, data: bytes) -> None:
        """Write bytes to the file, and where they are to two words of the header."""
        region = self._region
        array = region.array((len(data),), np.uint8)
        array[:] = np.frombuffer(data, np.uint8)
        region.header[word : word + 2] = int(array.ctypes.data) - region.base, len(data)

    def _got(self, word: int) -> Any:
        region = self._region
        start, length = region.header[word : word + 2].tolist()
        return region.at(region.base + start, (length,), np.uint8)

    def _drop(self, word: int) -> None:
        if self._region.header[word]:
            self._region.release(self._got(word))
        self._region.header[word : word + 2] = 0

    def _find_wide(self) -> None:
        """Stores that are not in pools, if they are not."""
        self._engine.widen(self._wide_text())

    def _wide_text(self) -> bytes | None:
        return bytes(self._got(_WIDE)) if self._region.header[_WIDE] else None

    def _write_wide(self) -> None:
        """Of the last batch, nothing can be undone after this."""
        for word in {int(self._region.header[word]): word for word in (_WIDE, _WIDE_BEFORE)}.values():
            self._drop(word)
        if self._engine.wide is not None:
            self._put(_WIDE, self._engine.wide.dump())
        self._region.header[_WIDE_BEFORE : _WIDE_BEFORE + 2] = self._region.header[_WIDE : _WIDE + 2]

    def _find(self, program: Program, catalog: Catalog, tables: Mapping[str, Table] | None) -> None:
        """Make an engine of what is in the file."""
        region = self._region
        contents = json.loads(bytes(self._got(_CONTENTS)))
        same = _same_stores(f"the bucket {self.path}", contents["stores"], program, tables)
        other = not len(same) == len(contents["stores"]) == len(program.stores)
        moved = region.base - int(region.header[_BASE])
        dictionary = Dictionary.held(region.at(region.base + contents["strings"], (BLOCK,), np.int64), region)
        pools = {
            name: Pool.held(region.at(region.base + at, (words,), np.int64), region)
            for name, (at, words) in contents["pools"].items()
        }
        with self._changing():
            dictionary.take_over(moved)
            for pool in pools.values():
                pool.take_over(moved)
            region.header[_BASE], region.header[_USER] = region.base, self._user
            found = Found(dictionary, pools, same, self._wide_text())
            self._engine = HeldEngine(program, catalog, tables or {}, region, found)
            if other:
                self._write_program()

    def _write_program(self) -> None:
        """All that depends on the program, after a change of it."""
        self._set_text(_BEFORE, self.label)
        self._write_contents()
        self._write_wide()
        self._region.settle()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Outside a batch: if this does not end, the file is torn."""
        header = self._region.header
        if self._in_batch:
            yield
            return
        header[_STATE] = _DIRTY
        try:
            yield
        except ViewmillError:  # raised with nothing half done
            header[_STATE] = _CLEAN
            raise
        header[_STATE] = _CLEAN

    # --- batches

    @property
    def label(self) -> str:
        """What the bucket holds: the label of the last commit."""
        return self._text(_LABEL)

    @property
    def before(self) -> str:
        """The label that `undo` leads to: the same as `label` if nothing can be undone."""
        return self._text(_BEFORE)

    def begin(self) -> None:
        """Start a batch: the file is dirty until it is committed or rolled back."""
        if self._in_batch or not self._lock.is_held:
            raise InternalError(f"the bucket {self.path} cannot begin a batch now")
        self._region.header[_STATE] = _DIRTY
        self._in_batch = True
        self._set_text(_BEFORE, self.label)
        self._forget_before()
        self._engine.begin()
        self._region.settle()

    def _forget_before(self) -> None:
        """The last batch is not to be undone any more."""
        header = self._region.header
        if header[_WIDE_BEFORE] != header[_WIDE]:
            self._drop(_WIDE_BEFORE)
            header[_WIDE_BEFORE : _WIDE_BEFORE + 2] = header[_WIDE : _WIDE + 2]

    def fire(
        self, batch: Sequence[Pending], lets: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, pa.RecordBatch]:
        """Run the triggers of pending changes, in order. Returns the rows of the `let`s that are asked for.

        `lets` are names for each relation. Rows are those with a weight other than 0: the keys, then `weight_`. A
        `let` of a relation of which nothing is pending is not among them. If it raises, everything since `begin` is
        to be rolled back (`leave` does).
        """
        if not self._in_batch:
            raise InternalError(f"the bucket {self.path} takes changes only in a batch")
        return self._engine.fire(batch, lets or {})

    def commit(self, label: str) -> None:
        """The batch is part of the state now, which has this label."""
        if not self._in_batch:
            raise InternalError(f"the bucket {self.path} has no batch to commit")
        if self._engine.wide is not None:
            self._put(_WIDE, self._engine.wide.dump())
        self._region.settle()
        self._set_text(_LABEL, label)
        self._in_batch = False
        self._region.header[_STATE] = _CLEAN
        self._engine.rest()

    def rollback(self) -> None:
        """The state is as it was at `begin`."""
        if not self._in_batch:
            raise InternalError(f"the bucket {self.path} has no batch to undo")
        self._engine.rollback()
        self._region.settle()
        self._in_batch = False
        self._region.header[_STATE] = _CLEAN

    def undo(self) -> None:
        """Take back the last batch, committed as it is. The label is the one `before`."""
        with self._changing():
            self._engine.rollback()
            header = self._region.header
            if header[_WIDE] != header[_WIDE_BEFORE]:
                self._drop(_WIDE)
                header[_WIDE : _WIDE + 2] = header[_WIDE_BEFORE : _WIDE_BEFORE + 2]
                self._find_wide()
            self._region.settle()
            self._set_text(_LABEL, self.before)

    def extend(self, program: Program, catalog: Catalog, tables: Mapping[str, Table]) -> None:
        """Switch to another program. Stores that are new are in `tables`, or empty."""
        with self._changing():
            self._engine.begin()
            self._engine.use(program, catalog, tables)
            self.program, self.catalog = program, catalog
            self._write_program()

    # --- what a batch does to views

    def watch(self, views: Iterable[str]) -> None:
        """To be called before a batch of which the `change` of these views will be asked for, or a `check`."""
        with self._changing():
            self._engine.watch(views)

    def change(self, view: str, columns: Sequence[ColumnInfo]) -> pa.Table:
        """What the batch has done to a view so far: the leading columns of rows that differ, and `weight_`.

        Law: what was there before the batch, and this, is what is there now. Taken away are exactly the values that
        were there, also where they are doubles.
        """
        if not self._in_batch:
            raise InternalError(f"the bucket {self.path} has no batch to tell the changes of")
        return self._engine.change(view, columns)

    def check(self, view: str) -> None:
        """Raise the error that readers of a view would meet in the rows that the batch has changed so far.

        Law: if a view was without error before the batch and this does not raise, the view is without error now.
        """
        if not self._in_batch:
            raise InternalError(f"the bucket {self.path} has no batch to check")
        self._engine.check(view)

    def check_whole(self, view: str) -> None:
        """The same of all rows of the view."""
        with self._changing():
            self._engine.check_whole(view)

    # --- reading; what is compiled for it may need an index, or a string

    def contents(self, view: str) -> Rows:
        with self._changing():
            return self._engine.contents(view)

    def columns(self, view: str, types: Sequence[Type]) -> list[pa.Array | pa.ChunkedArray] | None:
        with self._changing():
            return self._engine.columns(view, types)

    def store(self, name: str) -> Rows:
        return self._engine.store(name)

    def pieces(self, store: str, *, size: int = PIECE) -> Iterator[Piece]:
        """The rows of a store that counts rows, so many at a time: those of a large one do not fit in memory twice."""
        return self._engine.pieces(store, size)

    def size(self, store: str) -> tuple[int, int]:
        return self._engine.size(store)

    @property
    def disk(self) -> int:
        """Bytes of disk that the file takes."""
        return self._region.disk


def _same_stores(
    where: str, there: Mapping[str, Sequence[Any]], program: Program, tables: Mapping[str, Table] | None
) -> dict[str, tuple[str, int, int]]:
    """The stores that are there and that a program has. Without `tables` for the others, there are none."""
    same = {
        name: (pool, lane, lanes)
        for name, (mark, pool, lane, lanes) in there.items()
        if name in program.stores and store_mark(program.stores[name]) == mark
    }
    names = sorted({*there, *program.stores} - set(same))
    if names and tables is None:
        raise OtherProgram(
            f"{where} holds the stores of another program: {names[0]!r} differs",
            hint="open it with the tables of the stores that are new",
        )
    return same


def _give_back(region: Region | None, lock: Lock) -> None:
    if region is not None:
        region.close()
    lock.drop()


def _region(path: Path) -> Region:
    try:
        region = Region.open(path)
    except FileNotFoundError:
        raise Torn(path, "is not there") from None
    if region is None:
        raise Torn(path, "is damaged")
    return region
