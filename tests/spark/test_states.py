"""Buckets are made again from the checkpoint; what fails on the way leaves nothing locked."""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from viewmill.arrow import arrow_schema
from viewmill.catalog import Catalog, ColumnInfo, RelationInfo
from viewmill.distribute.nodes import Block, Distributed
from viewmill.durable.files import Files
from viewmill.durable.history import Entry
from viewmill.engines.local.pending import PendingRows
from viewmill.engines.local.shelf import Shelf
from viewmill.engines.spark import homes, states, work
from viewmill.engines.spark.counted import with_counts
from viewmill.engines.spark.message import letters
from viewmill.engines.spark.refusals import REFUSAL, refusal
from viewmill.engines.spark.resolve import Op, StoredTable, with_tables
from viewmill.engines.spark.states import before_step, state_at, state_before
from viewmill.engines.spark.task import bucket_task
from viewmill.engines.spark.work import Deployed, Point, Work, deploy, from_log, to_log
from viewmill.errors import DataError
from viewmill.program.nodes import EMPTY
from viewmill.types import BIGINT

INFO = RelationInfo("t", (ColumnInfo("k", BIGINT, nullable=False),), ("k",))


@pytest.fixture
def point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Point:
    monkeypatch.setattr(states, "_shelf", Shelf())
    monkeypatch.setattr(work, "plan", lambda *_: work.Plan(("t",), (Block("source"), Block("buckets"))))
    files = Files(str(tmp_path / "checkpoint"))
    program = with_tables(Distributed({}, EMPTY, EMPTY), [INFO])
    name = deploy(files, Deployed(program, Catalog({"t": INFO}), frozenset("t")))
    return Point(files, "m", name, 1, "", (), (0,), str(tmp_path))


def arriving(point: Point, *keys: int) -> pa.Table:
    """Insertions of these keys."""
    asked = StoredTable(INFO).asked
    rows = pa.RecordBatch.from_arrays([pa.array(keys, pa.int64())], schema=arrow_schema(asked.columns))
    message = with_counts(rows, np.full(len(keys), Op.INSERT.code(0)))
    return letters(point.deployed().format, 0, {0: {asked.name: message}}, {}, 1)


def log(point: Point, entry: Entry, *keys: int) -> None:
    point.files.write(entry.log(1, 0), to_log(arriving(point, *keys)))


def is_free(folder: Path) -> bool:
    """Whether another could lock the bucket."""
    (lock,) = folder.glob("viewmill-*-m/*.lock")
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_bucket_is_made_of_what_arrived(point, tmp_path):
    entry = Entry(1, "b", ("t",), 2)
    log(point, entry, 1, 2)
    with state_before(Work(point, entry, 2), 0) as kept:
        assert kept.label == entry.label(1)
        assert set(kept.store(StoredTable(INFO).store)) == {(1,), (2,)}
        assert not is_free(tmp_path)
    assert is_free(tmp_path)
    with state_at(point, 0) as kept:  # the batch was not committed: it is undone
        assert kept.label == "" and not kept.store(StoredTable(INFO).store)


def test_a_task_ends_with_its_log_or_not_at_all(point, tmp_path, monkeypatch):
    """The state is one step on before the log is there, and counts for nothing if that cannot be written."""
    entry, keys = Entry(1, "b", ("t",), 2), lambda kept: set(kept.store(StoredTable(INFO).store))
    run, arrived = bucket_task(Work(point, entry, 1)), arriving(point, 1, 2)
    with monkeypatch.context() as patch:

        def full(self, name, data):
            raise DataError(f"cannot write {name}: the disk is full")

        patch.setattr(Files, "write", full)
        told = run(0, arrived)
    with pytest.raises(DataError, match="cannot write logs/.*/1-0: the disk is full"):
        raise refusal(next(row["data"] for row in told.to_pylist() if row["target"] == REFUSAL))
    assert is_free(tmp_path)
    with state_at(point, 0) as kept:
        assert not keys(kept)
    told = run(0, arrived)
    assert REFUSAL not in told.column("target").to_pylist()
    assert from_log(point.files.read(entry.log(1, 0))) == arrived
    with state_before(Work(point, entry, 2), 0) as kept:
        assert keys(kept) == {(1,), (2,)}


def test_what_cannot_be_replayed_leaves_nothing_locked(point, tmp_path):
    entry = Entry(1, "b", ("t",), 2)
    log(point, entry, 1, 1)
    for _ in range(2):
        with pytest.raises(DataError, match="two rows with primary key k = 1"), state_before(Work(point, entry, 2), 0):
            pass
        assert is_free(tmp_path)
    with state_at(point, 0) as kept:
        assert kept.label == ""


def test_a_bucket_without_room_in_memory_goes_on_on_disk(point, tmp_path, monkeypatch):
    """Whatever it had done in memory is done again."""
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(homes, "_memory", lambda: memory)
    monkeypatch.setattr(homes, "_executor", os.getpid())
    monkeypatch.setattr(homes.tempfile, "gettempdir", lambda: str(tmp_path / "disk"))
    point = replace(point, scratch="")
    entry = Entry(1, "b", ("t",), 2)
    log(point, entry, 1, 2)
    seen = []

    def use(kept):
        seen.append(kept.path.parent)
        kept.begin()
        kept.fire([PendingRows(StoredTable(INFO).rows, {(3,): 1})])
        if len(seen) == 1:
            raise OSError(errno.ENOSPC, "no room")
        kept.commit(entry.label(2))
        return set(kept.store(StoredTable(INFO).store))

    assert before_step(Work(point, entry, 2), 0, use) == {(1,), (2,), (3,)}
    assert seen == [memory / f"viewmill-{os.getuid()}-m", tmp_path / "disk" / f"viewmill-{os.getuid()}-m"]
    assert not [file for file in seen[0].iterdir() if file.name.endswith("-0")]
    with state_at(replace(point, label=entry.label(2)), 0) as kept:
        assert kept.path.parent == seen[1]
