"""Buckets: state in a file, worked on by one process after another.

The law: processes that take turns on a bucket leave in it what one engine has that was there all the time.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from kept_programs import TABLES, VIEWS, as_changes, compiled, many_rows, staying, stores
from kept_turns import Changes, Neighbour, lets_of, pending, take
from oracle import questions_of
from tpch_data import tpch
from workload import SUITE, Batch, Churn

from viewmill.algebra.nodes import DeltaRelation
from viewmill.engines.interpreter import Interpreter
from viewmill.engines.interpreter.tables import Table
from viewmill.engines.local import engine as local_engine
from viewmill.engines.local import kept as kept_module
from viewmill.engines.local import triggers
from viewmill.engines.local.engine import LocalEngine
from viewmill.engines.local.kept import Kept, OtherProgram, Torn
from viewmill.engines.local.locks import Busy
from viewmill.engines.local.pending import PendingData
from viewmill.engines.local.scalars import CannotLower
from viewmill.errors import DataError, InternalError
from viewmill.program.nodes import Program

FIXTURES = Path(__file__).parents[1] / "fixtures"
THEMES = sorted(file.stem for file in (FIXTURES / "queries").glob("*.txt"))
QUICK = THEMES[:2]
LONG = Decimal("12345678901234.5678")  # as a double it is rounded, so compiled code declines it


def net(batch: Batch, rows_before: dict[str, list[Any]]) -> Changes:
    """A batch of operations as rows with weights. An update takes back the row with its key."""
    changes: dict[str, dict[Any, int]] = {}
    for operation in batch:
        there, rows = rows_before[operation.table], changes.setdefault(operation.table, {})
        for row in operation.rows:
            sign = -1 if operation.kind == "delete" else 1
            if operation.kind == "update":
                old = next(other for other in there if other[0] == row[0])
                there.remove(old)
                rows[old] = rows.get(old, 0) - 1
            there.append(row) if sign > 0 else there.remove(row)
            rows[row] = rows.get(row, 0) + sign
    return [(name, {row: n for row, n in rows.items() if n}) for name, rows in changes.items()]


def steps(seed: int) -> Iterator[Changes]:
    """Tables of the suite that fill, change, empty, fill again and change."""
    churn = Churn(SUITE, seed)
    rows: dict[str, list[Any]] = {table.name: [] for table in SUITE}
    batches = [churn.start(12), *(churn.step() for _ in range(3)), churn.clear(), churn.start(8), churn.step()]
    for batch in batches:
        yield net(batch, rows)


def sums(batch: pa.RecordBatch) -> dict[Any, Any]:
    """The rows that a `let` gave out."""
    *keys, weights = (column.to_pylist() for column in batch.columns)
    assert 0 not in weights
    total: dict[Any, Any] = {}
    for *row, weight in zip(*keys, weights, strict=True):
        total[tuple(row)] = total.get(tuple(row), 0) + weight
    return total


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Neighbour]:
    other = Neighbour()
    yield other
    other.end()


@pytest.fixture
def doomed() -> Iterator[Neighbour]:
    other = Neighbour()
    yield other
    other.end()


# --- taking turns


@pytest.mark.parametrize("theme", [pytest.param(t, marks=() if t in QUICK else pytest.mark.exhaustive) for t in THEMES])
def test_taking_turns_is_staying(
    theme: str, neighbour: Neighbour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engine, "COMPILE_AFTER", -1)
    questions = questions_of(FIXTURES / "queries" / f"{theme}.txt")
    program, catalog = compiled("; ".join(table.ddl for table in SUITE), *(question.sql for question in questions))
    engine, path = LocalEngine(), tmp_path / "bucket"
    engine.install(program, catalog, {})
    ours = Kept.create(path, program, catalog, engine._tables)  # VALUES are there before any row
    ours.leave()
    for number, changes in enumerate(steps(crc32(theme.encode()))):
        engine.apply_pending(pending(changes, catalog))
        if number % 2:
            neighbour.take(path, program, catalog, changes, str(number))
            assert ours.enter()
        else:
            assert ours.enter()
            take(ours, changes, str(number))
        assert ours.label == str(number)
        assert stores(ours, program) == stores(engine, program)
        for view in program.views:
            assert ours.contents(view) == engine.contents(view), view
        ours.leave()
    ours.close()


def test_a_bucket_grows_and_shrinks_in_many_hands(neighbour: Neighbour, doomed: Neighbour, tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    engine, path = staying(program, catalog), tmp_path / "bucket"
    ours = Kept.create(path, program, catalog)
    ours.leave()
    batches = [as_changes(many_rows(number)) for number in range(6)]
    gone = [as_changes(many_rows(number), -1) for number in range(6)]
    for number, changes in enumerate([*batches, *gone]):
        engine.apply(pending(changes, catalog))
        match number % 3:
            case 0:
                doomed.take(path, program, catalog, changes, str(number))
            case 1:
                neighbour.take(path, program, catalog, changes, str(number))
            case _:
                assert ours.enter()
                take(ours, changes, str(number))
                assert stores(ours, program) == stores(engine, program)
                ours.leave()
    assert ours.enter()
    assert not any(stores(ours, program).values())
    assert ours.size(next(iter(program.stores)))[0] == 0
    ours.close()


@pytest.mark.slow
def test_tpch_is_followed_in_two_processes(neighbour: Neighbour, tmp_path: Path) -> None:
    queries = [file.read_text() for file in sorted((FIXTURES / "tpch").glob("q*.sql"))]
    program, catalog = compiled("; ".join(table.ddl.rstrip(";") for table in tpch().tables), *queries)
    engine, path, churn = staying(program, catalog), tmp_path / "bucket", Churn(tpch().tables, 5)
    keys = {table.name: table.key for table in tpch().tables}
    assert all(keys.values())
    batches = [churn.load(tpch().initial), *(churn.step() for _ in range(4)), churn.clear()]
    rows: dict[str, dict[Any, Any]] = {name: {} for name in keys}
    ours = Kept.create(path, program, catalog)
    ours.leave()
    for number, batch in enumerate(batches):
        changes = net_by_key(batch, rows, keys)
        engine.apply(pending(changes, catalog))
        if number % 2:
            neighbour.take(path, program, catalog, changes, str(number))
        assert ours.enter()
        if not number % 2:
            take(ours, changes, str(number))
        assert stores(ours, program) == stores(engine, program)
        ours.leave()
    ours.close()


def net_by_key(batch: Batch, there: dict[str, dict[Any, Any]], keys: dict[str, tuple[int, ...]]) -> Changes:
    changes: dict[str, dict[Any, int]] = {}
    for operation in batch:
        here, rows = there[operation.table], changes.setdefault(operation.table, {})
        for row in operation.rows:
            key = tuple(row[i] for i in keys[operation.table])
            old = here.pop(key, None)
            if old is not None:
                rows[old] = rows.get(old, 0) - 1
            if operation.kind != "delete":
                here[key] = row
                rows[row] = rows.get(row, 0) + 1
    return [(name, {row: n for row, n in rows.items() if n}) for name, rows in changes.items()]


# --- what triggers give out


def with_lets(program: Program) -> Program:
    """The same, but what is added to a store has a name: `let d_Q(k) = ...; Q(k) += d_Q(k)`."""
    made = {}
    for name, trigger in program.triggers.items():
        first, later = [], []
        for s in trigger.statements:
            if s.op == "+=":
                first.append(replace(s, target=f"d_{s.target}", op="let"))
                s = replace(s, expr=DeltaRelation(f"d_{s.target}", s.vars, s.vars))
            later.append(s)
        made[name] = replace(trigger, statements=(*first, *later))
    return replace(program, triggers=made)


def test_lets_are_those_of_the_interpreter(tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    program = with_lets(program)
    slow = Interpreter()
    slow.install(program, {})
    seen = 0
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        for number in range(3):
            for name, rows in as_changes(many_rows(number, 400)):
                given = take(kept, [(name, rows)], str(number))
                changes = {name: Table(program.fields[name], rows)}
                for statement in program.triggers[name].statements:
                    slow._execute(statement, changes)
                assert set(given) == set(changes) - {name}
                for let, batch in given.items():
                    assert batch.schema.names[-1] == "weight_"
                    assert sums(batch) == pytest.approx(changes[let].rows)
                    seen += batch.num_rows
    assert seen > 100


def test_a_let_has_the_type_of_its_sums(tmp_path: Path) -> None:
    program, catalog = compiled(
        "CREATE TABLE t (k int, m decimal(12,2)) WITH (stored = false)", "select k, sum(m) as m from t group by k"
    )
    with Kept.create(tmp_path / "bucket", with_lets(program), catalog) as kept:
        given = take(kept, [("t", {(1, Decimal("2.50")): 2, (2, Decimal(1)): 1, (2, Decimal(-1)): 1})], "1")
        kept.begin()
        assert kept.fire([], lets_of(kept.program)) == {}
        kept.rollback()
    sums_of_m = [batch for batch in given.values() if pa.types.is_decimal(batch.schema.field("weight_").type)]
    assert [sums(batch) for batch in sums_of_m] == [{(1,): Decimal("5.00")}]
    assert all(batch.schema.field(0).type == pa.int32() for batch in given.values())


def test_lets_of_a_batch_that_is_interpreted(tmp_path: Path) -> None:
    """Also if compiled code declines it, and if there is no code at all."""
    program, catalog = compiled(
        "CREATE TABLE t (k int, m decimal(18,4)) WITH (stored = false)",
        "select cast(m as double) as d, count(*) as n from t group by cast(m as double)",
    )
    changes = [("t", {(1, LONG): 2, (2, Decimal(1)): 1})]
    given = []
    for lower in (None, CannotLower("this")):
        with pytest.MonkeyPatch.context() as patch, Kept.create(tmp_path / "b", with_lets(program), catalog) as kept:
            if lower is not None:
                patch.setattr(triggers, "lower", Mock(side_effect=lower))
            given.append(take(kept, changes, "1"))
            assert kept.contents("v0") == {(float(LONG), 2): 1, (1.0, 1): 1}
    assert given[0] == given[1]
    assert [sums(batch) for batch in given[0].values()] == [{(float(LONG),): 2, (1.0,): 1}]


def test_several_changes_of_one_batch_are_taken_one_after_the_other(tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    engine = staying(program, catalog)
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        changes = as_changes(many_rows(0, 200))
        kept.begin()
        for change in changes:
            kept.fire(pending([change], catalog))
        kept.commit("1")
        engine.apply(pending(changes, catalog))
        assert stores(kept, program) == stores(engine, program)
        kept.undo()
        assert not any(stores(kept, program).values())


def test_weights_may_be_a_column(tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    tables, engine = many_rows(1, 500), staying(program, catalog)
    weights = {name: np.random.default_rng(3).integers(-2, 4, len(table)) for name, table in tables.items()}
    batch = [PendingData(catalog.relations[name], table, weights[name]) for name, table in tables.items()]
    rows = []
    for name, table in tables.items():
        total: dict[Any, int] = {}
        values = zip(*(column.to_pylist() for column in table.columns), strict=True)
        for row, weight in zip(values, weights[name].tolist(), strict=True):
            total[row] = total.get(row, 0) + weight
        rows.append((name, {row: n for row, n in total.items() if n}))
        assert batch[len(rows) - 1].rows() == rows[-1][1]
    engine.apply(pending(rows, catalog))
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        kept.begin()
        kept.fire(batch)
        kept.commit("1")
        assert stores(kept, program) == stores(engine, program)


# --- undoing


def test_a_batch_can_be_taken_back_until_the_next_one_begins(neighbour: Neighbour, tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    path = tmp_path / "bucket"
    with Kept.create(path, program, catalog) as kept:
        assert (kept.label, kept.before) == ("", "")
        take(kept, as_changes(many_rows(0)), "1")
        before = stores(kept, program)
        take(kept, as_changes(many_rows(1)), "2")
        after = stores(kept, program)
        assert (kept.label, kept.before) == ("2", "1")
    neighbour.undo(path, program, catalog)
    with Kept.open(path, program, catalog) as kept:
        assert (kept.label, kept.before) == ("1", "1")
        assert stores(kept, program) == before
        take(kept, as_changes(many_rows(1)), "2")
        assert stores(kept, program) == after


def test_what_is_not_committed_is_undone(tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    path = tmp_path / "bucket"
    with Kept.create(path, program, catalog) as kept:
        take(kept, as_changes(many_rows(0)), "1")
        before = stores(kept, program)
        kept.begin()
        kept.fire(pending(as_changes(many_rows(1)), catalog))
    with Kept.open(path, program, catalog) as kept:
        assert kept.label == "1"
        assert stores(kept, program) == before


def test_a_batch_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    program, catalog = compiled(
        "CREATE TABLE t (k int, a bigint) WITH (stored = false)",
        "select 10 div a as q, count(*) as n from t group by 10 div a",
    )
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        take(kept, [("t", {(1, 2): 1, (2, 5): 1})], "1")
        before = stores(kept, program)
        kept.begin()
        kept.fire(pending([("t", {(3, 1): 1})], catalog))
        with pytest.raises(DataError, match="division by zero"):
            kept.fire(pending([("t", {(2, 6): 1, (1, 0): 1})], catalog))
        kept.rollback()
        assert (kept.label, stores(kept, program)) == ("1", before)
        take(kept, [("t", {(2, 6): 1})], "2")
        assert kept.contents("v0") == {(5, 1): 1, (2, 1): 1, (1, 1): 1}


# --- numbers that do not fit a pool


WIDE_TABLE = "CREATE TABLE t (k int, s string, m decimal(38,4), d date, f double) WITH (stored = false)"
WIDE_VIEWS = (
    "select k, sum(m) as m, max(m) as hi from t group by k",
    "select s, m, d, f, count(*) as n from t group by all",
)
WIDE = Decimal("12345678901234567890.25")


def wide_row(number: int, m: Decimal) -> tuple[Any, ...]:
    return (number % 3 or None, f"s{number}", m, date(2024, 1, 1 + number), number / 4)


def test_a_number_that_does_not_fit_is_kept_all_the_same(neighbour: Neighbour, tmp_path: Path) -> None:
    program, catalog = compiled(WIDE_TABLE, *WIDE_VIEWS)
    program = with_lets(program)
    path, slow = tmp_path / "bucket", Interpreter()
    slow.install(program, {})
    narrow = {wide_row(number, Decimal(number)): 1 for number in range(6)}
    wide = {wide_row(number, WIDE + number): 2 for number in range(4)}
    with Kept.create(path, program, catalog) as kept:
        take(kept, [("t", narrow)], "1")
        slow.apply({"t": narrow})
        before = stores(kept, program)
        kept.begin()
        kept.fire(pending([("t", {wide_row(7, Decimal(7)): 1})], catalog))
        given = kept.fire(pending([("t", wide)], catalog), lets_of(program))
        kept.commit("2")
        assert {WIDE + number for number in range(4)} <= {row[1] for row in sums(given["d_v1"])}
        slow.apply({"t": {wide_row(7, Decimal(7)): 1}})
        slow.apply({"t": wide})
        assert stores(kept, program) == {name: slow.store(name) for name in program.stores}
    after = {name: slow.store(name) for name in program.stores}
    neighbour.undo(path, program, catalog)
    with Kept.open(path, program, catalog) as kept:
        assert (kept.label, stores(kept, program)) == ("1", before)
    neighbour.take(path, program, catalog, [("t", {wide_row(7, Decimal(7)): 1, **wide})], "2")
    neighbour.take(path, program, catalog, [("t", {row: -n for row, n in wide.items()})], "3")
    kept = Kept.open(path, program, catalog)
    kept.undo()
    assert (kept.label, stores(kept, program)) == ("2", after)
    for view in program.views:
        assert kept.contents(view) == slow.contents(view)
    kept.save(tmp_path / "snapshot")
    kept.close()
    with Kept.restore(tmp_path / "snapshot", path, program, catalog) as kept:
        assert (kept.label, stores(kept, program)) == ("2", after)
    few, _ = compiled(WIDE_TABLE, WIDE_VIEWS[0])
    with Kept.open(path, few, catalog, {}) as kept:
        assert stores(kept, few) == {name: after[name] for name in few.stores}
    tables = {name: Table(store.keys, after[name]) for name, store in program.stores.items()}
    for start in (Kept.open, Kept.create):
        with start(path, program, catalog, tables) as kept:
            assert stores(kept, program) == after


def test_a_batch_that_is_refused_leaves_pools_where_they_are(tmp_path: Path) -> None:
    program, catalog = compiled(WIDE_TABLE, *WIDE_VIEWS)
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        take(kept, [("t", {wide_row(1, Decimal(1)): 1})], "1")
        before = stores(kept, program)
        kept.begin()
        kept.fire(pending([("t", {wide_row(1, WIDE): 1})], catalog))
        kept.rollback()
        assert stores(kept, program) == before
        assert kept.size(next(iter(program.stores)))[1] > 0


def test_what_compiled_code_declines_is_interpreted(tmp_path: Path) -> None:
    """A decimal that is no double takes the long way, and what the batch did before it stays."""
    program, catalog = compiled(
        "CREATE TABLE t (k int, m decimal(18,4)) WITH (stored = false)",
        "select cast(m as double) as d, count(*) as n from t group by cast(m as double)",
        "select k, sum(m) as m from t group by k",
    )
    engine = staying(program, catalog)
    changes = [[("t", {(1, Decimal(i)): 1 for i in range(5)})], [("t", {(1, LONG): 2, (2, Decimal(1)): 1})]]
    for change in changes:
        engine.apply(pending(change, catalog))
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        kept.begin()
        for change in changes:
            kept.fire(pending(change, catalog), lets_of(program))
        kept.commit("1")
        assert stores(kept, program) == stores(engine, program)
        assert kept.contents("v1") == engine.contents("v1")


# --- files that cannot be trusted


def test_a_process_that_dies_in_a_batch_tears_the_bucket(doomed: Neighbour, tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    path = tmp_path / "bucket"
    kept = Kept.create(path, program, catalog)
    take(kept, as_changes(many_rows(0)), "1")
    kept.leave()
    doomed.stop_within(path, program, catalog, as_changes(many_rows(1)))
    with pytest.raises(Torn, match="left in the middle of a batch"):
        kept.enter()
    kept.close()
    with pytest.raises(Torn, match=str(path)):
        Kept.open(path, program, catalog)
    with Kept.create(path, program, catalog) as kept:
        take(kept, as_changes(many_rows(0)), "1")


def test_a_process_that_dies_after_a_batch_does_not(doomed: Neighbour, tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    path = tmp_path / "bucket"
    Kept.create(path, program, catalog).close()
    doomed.take(path, program, catalog, as_changes(many_rows(1)), "1")
    doomed.hold(path, program, catalog)
    with pytest.raises(Busy, match="another process works on"):
        Kept.open(path, program, catalog, patience=0.05)
    doomed.end()
    with Kept.open(path, program, catalog) as kept:
        assert kept.label == "1"
        assert any(stores(kept, program).values())


def test_a_process_that_dies_making_a_bucket_leaves_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    path = tmp_path / "bucket"
    with monkeypatch.context() as patch:
        patch.setattr(kept_module, "HeldEngine", lambda *_: os._exit(0))
        if (child := os.fork()) == 0:
            Kept.create(path, program, catalog)
        os.waitpid(child, 0)
    assert not path.exists() and len(list(tmp_path.iterdir())) > 1
    Kept.create(path, program, catalog).close()
    assert {file.name for file in tmp_path.iterdir()} == {"bucket", "bucket.lock"}


def open_files() -> list[str]:
    links = []
    for file in Path("/proc/self/fd").iterdir():
        try:
            links.append(os.readlink(file))
        except OSError:  # the one that lists them
            pass
    return links


def test_files_of_other_times_are_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    path = tmp_path / "bucket"
    Kept.create(path, program, catalog).close()
    for name, reason in (("machine_mark", "since this machine was started"), ("code_mark", "another version")):
        with monkeypatch.context() as patch:
            patch.setattr(kept_module, name, lambda: "another")
            with pytest.raises(Torn, match=reason):
                Kept.open(path, program, catalog)
    Kept.open(path, program, catalog).close()
    os.truncate(path, 10_000)
    with pytest.raises(Torn, match="is damaged"):
        Kept.open(path, program, catalog)
    with pytest.raises(Torn, match="is not there"):
        Kept.open(tmp_path / "nowhere", program, catalog)
    gc.collect()
    assert not [link for link in open_files() if str(tmp_path) in link]


def test_something_else_is_no_bucket(tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    path = tmp_path / "bucket"
    Kept.create(path, program, catalog).close()
    with path.open("r+b") as file:
        file.write(b"something else")
    with pytest.raises(Torn, match="is not a bucket"):
        Kept.open(path, program, catalog)


def test_a_bucket_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    path = tmp_path / "bucket"
    old = Kept.create(path, program, catalog)
    take(old, as_changes(many_rows(0)), "1")
    old.leave()
    Kept.create(path, program, catalog, label="7").close()
    assert not old.enter()
    old.close()
    with Kept.open(path, program, catalog) as kept:
        assert kept.label == "7"
        assert not any(stores(kept, program).values())


def test_batches_begin_and_end(tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        for early in (lambda: kept.fire([]), lambda: kept.commit("1"), kept.rollback):
            with pytest.raises(InternalError):
                early()
        kept.begin()
        with pytest.raises(InternalError):
            kept.begin()
        with pytest.raises(DataError, match="longer than"):
            kept.commit("x" * 2000)


# --- other programs


def test_a_bucket_follows_to_another_program(neighbour: Neighbour, tmp_path: Path) -> None:
    few, catalog = compiled(TABLES, *VIEWS[:2])
    many, _ = compiled(TABLES, *VIEWS)
    path, changes = tmp_path / "bucket", as_changes(many_rows(0, 500))
    with Kept.create(path, few, catalog) as kept:
        take(kept, changes, "1")
    with pytest.raises(OtherProgram, match="stores of another program"):
        Kept.open(path, many, catalog)
    engine = staying(few, catalog)
    engine.apply(pending(changes, catalog))
    full = staying(many, catalog)
    full.apply(pending(changes, catalog))
    tables = {name: table for name, table in full.tables.items() if few.stores.get(name) != many.stores[name]}
    with Kept.open(path, many, catalog, tables) as kept:
        assert (kept.label, kept.before) == ("1", "1")
        assert stores(kept, many) == stores(full, many)
    more = as_changes(many_rows(1, 500))
    full.apply(pending(more, catalog))
    neighbour.take(path, many, catalog, more, "2")
    with Kept.open(path, many, catalog) as kept:
        assert stores(kept, many) == stores(full, many)
        kept.extend(few, catalog, {})
        for changes in (more,):
            engine.apply(pending(changes, catalog))
        assert stores(kept, few) == stores(engine, few)
    assert neighbour.read(path, few, catalog, few.views) == {view: engine.contents(view) for view in few.views}


def test_a_bucket_starts_with_what_it_is_given(tmp_path: Path) -> None:
    program, catalog = compiled(TABLES, *VIEWS)
    engine = staying(program, catalog)
    engine.apply(pending(as_changes(many_rows(0)), catalog))
    with Kept.create(tmp_path / "bucket", program, catalog, engine.tables, label="5") as kept:
        assert kept.label == "5"
        assert stores(kept, program) == stores(engine, program)


def test_memory_for_a_large_batch_is_given_back_after_a_small_one(tmp_path: Path):
    """Not that of stores: that of what a batch makes for itself."""
    ddl = "CREATE TABLE a (k int, v int) WITH (stored = false)"
    program, catalog = compiled(ddl, "select k, v from a where v > (select avg(x.v) from a x where x.k = a.k)")

    def took(kept: Kept, size: int, label: str) -> int:
        kept.begin()
        kept.fire(pending([("a", {(k, k): 1 for k in range(size)})], kept.catalog))
        kept.commit(label)
        lets = [pool for trigger in kept._engine._triggers.values() for pool in trigger.lets.values()]
        assert lets
        return sum(pool.nbytes for pool in lets)

    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        large = took(kept, 200_000, "1")
        assert took(kept, 10, "2") < large / 10
