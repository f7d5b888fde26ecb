"""Files are whole or not there, and say so when they are damaged."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pytest

from viewmill.durable.files import DamagedFile, Files
from viewmill.errors import DataError


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path / "mill"))


def test_what_was_written_is_read(files):
    files.write("logs/1/a", b"one")
    files.write("logs/1/a", b"two")
    files.write("logs/1/empty", b"")
    assert files.read("logs/1/a") == b"two"
    assert files.read("logs/1/empty") == b""
    assert files.names("logs/1") == ["a", "empty"]
    assert files.folders("logs") == ["1"]


def test_a_uri_and_a_path_are_the_same_place(files):
    files.write("a", b"one")
    assert Files(f"file://{files.root}").read("a") == b"one"
    assert pickle.loads(pickle.dumps(files)).read("a") == b"one"


@pytest.mark.parametrize("position", [0, 1, -1, -5])
def test_a_changed_byte_is_noticed(files, position):
    files.write("a", b"one")
    path = Path(files.path("a"))
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFile, match=r"a\" is damaged"):
        files.read("a")


@pytest.mark.parametrize("length", range(11))
def test_a_shortened_file_is_noticed(files, length):
    files.write("a", b"one")
    path = Path(files.path("a"))
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DamagedFile):
        files.read("a")


def test_a_missing_file_is_named(files):
    with pytest.raises(DamagedFile, match="snapshots/7"):
        files.read("snapshots/7")


def test_a_draft_is_not_a_file(files):
    files.write("a", b"one")
    Path(files.path("b.123.draft")).write_bytes(b"half")
    assert files.names("") == ["a"]


def test_what_is_gone_can_be_removed(files):
    files.write("logs/1/a", b"one")
    for name in ("logs/1/a", "logs/1/a", "logs", "logs"):
        files.remove(name)
    assert not files.exists("logs")


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot write"):
        Files(str(tmp_path / "file")).write("a", b"one")


def test_a_place_that_nobody_knows():
    with pytest.raises(DataError, match='cannot use "nowhere://x" as a checkpoint'):
        Files("nowhere://x").write("a", b"one")


def test_what_is_not_written_to_its_end_is_not_there(files):
    with pytest.raises(KeyboardInterrupt), files.output("logs/a") as out:
        out.write(b"half")
        raise KeyboardInterrupt
    assert not files.exists("logs/a")
    assert not list(Path(files.path("logs")).iterdir())


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_is_before_it_counts(files, monkeypatch):
    """Seen from what is synced: the draft while it is a draft, then the folder in which it has got its name."""
    done = []

    def fsync(handle):
        path = os.readlink(f"/proc/self/fd/{handle}")
        done.append((os.path.relpath(path, files.root).endswith(".draft"), files.exists("commits/1")))

    monkeypatch.setattr(os, "fsync", fsync)
    files.write("commits/1", b"one")
    assert done == [(True, False), (False, True), (False, True)]


def test_a_disk_that_does_not_keep_a_file_is_an_error_and_a_folder_that_is_not_synced_is_none(files, monkeypatch):
    def fails(handle):
        raise OSError("no such luck")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(DataError, match="no such luck"):
        files.write("a", b"one")
    assert not files.exists("a") and not files.drafts("")

    def fails_for_folders(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError("no such thing")

    monkeypatch.setattr(os, "fsync", fails_for_folders)
    files.write("a", b"one")
    assert files.read("a") == b"one"
