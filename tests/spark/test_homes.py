"""Buckets are in memory as long as there is room, and memory is given back."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import viewmill
from viewmill.engines.local import region, room
from viewmill.engines.local.locks import Lock, draft_of
from viewmill.engines.local.memory import LARGE
from viewmill.engines.local.region import Region
from viewmill.engines.spark import homes
from viewmill.engines.spark.homes import Home
from viewmill.spark_mill import SparkMill

DEAD = 2**22 + 1  # a process that there cannot be


@pytest.fixture
def memory(monkeypatch, tmp_path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr(homes, "_memory", lambda: folder)
    monkeypatch.setattr(homes, "_executor", None)
    monkeypatch.setattr(homes.tempfile, "gettempdir", lambda: str(tmp_path / "disk"))
    return folder


def full() -> OSError:
    return OSError(errno.ENOSPC, "no room")


def test_without_somebody_to_give_it_back_memory_is_not_used(memory, tmp_path):
    assert Home("m").path("b") == tmp_path / "disk" / f"viewmill-{os.getuid()}-m" / "b"


def test_the_folder_that_was_asked_for_is_used(memory, tmp_path):
    homes.enter()
    assert Home("m", str(tmp_path / "mine")).path("b") == tmp_path / "mine" / f"viewmill-{os.getuid()}-m" / "b"
    assert not Home("m", str(tmp_path / "mine")).spill("b", full())


def test_an_executor_gives_back_its_memory(memory):
    homes.enter()
    path = Home("m").path("b")
    path.touch()
    assert path == memory / f"viewmill-{os.getuid()}-m" / "b"
    homes.leave()
    assert not list(memory.iterdir())


def test_two_tasks_remove_the_same_folder(memory, monkeypatch):
    """Those of two buckets of a mill that is closed: whoever is later finds nothing."""
    homes.enter()
    home = Home("m")
    for name in ("b", "c"):
        home.path(name).touch()
    there = list(home.files())
    home.remove()
    with monkeypatch.context() as patch:
        patch.setattr(Home, "files", lambda self: iter(there))
        home.remove()
    monkeypatch.setattr(Home, "_folders", lambda self: [memory / f"viewmill-{os.getuid()}-m"])
    assert not list(home.files())
    home.remove()


def test_two_tasks_that_find_each_other_busy_leave_nothing(memory, monkeypatch):
    homes.enter()
    home = Home("m")
    for name in ("b", "c"):
        home.path(name).touch()

    def discard(path: Path) -> bool:
        path.unlink()  # c by the other task, which has its lock
        return path.name == "b"

    monkeypatch.setattr(homes, "discard", discard)
    home.remove()
    assert not (memory / f"viewmill-{os.getuid()}-m").exists()


def test_a_bucket_that_somebody_works_on_stays(memory):
    homes.enter()
    home = Home("m")
    for name in ("b", "c"):
        home.path(name).touch()
    lock = Lock(home.path("c"))
    lock.take(0)
    home.remove()
    assert [file.name for file in home._buckets()] == ["c"]
    lock.drop()
    home.remove()
    assert not (memory / f"viewmill-{os.getuid()}-m").exists()


def test_a_bucket_that_somebody_makes_stays(memory):
    """Its draft is mapped: cut off, it would end the process that writes to it."""
    homes.enter()
    home = Home("m")
    path = home.path("c")
    draft = draft_of(path)
    draft.write_bytes(b"some pages")
    lock = Lock(path)
    lock.take(0)
    home.remove()
    assert draft.read_bytes() == b"some pages"
    lock.drop()
    home.remove()
    assert not (memory / f"viewmill-{os.getuid()}-m").exists()


def test_what_others_use_stays(memory):
    homes.enter()
    folder = Home("m").path("b").parent
    (folder / f"used-by-{os.getppid()}").touch()
    homes.leave()
    assert [file.name for file in folder.iterdir()] == [f"used-by-{os.getppid()}"]


def test_folders_that_are_not_ours_to_look_into_hold_nobody_up(memory, monkeypatch):
    homes.enter()
    for mill in "abc":
        Home(mill).path("b").touch()
    exists = Path.exists

    def refused(path: Path) -> bool:
        if path.parent.name == f"viewmill-{os.getuid()}-b":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refused)
    homes.leave()
    assert [folder.name for folder in memory.iterdir()] == [f"viewmill-{os.getuid()}-b"]


def test_users_of_a_machine_do_not_share_a_mill(memory, monkeypatch):
    """What one has left, another could neither use nor remove, and the mill would not start for him."""
    homes.enter()
    left = Home("m").path("b")
    (left.parent / f"used-by-{DEAD}").touch()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert Home("m").path("b").parent != left.parent
    assert Home("m").on_disk.name == Home("m").in_memory.name
    Home("another").make_room()
    assert left.parent.exists()


def test_a_process_forked_from_an_executor_gives_nothing_back(memory, monkeypatch):
    monkeypatch.setattr(homes, "_executor", os.getppid())
    path = Home("m").path("b")
    path.touch()
    homes.leave()
    assert path.exists()


@pytest.mark.parametrize(
    ("user", "stays"), [(DEAD, False), (os.getpid(), True), (None, True)], ids=["dead", "alive", "nobody"]
)
def test_what_the_killed_have_left_is_removed(memory, user, stays):
    homes.enter()
    other = memory / f"viewmill-{os.getuid()}-other"
    other.mkdir()
    if user is not None:
        (other / f"used-by-{user}").touch()
    Home("m").make_room()
    assert other.exists() == stays


def test_a_mill_that_comes_back_finds_its_own(memory):
    homes.enter()
    own = memory / f"viewmill-{os.getuid()}-m"
    own.mkdir()
    (own / f"used-by-{DEAD}").touch()
    Home("m").make_room()
    assert own.exists()


def test_what_does_not_fit_goes_to_disk_and_stays_there(memory, tmp_path):
    homes.enter()
    home = Home("m")
    home.path("b").touch()
    assert not home.spill("b", OSError(errno.EIO, "broken"))
    assert home.spill("b", full())
    assert not (memory / f"viewmill-{os.getuid()}-m" / "b").exists()
    assert home.path("b") == tmp_path / "disk" / f"viewmill-{os.getuid()}-m" / "b"
    assert home.path("c").parent == memory / f"viewmill-{os.getuid()}-m"
    assert not home.spill("b", full())  # a full disk is a full disk


def test_a_file_in_memory_leaves_some_to_others(tmp_path, monkeypatch):
    monkeypatch.setattr(region, "is_memory", lambda path: True)
    monkeypatch.setattr(region, "free_memory", lambda folder: LARGE)
    there = Region.create(tmp_path / "b")
    array = there.array((LARGE // 8,), np.int64)
    with pytest.raises(OSError, match="No space left"):
        there.array((LARGE // 8 + 1,), np.int64)
    with pytest.raises(OSError, match="No space left"):
        there.longer(array, LARGE)
    assert there.array((LARGE // 8,), np.int64) is not None
    there.close()


def test_room_is_what_the_system_the_container_and_the_file_system_have(tmp_path, monkeypatch):
    told = {
        "/proc/meminfo": "MemTotal: 8192 kB\nMemFree: 10 kB\nMemAvailable: 4096 kB\n",
        "/sys/fs/cgroup/memory.max": "max\n",
    }
    monkeypatch.setattr(room, "_text", lambda path: told.get(str(path), ""))
    assert room.free_memory(tmp_path) == (4096 - 1024) * 1024
    told["/sys/fs/cgroup/memory.max"] = str(4 * 2**20)
    told["/sys/fs/cgroup/memory.current"] = str(3 * 2**20)
    told["/sys/fs/cgroup/memory.stat"] = f"anon 5\ninactive_file {2**20}\n"
    assert room.free_memory(tmp_path) == 2 * 2**20 - 2**19
    told.clear()
    assert room.free_memory(tmp_path) == 0


PROGRAM = """
import sys
from pathlib import Path
import viewmill
from viewmill.engines.spark.session import spark_session

