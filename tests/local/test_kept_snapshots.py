"""Snapshots of buckets: what is restored is what was saved, and nothing else is taken for one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_programs import TABLES, VIEWS, as_changes, compiled, many_rows, staying, stores
from kept_turns import pending, take

from viewmill.catalog import Catalog
from viewmill.engines.local.frames import Damaged, Later, read_arrays, write_arrays
from viewmill.engines.local.kept import Kept, OtherProgram
from viewmill.engines.local.narrow import narrowed, widened
from viewmill.errors import DataError, InternalError
from viewmill.program.nodes import Program


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kept, Program, Catalog]]:
    """A bucket with rows that came and some that went."""
    program, catalog = compiled(TABLES, *VIEWS)
    with Kept.create(tmp_path_factory.mktemp("kept") / "bucket", program, catalog) as kept:
        for number, weight in ((0, 1), (1, 1), (0, -1)):
            take(kept, as_changes(many_rows(number, 800), weight), f"{number}, {weight}")
        yield kept, program, catalog


def test_what_is_restored_is_what_was_saved(bucket: tuple[Kept, Program, Catalog], tmp_path: Path) -> None:
    kept, program, catalog = bucket
    kept.save(tmp_path / "snapshot")
    assert [file.name for file in tmp_path.iterdir()] == ["snapshot"]
    assert 10 * (tmp_path / "snapshot").stat().st_size < kept.disk
    with Kept.restore(tmp_path / "snapshot", tmp_path / "bucket", program, catalog) as restored:
        assert (restored.label, restored.before) == ("0, -1", "0, -1")
        assert stores(restored, program) == stores(kept, program)
        for view in program.views:
            assert restored.contents(view) == kept.contents(view)
        restored.undo()
        assert stores(restored, program) == stores(kept, program)


def test_a_restored_bucket_goes_on(bucket: tuple[Kept, Program, Catalog], tmp_path: Path) -> None:
    kept, program, catalog = bucket
    file = io.BytesIO()
    kept.save(file)
    file.seek(0)
    engine = staying(program, catalog)
    engine.apply(pending(as_changes(many_rows(1, 800)), catalog))
    Kept.restore(file, tmp_path / "bucket", program, catalog).close()
    with Kept.open(tmp_path / "bucket", program, catalog) as restored:
        for number, weight in ((2, 1), (1, -1), (3, 1)):
            changes = as_changes(many_rows(number, 800), weight)
            engine.apply(pending(changes, catalog))
            take(restored, changes, str(number))
            assert stores(restored, program) == stores(engine, program)


def test_a_snapshot_has_no_batch_that_is_under_way(tmp_path: Path) -> None:
    program, catalog = compiled("CREATE TABLE t (k int, m decimal(9,2))", "select k, sum(m) as m from t group by k")
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        take(kept, [("t", {(1, Decimal(2)): 1})], "1")
        kept.begin()
        kept.fire(pending([("t", {(2, Decimal(2)): 1})], catalog))
        with pytest.raises(Exception, match="in the middle of a batch"):
            kept.save(tmp_path / "snapshot")
        kept.rollback()
        kept.save(tmp_path / "snapshot")
    with Kept.restore(tmp_path / "snapshot", tmp_path / "bucket", program, catalog) as kept:
        assert kept.contents("v0") == {(1, Decimal(2)): 1}


def test_a_snapshot_of_another_program_is_refused(bucket: tuple[Kept, Program, Catalog], tmp_path: Path) -> None:
    kept, program, catalog = bucket
    file = tmp_path / "snapshot"
    kept.save(file)
    few, _ = compiled(TABLES, *VIEWS[:2])
    with pytest.raises(OtherProgram, match=str(file)):
        Kept.restore(file, tmp_path / "bucket", few, catalog)
    assert not (tmp_path / "bucket").exists()
    with Kept.restore(file, tmp_path / "bucket", few, catalog, {}) as restored:
        assert stores(restored, few) == stores(kept, few)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.5, 0.9, 0.9999])
def test_a_damaged_snapshot_is_refused(part: float, bucket: tuple[Kept, Program, Catalog], tmp_path: Path) -> None:
    kept, program, catalog = bucket
    file, path = tmp_path / "snapshot", tmp_path / "bucket"
    kept.save(file)
    whole = file.read_bytes()
    at = int(part * len(whole))
    for broken in (whole[:at], whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :], whole + b"\n"):
        file.write_bytes(broken)
        with pytest.raises(DataError, match=str(file)):
            Kept.restore(file, path, program, catalog)
        assert not path.exists()
    file.write_bytes(whole)
    Kept.restore(file, path, program, catalog).close()


def test_a_snapshot_that_cannot_be_written_leaves_the_one_before(
    bucket: tuple[Kept, Program, Catalog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, program, catalog = bucket
    file = tmp_path / "snapshot"
    kept.save(file)
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        kept.save(file)
    assert [other.name for other in tmp_path.iterdir()] == ["snapshot"]
    assert file.read_bytes() == before


# --- frames


ARRAYS = st.lists(
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1)).map(lambda numbers: np.array(numbers, np.int64)),
        st.binary().map(lambda data: np.frombuffer(data, np.uint8)),
    ),
    max_size=4,
)


@given(told=st.dictionaries(st.text(), st.integers() | st.text()), arrays=ARRAYS)
def test_arrays_are_read_as_they_were_written(told: dict[str, object], arrays: list[np.ndarray]) -> None:
    file = io.BytesIO()
    write_arrays(file, told, arrays)
    file.seek(0)
    found, read = read_arrays(file, "x")
    assert found == told
    for array, other in zip(arrays, read, strict=True):
        assert array.dtype == other.dtype
        assert array.tolist() == other.tolist()


@given(arrays=ARRAYS, data=st.data())
def test_no_other_bytes_are_read(arrays: list[np.ndarray], data: st.DataObject) -> None:
    file = io.BytesIO()
    write_arrays(file, {}, arrays)
    whole = file.getvalue()
    at = data.draw(st.integers(0, len(whole) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    for broken in (whole[:at], whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]):
        with pytest.raises(DataError, match="the snapshot x"):
            list(read_arrays(io.BytesIO(broken), "x")[1])


def test_large_arrays_are_cut_into_frames() -> None:
    array = np.arange(5_000_000)
    file = io.BytesIO()
    write_arrays(file, {}, [array, array[:3]])
    file.seek(0)
    first, second = read_arrays(file, "x")[1]
    assert (first == array).all() and second.tolist() == [0, 1, 2]


def test_rows_of_a_pool_come_some_at_a_time_when_those_before_are_written() -> None:
    file, made = io.BytesIO(), []
    rows = np.random.default_rng(1).integers(-(2**63), 2**63, (100_000, 3))

    def later(count: int) -> Later:
        def pieces(size: int) -> Iterator[np.ndarray]:
            for start in range(0, count, size):
                made.append(file.tell())
                yield rows[start : min(start + size, count)]

        return Later(count, 3, pieces)

    write_arrays(file, {}, [later(100_000), later(3), later(0)])
    assert len(made) > 2 and made == sorted(set(made))
    file.seek(0)
    for read, count in zip(read_arrays(file, "x")[1], (100_000, 3, 0), strict=True):
        assert read.tolist() == rows[:count].tolist()
    with pytest.raises(InternalError, match="3 rows of <i8 to be written as 4"):
        write_arrays(io.BytesIO(), {}, [Later(4, 3, lambda _: [rows[:3]])])


NUMBERS = st.sampled_from([0, 8, 16, 31, 32, 33, 62, 63]).flatmap(
    lambda bits: st.integers(-(2**bits), 2**bits - 1)
) | st.sampled_from([-(2**63), 2**63 - 1])


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=1, max_size=8)
    )
)
def test_words_are_as_wide_as_before_they_were_made_narrow(rows: list[list[int]]) -> None:
    data = narrowed(np.array(rows, np.int64))
    read = widened(memoryview(data), len(rows[0]))
    assert read is not None and read.tolist() == rows
    assert widened(memoryview(data + b"x"), len(rows[0])) is None
    assert widened(memoryview(data[:-1]), len(rows[0])) is None


@pytest.mark.parametrize("span, size", [(0, 0), (255, 1), (256, 2), (65535, 2), (65536, 4), (2**32 - 1, 4), (2**32, 8)])
def test_a_number_takes_as_many_bytes_as_the_span_of_its_column(span: int, size: int) -> None:
    rows = np.array([[-7], *[[span - 7]] * 999], np.int64)
    assert 1000 * size <= len(narrowed(rows)) < 1000 * size + 20


def test_a_format_of_the_future_is_refused() -> None:
    with pytest.raises(DataError, match="a format that this version"):
        read_arrays(io.BytesIO(b"viewmill bucket 3\n"), "x")
    with pytest.raises(Damaged, match="is not a snapshot"):
        read_arrays(io.BytesIO(b"something that is quite different\n"), "x")
