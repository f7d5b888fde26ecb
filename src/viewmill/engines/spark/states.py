"""The state of buckets on an executor: found by path and label, or made again from the checkpoint.

A bucket's file is used if it has the label that a task starts from, or had it before the batch that it holds now: then
that batch is undone. In every other case - there is none, a process died while it changed it, it belongs to a batch
that was never committed - it is made again: its snapshot, and then what arrived since, step by step. Replaying is
running: the same triggers on the same rows, without sending anything.

A bucket that has become too large for memory is made again on disk (`homes.py`), and what was about to be done with it
is done there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from viewmill.durable.history import Entry
from viewmill.engines.local.kept import Kept, Torn
from viewmill.engines.local.locks import PATIENCE, discard
from viewmill.engines.local.shelf import Shelf
from viewmill.engines.spark.step import take
from viewmill.engines.spark.work import Point, Work, from_log
from viewmill.errors import InternalError
from viewmill.wording import quoted

T = TypeVar("T")

_BUCKET = re.compile(r"[0-9a-f]{12}-\d+-\d+(\.new)?$")  # a file of some program; not its lock, and nobody else's

_shelf = Shelf()


def at_version(point: Point, bucket: int, use: Callable[[Kept], T], *, patience: float = PATIENCE) -> T:
    """What `use` makes of a bucket as it is at a committed version."""
    return _somewhere(point, bucket, lambda: state_at(point, bucket, patience=patience), use)


def before_step(work: Work, bucket: int, use: Callable[[Kept], T]) -> T:
    """What `use` makes of a bucket as a step starts from it."""
    return _somewhere(work.point, bucket, lambda: state_before(work, bucket), use)


def _somewhere(
    point: Point, bucket: int, state: Callable[[], AbstractContextManager[Kept]], use: Callable[[Kept], T]
) -> T:
    """In memory or, if there turns out to be no room, on disk."""
    try:
        with state() as kept:
            return use(kept)
    except OSError as error:
        if not point.home.spill(_name(point, bucket), error):
            raise
    with state() as kept:
        return use(kept)


@contextmanager
def state_at(point: Point, bucket: int, *, patience: float = PATIENCE) -> Iterator[Kept]:
    """A bucket as it is at a committed version. Nobody else on this machine uses it meanwhile."""
    with _state(point, bucket, point.label, (), patience) as kept:
        yield kept


@contextmanager
def state_before(work: Work, bucket: int) -> Iterator[Kept]:
    """A bucket as a step starts from it."""
    done = tuple((work.entry, number) for number in range(1, work.number))
    with _state(work.point, bucket, work.before, done, PATIENCE) as kept:
        yield kept


@contextmanager
def _state(
    point: Point, bucket: int, label: str, done: tuple[tuple[Entry, int], ...], patience: float
) -> Iterator[Kept]:
    path = bucket_path(point, bucket)
    kept = _found(path, point, label, patience) or _made(path, point, bucket, label, done)
    try:
        yield kept
    finally:
        _shelf.put(kept, point.fingerprint)


def bucket_path(point: Point, bucket: int) -> Path:
    """Where a bucket is on this machine."""
    return point.home.path(_name(point, bucket))


def made_somewhere(point: Point, bucket: int, make: Callable[[Path], T]) -> T:
    """What is made where a bucket belongs."""
    try:
        return make(bucket_path(point, bucket))
    except OSError as error:
        if not point.home.spill(_name(point, bucket), error):
            raise
    return make(bucket_path(point, bucket))


def _name(point: Point, bucket: int) -> str:
    return f"{_prefix(point)}{bucket}"


def _prefix(point: Point) -> str:
    return f"{point.fingerprint[:12]}-{point.buckets}-"


def remove_others(point: Point) -> None:
    """Files of another program, or another number of buckets. If somebody wants one later, it is made again.

    Locks stay: a task that has outlived its driver may be here on behalf of an older program, and of two processes that
    lock files of the same name but not the same file, each would have the bucket for itself.
    """
    used = (_prefix(point), _prefix(replace(point, fingerprint=point.beside))) if point.beside else _prefix(point)
    for file in point.home.files():
        if _BUCKET.match(file.name) and not file.name.startswith(used):
            discard(file)
    point.home.make_room()


def _found(path: Path, point: Point, label: str, patience: float) -> Kept | None:
    """The bucket that is there, if it is the one that is wanted."""
    deployed = point.deployed()
    program = deployed.program.buckets, deployed.known
    try:
        kept = _shelf.take(path, point.fingerprint, lambda: program, patience=patience)
    except Torn:
        return None
    try:
        if kept.label != label and kept.before == label:
            kept.undo()
    except BaseException:
        kept.close()
        raise
    if kept.label == label:
        return kept
    _shelf.put(kept, point.fingerprint)
    return None


def _made(path: Path, point: Point, bucket: int, label: str, done: tuple[tuple[Entry, int], ...]) -> Kept:
    """The bucket, from its snapshot and what arrived since."""
    remove_others(point)
    kept = _at_snapshot(path, point, bucket)
    try:
        for entry in point.history:
            for number in range(1, entry.blocks + 1) if entry.version > point.snapshots[bucket] else ():
                log = entry.log(number, bucket) if entry.has_log(number, bucket) else None
                _replay(kept, point, entry, number, log)
        for entry, number in done:
            log = entry.log(number, bucket)
            _replay(kept, point, entry, number, log if point.files.exists(log) else None)
        if kept.label != label:
            raise InternalError(f"bucket {bucket} is at {kept.label!r} after its logs, not at {label!r}")
    except BaseException:
        kept.close()  # or nobody in this process could ever open it again
        raise
    return kept


def _at_snapshot(path: Path, point: Point, bucket: int) -> Kept:
    deployed, version = point.deployed(), point.snapshots[bucket]
    program, catalog = deployed.program.buckets, deployed.known
    if not version:
        return Kept.create(path, program, catalog, deployed.constants(bucket, point.buckets))
    name = point.snapshot(bucket, version)
    with point.files.input(name) as saved:
        return Kept.restore(saved, path, program, catalog, name=quoted(point.files.path(name)))


def _replay(kept: Kept, point: Point, entry: Entry, number: int, log: str | None) -> None:
    take(kept, point.deployed(), entry, number, from_log(point.files.read(log)) if log else None)
