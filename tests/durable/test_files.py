"""Files are whole or not there, and say so when they are damaged."""

from __future__ import annotations

import errno
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from viewmill.durable.files import DamagedFile, FileError, Files
from viewmill.errors import DataError


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path / "mill"))


@pytest.fixture(params=["disk", "object store"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return Files(str(tmp_path / "mill") if request.param == "disk" else request.getfixturevalue("object_place")())


def test_what_was_written_is_read(anywhere):
    files = anywhere
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


def test_a_missing_file_is_named(anywhere):
    files = anywhere
    with pytest.raises(DamagedFile, match="snapshots/7"):
        files.read("snapshots/7")


def test_a_draft_is_not_a_file(files):
    files.write("a", b"one")
    Path(files.path("b.123.draft")).write_bytes(b"half")
    assert files.names("") == ["a"]


def test_what_is_gone_can_be_removed(anywhere):
    files = anywhere
    files.write("logs/1/a", b"one")
    for name in ("logs/1/a", "logs/1/a", "logs", "logs"):
        files.remove(name)
    assert not files.exists("logs")


def test_what_is_there_is_not_created(anywhere):
    assert anywhere.create("commits/a", b"one")
    assert not anywhere.create("commits/a", b"two")
    assert anywhere.read("commits/a") == b"one"
    assert anywhere.names("commits") == ["a"] and not anywhere.drafts("commits")


def test_of_several_who_create_a_file_at_the_same_time_one_does(files):
    with ThreadPoolExecutor(8) as threads:
        for number in range(50):
            start = Barrier(8)

            def create(who: int, name: str = f"commits/{number}", start: Barrier = start) -> bool:
                start.wait()
                return files.create(name, bytes([who]))

            done = list(threads.map(create, range(8)))
            assert done.count(True) == 1
            assert files.read(f"commits/{number}") == bytes([done.index(True)])
    assert not files.drafts("commits")


def test_a_disk_without_links(files, monkeypatch):
    def no_links(draft, path):
        raise PermissionError(errno.EPERM, "not here")

    monkeypatch.setattr(os, "link", no_links)
    assert files.create("a", b"one")
    assert not files.create("a", b"two")
    assert files.read("a") == b"one" and not files.drafts("")


def test_a_network_that_loses_the_answer(files, monkeypatch):
    """It asks again, and is told that there is a file: its own."""

    def twice(draft, path, link=os.link):
        for _ in range(2):
            link(draft, path)

    monkeypatch.setattr(os, "link", twice)
    assert files.create("a", b"one")
    monkeypatch.undo()
    assert not files.create("a", b"two")
    assert files.read("a") == b"one" and not files.drafts("")


def test_what_is_there_counts_though_its_draft_cannot_be_removed(object_place, monkeypatch):
    files = Files(object_place())
    system, path = files._place

    class Keeping:
        """Everybody may write, and nobody may remove."""

        type_name = system.type_name

        def __getattr__(self, name):
            return getattr(system, name)

        def delete_file(self, path):
            raise OSError("access denied")

        move = delete_file

    monkeypatch.setitem(files.__dict__, "_place", (Keeping(), path))
    assert files.create("commits/1", b"one")
    assert files.read("commits/1") == b"one" and files.names("commits") == ["1"]
    with files.output("staged") as out:
        out.write(b"two")
    files.move("staged", "there")
    assert files.exists("there")


def test_places_by_other_names(tmp_path):
    place = Files("s3a://key:secret@bucket/mill?region=eu-west-1")
    assert place.root == "s3://key:secret@bucket/mill?region=eu-west-1", "as Arrow knows it"
    assert place.within("tables/a").root == "s3://key:secret@bucket/mill/tables/a?region=eu-west-1"
    assert str(place) == "s3://bucket/mill"
    assert (place.for_spark(), place.for_spark("x")) == ("s3a://bucket/mill", "s3a://bucket/mill/x")
    azure = Files("abfs://container@account.dfs.core.windows.net/mill/")
    assert azure.for_spark() == str(azure) == azure.root, "what comes first is no key"
    assert azure.within("a").root == "abfs://container@account.dfs.core.windows.net/mill/a"
    odd = Files(str(tmp_path / "what?"))
    assert (str(odd), odd.for_spark("x")) == (str(tmp_path / "what?"), f"file://{tmp_path}/what?/x")
    assert odd.within("a").root == str(tmp_path / "what?" / "a")


@pytest.mark.parametrize("spelled", ["{}", "file:{}", "file://{}", "file://localhost{}", "{}/../mill", "{}/"])
def test_a_folder_of_this_machine_has_one_name(tmp_path, spelled):
    assert Files(spelled.format(tmp_path / "mill")).root == str(tmp_path / "mill")


def test_what_is_within_a_place(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "mill")
    mill = Files(str(tmp_path / "mill"))
    assert Files(str(tmp_path / "link" / "a")).is_within(mill) and mill.is_within(mill)
    assert not Files(str(tmp_path / "mills")).is_within(mill)
    assert Files("s3://b/m/out").is_within(Files("s3://b/m/?region=x"))
    assert not Files("s3://b/more").is_within(Files("s3://b/m"))


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot write"):
        Files(str(tmp_path / "file")).write("a", b"one")


@pytest.mark.parametrize("use", [Files.read, Files.names, Files.folders])
def test_what_cannot_be_read_is_named(files, use):
    """Something else is where a file is wanted, or a folder."""
    (Path(files.path("a")) / "b").mkdir(parents=True)
    Path(files.path("c")).write_text("in the way")
    name = "a" if use is Files.read else "c"
    with pytest.raises(FileError, match=f'cannot read "{files.path(name)}"'):
        use(files, name)


def test_what_cannot_be_removed_is_named(files, monkeypatch):
    files.write("a", b"one")
    system, path = files._place

    class Keeping:
        def __getattr__(self, name):
            return getattr(system, name)

        def delete_file(self, path):
            raise PermissionError("access denied")

    monkeypatch.setitem(files.__dict__, "_place", (Keeping(), path))
    with pytest.raises(FileError, match=f'cannot remove "{files.path("a")}": access denied'):
        files.remove("a")


def test_keys_are_not_told():
    with pytest.raises(DataError) as told:
        Files("s3://key:not a secret@bucket/mill").write("a", b"one")
    assert "secret" not in str(told.value) and "s3://bucket/mill" in str(told.value)


def test_a_place_that_nobody_knows():
    with pytest.raises(DataError, match='cannot use "nowhere://x" as a checkpoint'):
        Files("nowhere://x").write("a", b"one")


def test_what_is_not_written_to_its_end_is_not_there(anywhere):
    with pytest.raises(KeyboardInterrupt), anywhere.output("logs/a") as out:
        out.write(b"half")
        raise KeyboardInterrupt
    assert not anywhere.exists("logs/a")
    assert not anywhere.names("logs") and not anywhere.drafts("logs")


def test_what_is_not_written_to_its_end_leaves_what_was_there(anywhere):
    with anywhere.output("a") as out:
        out.write(b"whole")
    with pytest.raises(KeyboardInterrupt), anywhere.output("a") as out:
        out.write(b"half")
        raise KeyboardInterrupt
    with anywhere.input("a") as file:
        assert file.read() == b"whole"


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