spark = spark_session(master="local[1]")
mill = viewmill.connect(spark=spark, checkpoint=sys.argv[1], buckets=1)
mill.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
mill.sql("CREATE MATERIALIZED VIEW s AS SELECT v, count(*) AS n FROM t GROUP BY v")
mill.insert("t", [(1, 2), (2, 2)])
assert mill.view("s").to_arrow().to_pylist() == [{"v": 2, "n": 2}]
print([str(file) for file in Path("/dev/shm").glob("viewmill-*/*-1-0")])
spark.stop()
"""


def test_spark_keeps_buckets_in_memory_and_gives_it_back(tmp_path):
    if not (room.is_memory(Path("/dev/shm")) and room.free_memory(Path("/dev/shm")) > 0):
        expected = 0
    else:
        expected = 1
    before = set(Path("/dev/shm").glob("viewmill-*/*-1-0"))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "c")], capture_output=True, text=True, timeout=300, check=True
    )
    seen = {Path(name) for name in eval(done.stdout.splitlines()[-1])} - before
    assert len(seen) == expected
    assert not any(path.exists() for path in seen)


def test_a_mill_that_is_closed_gives_everything_back(spark, tmp_path):
    def there(mill: SparkMill) -> list[Path]:
        name = f"viewmill-{os.getuid()}-{mill._engine.commit.mill}"
        folders = (Path("/dev/shm") / name, Path(tempfile.gettempdir()) / name)
        return [file for folder in folders if folder.is_dir() for file in folder.iterdir()]

    with viewmill.connect(spark=spark, checkpoint=str(tmp_path / "c"), buckets=2) as mill:
        mill.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        mill.sql("CREATE MATERIALIZED VIEW s AS SELECT v, count(*) AS n FROM t GROUP BY v")
        mill.insert("t", [(1, 2), (2, 2)])
        assert there(mill)
    assert not there(mill)
    with viewmill.connect(spark=spark, checkpoint=str(tmp_path / "c")) as mill:
        mill.insert("t", [(3, 2)])
        assert mill.view("s").to_arrow().to_pylist() == [{"v": 2, "n": 3}]
