"""Memory that is a file: arrays do not touch each other, start as zeros, and grow into zeros."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewmill.engines.local import large_pages
from viewmill.engines.local import region as region_module
from viewmill.engines.local.large_pages import collapse, mapped
from viewmill.engines.local.memory import LARGE
from viewmill.engines.local.region import HEADER, NOMINAL, TOP, Region, RegionFull
from viewmill.engines.local.room import is_memory

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["array", "array", "longer", "release", "settle", "open"]),
        st.integers(0, 9),
        st.one_of(st.integers(0, 300), st.integers(LARGE // 16, LARGE // 4)),
    ),
    max_size=30,
)


MEMORY = Path("/dev/shm") if is_memory(Path("/dev/shm")) else None
FOLDERS = [None, MEMORY] if MEMORY else [None]  # of a disk, and of memory, where arrays may be of large pages


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
@given(steps=STEPS, punches=st.booleans())
def test_arrays_are_what_was_written_to_them(
    folder: Path | None, steps: list[tuple[str, int, int]], punches: bool
) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as directory, pytest.MonkeyPatch.context() as patch:
        if not punches:
            patch.setattr(region_module, "_punch", lambda *_: False)
        region = Region.create(Path(directory) / "region")
        arrays: list[tuple[np.ndarray, int]] = []  # with the number they are full of
        for mark, (what, which, length) in enumerate(steps, 1):
            match what:
                case "array":
                    array = region.array((length, 2), np.int64)
                    assert not array.any()
                    array[:] = mark
                    arrays.append((array, mark))
                case "longer" if arrays:
                    array, old = arrays.pop(which % len(arrays))
                    before = len(array)
                    array = region.longer(array, before + length)
                    assert (array[:before] == old).all() and not array[before:].any()
                    array[:] = mark
                    arrays.append((array, mark))
                case "release" if arrays:
                    region.release(arrays.pop(which % len(arrays))[0])
                case "settle":
                    region.settle()
                case "open":
                    region.settle()
                    other = Region.open(Path(directory) / "region")
                    assert other is not None
                    at = [array.ctypes.data - region.base + other.base if array.size else 0 for array, _ in arrays]
                    arrays = [
                        (other.at(where, array.shape, np.int64) if array.size else array, old)
                        for where, (array, old) in zip(at, arrays, strict=True)
                    ]
                    region.close()
                    region = other
            for array, full_of in arrays:
                assert (array == full_of).all()


def test_a_large_array_grows_where_it_is_and_takes_disk_for_what_it_has(tmp_path: Path) -> None:
    region = Region.create(tmp_path / "region")
    array = region.array((LARGE // 8,), np.int64)
    array[:] = 1
    before = region.disk
    longer = region.longer(array, 4 * LARGE // 8)
    assert longer.ctypes.data == array.ctypes.data
    assert 3 * LARGE - 10_000 < region.disk - before < 3 * LARGE + 100_000
    moved = region.longer(longer, 20 * LARGE // 8)
    assert moved.ctypes.data != array.ctypes.data
    assert array[0] == 1  # until it is settled
    region.settle()
    assert region.disk < before + 21 * LARGE
    assert not region.array((4 * LARGE // 8,), np.int64).any()


def test_large_pages_are_asked_for_as_long_as_there_are_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def collapse(descriptor: int, base: int, start: int, size: int) -> bool:
        asked.append((start, size))
        return len(asked) < 3

    monkeypatch.setattr(region_module, "collapse", collapse)
    on_disk = Region.create(tmp_path / "on disk")
    on_disk.array((LARGE,), np.int64)
    assert not asked
    monkeypatch.setattr(region_module, "is_memory", lambda path: True)
    region = Region.create(tmp_path / "region")
    region.array((100,), np.int64)
    assert not asked
    array = region.array((LARGE,), np.uint8)
    array = region.longer(array, 3 * LARGE)
    start = array.ctypes.data - region.base
    assert asked == [(start, LARGE), (start + LARGE, 2 * LARGE)]
    for _ in range(2):
        region.array((LARGE,), np.uint8)
    assert len(asked) == 3


def test_large_pages_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that nobody got, since there was not room for all."""
    with tempfile.TemporaryDirectory(dir=MEMORY or tmp_path) as folder:
        region = Region.create(Path(folder) / "region")
        region.release(region.array((100,), np.int64))
        before = region.disk
        for _ in range(4):
            region.release(region.array((LARGE + 100,), np.uint8))
        region.settle()
        assert region.disk < before + LARGE

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(region_module, "_back", full)
        with pytest.raises(OSError, match="No space left"):
            region.array((LARGE + 100,), np.uint8)
        assert region.disk < before + LARGE


def test_large_pages_hold_what_the_small_ones_did(tmp_path: Path) -> None:
    """Whether there are any or not; those of a file that is not memory there are not."""
    size = 4 * LARGE
    with tempfile.TemporaryFile(dir=MEMORY or tmp_path) as file:
        file.truncate(size)
        data = mapped(file.fileno(), size)
        data[LARGE - 3 : LARGE + 3] = 7
        collapse(file.fileno(), data.ctypes.data, LARGE // 2, LARGE)
        assert np.flatnonzero(data).tolist() == list(range(LARGE - 3, LARGE + 3))
        data[size - 1] = 9
        assert mapped(file.fileno(), size)[[LARGE, 2 * LARGE, size - 1]].tolist() == [7, 0, 9]
        assert os.pread(file.fileno(), 1, size - 1) == b"\x09"


def test_a_file_is_mapped_where_there_are_no_addresses_to_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_pages, "reserved", lambda size: None)
    region = Region.create(tmp_path / "region")
    region.array((LARGE,), np.int64)[:] = 5
    other = Region.open(tmp_path / "region")
    assert other is not None and (other.header == region.header).all()


def test_what_is_released_is_used_again(tmp_path: Path) -> None:
    region = Region.create(tmp_path / "region")
    for _ in range(3):
        for size in (100, 5000, LARGE):
            region.release(region.array((size,), np.uint8))
            region.settle()
    top = int(region.header[TOP])
    region.array((90,), np.uint8)
    assert region.header[TOP] == top


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    region = Region.create(tmp_path / "region")
    array = region.array((10,), np.int64)
    array[:] = 3

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        for attempt in (lambda: region.array((5000,), np.int64), lambda: region.longer(array, 5000)):
            with pytest.raises(OSError, match="No space left"):
                attempt()
    assert (region.longer(array, 20)[:10] == 3).all()
    with pytest.raises(RegionFull, match=str(tmp_path)):
        region.array((NOMINAL,), np.uint8)


def test_a_region_that_cannot_be_made_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        Region.create(tmp_path / "region")
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_length_is_no_region(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(HEADER))
    assert Region.open(tmp_path / "file") is None
