"""Files are whole or not there, and say so when they are damaged."""

from __future__ import annotations

import pickle
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
