"""A version exists from the moment its commit does; what it needs is kept, what it does not is removed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from viewmill.durable.files import DamagedFile, FileError, Files
from viewmill.durable.history import DRIVER, FORMAT, Commit, Entry, Feed, History, snapshot_of
from viewmill.errors import DataError


@pytest.fixture(params=["disk", "object store"])
def history(request, tmp_path) -> History:
    place = str(tmp_path) if request.param == "disk" else request.getfixturevalue("object_place")()
    return History(Files(place))


def entry(version: int) -> Entry:
    return Entry(version, f"b{version}", ("orders", "lineitem"), 2, ("1-0", "2-1"), True)


def test_nothing_is_committed_at_first(history):
    assert history.newest() is None


def test_the_newest_commit_comes_back_as_it_was(history):
    commit = Commit(mill="m", buckets=2, snapshots=(0, 0), feed=Feed("streams/s", ("a", "b"), 4))
    for version in (1, 2, 11):
        commit = commit.after(entry(version))
        history.commit(commit)
    assert history.newest() == commit


def test_a_version_is_committed_once(history):
    history.commit(Commit().after(entry(3)))
    with pytest.raises(DataError, match="another mill uses the checkpoint .* committed version 3"):
        history.commit(Commit().after(replace(entry(3), batch="another")))


def test_a_mill_that_was_asleep_commits_nothing_where_another_went_on(history):
    """It has looked before, finds the number free again, since what is old is removed, and is told all the same."""
    start = Commit().after(entry(1))
    other, asleep = start.after(entry(2)), start.after(replace(entry(2), batch="another"))
    for commit in (start, other, newest := other.after(entry(3))):
        history.commit(commit)
    history.clean(newest)
    assert history.files.names("commits") == [f"{newest.number:012d}"]
    with pytest.raises(DataError, match="another mill uses the checkpoint"):
        history.commit(asleep)
    assert history.newest() == newest


def test_a_commit_counts_though_nobody_can_be_asked_who_else_is_there(history, monkeypatch):
    def fails(self, folder):
        raise FileError("slow down", hint="wait")

    commit = Commit().after(entry(1))
    with monkeypatch.context() as patch:
        patch.setattr(Files, "names", fails)
        history.commit(commit)
    assert history.newest() == commit


def test_parts_of_a_batch_are_committed_together(history):
    start = Commit(mill="m", buckets=1, snapshots=(0,), touched=("users",)).after(entry(1))
    parts = [replace(entry(2), batch=f"part {number}") for number in (1, 2, 3)]
    passing = start.passing(parts[0]).passing(parts[1])
    assert (passing.number, passing.version, passing.touched) == (start.number, 1, start.touched)
    assert passing.label == parts[1].label(2) and passing.entries == (entry(1), *parts[:2])
    commit = passing.after(parts[2])
    assert (commit.number, commit.version) == (start.number + 1, 2)
    assert commit.since(1) == tuple(parts)
    history.commit(commit)
    for part in parts:
        history.files.write(part.log(1, 0), b"log")
    history.clean(commit)
    assert history.newest() == commit and all(history.files.exists(part.log(1, 0)) for part in parts)
    assert replace(commit, snapshots=(2,), driver=2).without_old_entries().entries == ()
    assert start.passing(replace(parts[0], blocks=0)).label == start.label, "the buckets have had nothing of it"


def test_another_format_is_refused(history):
    history.files.write("commits/000000000001", json.dumps({"format": 99}).encode())
    with pytest.raises(DataError, match="has format 99"):
        history.newest()


def test_something_else_is_no_commit(history):
    history.files.write("commits/000000000001", json.dumps({"format": FORMAT, "what": 2}).encode())
    with pytest.raises(DamagedFile, match="is not a commit"):
        history.newest()


def test_cleaning_keeps_what_is_needed(history):
    commit = Commit(buckets=2, snapshots=(0, 0), program="p")
    for version in range(1, 6):
        history.files.write(entry(version).log(1, 0), b"log")
        commit = commit.after(entry(version))
        history.commit(commit)
    for bucket, version in ((0, 2), (0, 4), (1, 1), (1, 3)):
        history.files.write(snapshot_of("p", bucket, version), b"state")
    for version in (2, 5):
        history.files.write(snapshot_of("p", DRIVER, version), b"state")
    history.files.write(snapshot_of("q", 0, 4), b"state")
    for program in ("p", "q"):
        history.files.write(f"programs/{program}", b"program")
    commit = replace(commit, snapshots=(4, 3), driver=5).without_old_entries()
    history.clean(commit)
    assert [one.version for one in commit.entries] == [4, 5]
    assert history.files.names("snapshots/p") == ["0-000000000004", "1-000000000003", "driver-000000000005"]
    assert history.files.folders("logs") == [entry(4).folder[5:], entry(5).folder[5:]]
    assert history.files.folders("snapshots") == ["p"]
    assert history.files.names("programs") == ["p"]
    assert history.files.names("commits") == ["000000000005"]
    assert history.newest() is not None


def test_entries_are_kept_for_those_who_had_something_of_them():
    start = Commit(buckets=2, snapshots=(3, 2), driver=4)
    here, there = replace(entry(3), gathered=False), replace(entry(4), gathered=False)
    gathered, passed = replace(entry(5), blocks=0), replace(entry(6), blocks=0, gathered=False)
    old = replace(entry(4), blocks=0, batch="old")
    commit = replace(start, entries=(entry(2), here, there, old, gathered, passed, entry(7)))
    assert commit.without_old_entries().entries == (here, there, gathered, entry(7))


def test_folders_of_others_stay(history):
    commit = Commit(buckets=1, snapshots=(1,), program="p", driver=1).after(entry(1))
    history.commit(commit)
    for name in ("logs/out/a", "logs/lost+found/a", "logs/x-1/a"):
        history.files.write(name, b"")
    history.clean(commit)
    assert all(history.files.exists(f"logs/{name}/a") for name in ("out", "lost+found", "x-1"))


def test_cleaning_removes_what_dead_writers_left(history):
    commit = Commit(buckets=1, snapshots=(1,), program="p", driver=1).after(entry(1))
    history.commit(commit)
    left = ["commits/000000000002.0.draft", "programs/p.0.draft", f"{snapshot_of('p', 0, 2)}.0.draft"]
    for name in left:
        history.files.write(name, b"half of")
        assert history.files.exists(name)
    assert history.newest() == commit
    history.clean(commit)
    assert not any(history.files.exists(name) for name in left)
