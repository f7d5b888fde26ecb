"""Buckets that a process keeps open, and what it remembers of programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from kept_programs import TABLES, VIEWS, as_changes, compiled, many_rows, staying, stores
from kept_turns import Neighbour, pending, take

from viewmill import cache
from viewmill.catalog import Catalog
from viewmill.distribute.nodes import WEIGHT as TRAVELLING
from viewmill.engines.local import held, plans
from viewmill.engines.local.kept import Kept, Torn
from viewmill.engines.local.shelf import Shelf
from viewmill.errors import InternalError
from viewmill.program.nodes import Program

Made = tuple[Program, Catalog]


@pytest.fixture(scope="module")
def made() -> Made:
    return compiled(TABLES, *VIEWS)


@pytest.fixture
def doomed() -> Iterator[Neighbour]:
    other = Neighbour()
    yield other
    other.end()


def told(made: Made) -> Callable[[], Made]:
    return lambda: made


def never() -> Made:
    raise AssertionError("the bucket is open")


def test_a_bucket_that_comes_back_is_open(made: Made, doomed: Neighbour, tmp_path: Path) -> None:
    shelf, path, engine = Shelf(), tmp_path / "bucket", staying(*made)
    Kept.create(path, *made).close()
    with shelf.enter(path, "m", told(made)) as kept:
        take(kept, as_changes(many_rows(0)), "1")
    doomed.take(path, *made, as_changes(many_rows(1)), "2")
    for number in range(2):
        engine.apply(pending(as_changes(many_rows(number)), made[1]))
    with shelf.enter(path, "m", never) as kept:
        assert kept.label == "2"
        assert stores(kept, made[0]) == stores(engine, made[0])
    shelf.clear()
    assert len(shelf) == 0


def test_those_used_last_stay_open(made: Made, tmp_path: Path) -> None:
    shelf = Shelf(2)
    paths = [tmp_path / f"bucket {number}" for number in range(3)]
    for path in paths:
        shelf.put(Kept.create(path, *made), "m")
    assert len(shelf) == 2
    with shelf.enter(paths[2], "m", never), shelf.enter(paths[1], "m", never):
        assert len(shelf) == 0
    with pytest.raises(AssertionError, match="is open"), shelf.enter(paths[0], "m", never):
        pass
    with pytest.raises(AssertionError, match="is open"), shelf.enter(paths[1], "another", never):
        pass


def test_a_batch_that_fails_is_undone(made: Made, tmp_path: Path) -> None:
    shelf, path = Shelf(), tmp_path / "bucket"
    shelf.put(Kept.create(path, *made), "m")
    with pytest.raises(ZeroDivisionError), shelf.enter(path, "m", never) as kept:
        kept.begin()
        kept.fire(pending(as_changes(many_rows(0)), made[1]))
        raise ZeroDivisionError
    with shelf.enter(path, "m", never) as kept:
        assert not any(stores(kept, made[0]).values())
        take(kept, as_changes(many_rows(0)), "1")


def test_a_bucket_that_was_torn_and_restored_is_opened_anew(made: Made, doomed: Neighbour, tmp_path: Path) -> None:
    shelf, path = Shelf(), tmp_path / "bucket"
    shelf.put(Kept.create(path, *made), "m")
    with shelf.enter(path, "m", never) as kept:
        take(kept, as_changes(many_rows(0)), "1")
        kept.save(tmp_path / "snapshot")
        before = stores(kept, made[0])
    doomed.stop_within(path, *made, as_changes(many_rows(1)))
    with pytest.raises(Torn), shelf.enter(path, "m", never):
        pass
    shelf.put(Kept.restore(tmp_path / "snapshot", path, *made), "m")
    with shelf.enter(path, "m", never) as kept:
        assert (kept.label, stores(kept, made[0])) == ("1", before)


def test_a_forked_process_has_nothing_open(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, path = Shelf(), tmp_path / "bucket"
    kept = Kept.create(path, *made)
    shelf.put(kept, "m")
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(InternalError, match="opened by another process"):
        kept.enter()
    with shelf.enter(path, "m", told(made)) as other:
        assert other is not kept


# --- what is remembered of programs


def test_a_plan_is_made_once(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WORTH_IT", 0.0)
    changes, found = as_changes(many_rows(0, 50)), []
    for _ in range(2):
        with Kept.create(tmp_path / "bucket", *made) as kept:
            take(kept, changes, "1")
            found.append(stores(kept, made[0]))
        monkeypatch.setattr(plans, "plan_trigger", Mock(side_effect=AssertionError("planned again")))
    assert found[0] == found[1]


@pytest.mark.parametrize("damage", [b"", b"cut", b"\x80\x04]."])
def test_a_plan_that_cannot_be_read_is_made_again(
    damage: bytes, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = staying(*made)
    plans = {name: engine.code(name) for name in made[0].triggers}
    monkeypatch.setattr(cache, "directory", lambda: tmp_path / "plans")
    monkeypatch.setattr(cache, "WORTH_IT", 0.0)
    for _ in range(2):
        with Kept.create(tmp_path / "bucket", *made) as kept:
            assert {name: kept._engine.code(name) for name in made[0].triggers} == plans
        kept_plans = list((tmp_path / "plans").glob("plan-*"))
        assert len(kept_plans) == len(made[0].triggers)
        for file in kept_plans:
            file.write_bytes(damage)


def test_weights_travel_under_one_name() -> None:
    assert held.WEIGHT == TRAVELLING
