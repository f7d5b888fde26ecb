"""Readers at every place where a writer lets them in: they find what was before the batch, whole.

Readers are made to come at each pause, in Python and in compiled code; so what a reader may meet, it meets in each run.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import TypeAlias

import pyarrow as pa
import pytest

import viewmill
from viewmill.engines.local import run
from viewmill.engines.local.gate import WAITING, Gate
from viewmill.engines.local.many import Group
from viewmill.engines.local.string_tables import StringTable
from viewmill.tables import BaseTable

TABLES = """
    CREATE TABLE r (id BIGINT PRIMARY KEY, a INT, b INT, s STRING, x DECIMAL(12, 2));
    CREATE TABLE t (a INT, c INT) WITH (stored = false);
"""
VIEWS = {
    "grouped": "SELECT a, s, count(*) AS n, sum(x) AS total, avg(x) AS mean FROM r GROUP BY a, s",
    "extreme": "SELECT b, min(x) AS low, max(x) AS high, count(DISTINCT s) AS kinds FROM r GROUP BY b",
    "joined": "SELECT r.a, sum(c) AS c, sum(x) AS x FROM r JOIN t ON r.a = t.a GROUP BY r.a",
    "outer_joined": "SELECT r.b, count(t.c) AS n FROM r LEFT JOIN t ON r.b = t.c GROUP BY r.b",
    "missing": "SELECT a, count(*) AS n FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.c = r.b) GROUP BY a",
    "above": "SELECT sum(x) AS x FROM r WHERE x > (SELECT 0.6 * max(x) FROM r)",
    "plain": "SELECT DISTINCT upper(s) AS s, b FROM r WHERE x > 50",
    "least": "SELECT id, x FROM r ORDER BY x, id LIMIT 5",
    "over": "SELECT n, count(*) AS groups FROM missing GROUP BY n",
}


def rows_of(random: Random, ids: range) -> list[tuple[object, ...]]:
    def one(i: int) -> tuple[object, ...]:
        return i, random.randrange(40), random.randrange(300), f"s{random.randrange(25)}", _money(random)

    return [one(i) for i in ids]


def _money(random: Random) -> object:
    return pa.scalar(random.randrange(10_000)).cast(pa.decimal128(21, 2)).as_py() / 100


def columns_of(random: Random, count: int) -> pa.Table:
    return pa.table(
        {
            "a": pa.array([random.randrange(60) for _ in range(count)], pa.int32()),
            "c": pa.array([random.randrange(500) for _ in range(count)], pa.int32()),
        }
    )


def everything(mill: viewmill.Mill) -> dict[str, object]:
    found: dict[str, object] = {name: Counter(mill.read(name)) for name in mill.views}
    found["version"] = mill.version
    return found


def made() -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(TABLES)
    for name, query in VIEWS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return mill


class Visitors:
    """Come at each pause, and look at everything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mill: viewmill.Mill | None = None
        self.before: dict[str, object] = {}
        self.visits = self.in_the_middle = 0
        self.wrong: list[str] = []
        self.every = 1
        self.pauses = 0
        monkeypatch.setattr(Gate, "pause", lambda gate: self.visit(gate))

    def visit(self, gate: Gate) -> None:
        self.pauses += 1
        if self.mill is None or not self.before or self.pauses % self.every or not gate._is_held:
            return
        with gate.opened():
            self.visits += 1
            fast = self.mill._engine._fast
            self.in_the_middle += fast is not None and any(
                len(pool.changes()[0]) for group in fast._dirty.values() for pool in group.pools
            )
            seen = everything(self.mill)
            self.wrong += [name for name, rows in self.before.items() if seen[name] != rows]
            counted = self.mill.sql("SELECT count(*) AS n FROM r")
            if counted.to_dicts() != self.counted:
                self.wrong.append("r")
        gate._words[WAITING] = 1

    @contextmanager
    def coming(self, *, every: int = 1, twin: viewmill.Mill | None = None) -> Iterator[None]:
        """Every so many pauses. They expect what is now in the mill, or in its twin."""
        assert self.mill is not None
        self.counted = self.mill.sql("SELECT count(*) AS n FROM r").to_dicts()
        self.before, self.every, self.pauses = everything(twin or self.mill), every, 0
        self.mill._gate._words[WAITING] = 1
        try:
            yield
        finally:
            self.before = {}
            self.mill._gate._words[WAITING] = 0
        assert not self.wrong


@pytest.fixture
def visitors(monkeypatch: pytest.MonkeyPatch) -> Visitors:
    visitors = Visitors(monkeypatch)
    visitors.mill = made()
    return visitors


def _raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


Handle: TypeAlias = Callable[[Callable[..., None]], None]


@pytest.fixture
def sigint() -> Iterator[Handle]:
    """Sets a handler, until the test is over."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_visitors_find_what_was_before(visitors: Visitors) -> None:
    mill, random = visitors.mill, Random(7)
    assert mill is not None
    rows = rows_of(random, range(3_000))
    with visitors.coming():  # while everything is compiled
        mill.insert("r", rows)
    first = columns_of(random, 12_000)
    with visitors.coming():
        mill.insert("t", first)
    assert visitors.in_the_middle
    middle = visitors.in_the_middle
    with visitors.coming(every=3), mill.batch() as batch:
        batch.update("r", [(*row[:3], "new", row[4]) for row in rows[:500]])
        batch.insert("r", rows_of(random, range(3_000, 6_000)))
        batch.delete("r", [{"id": i} for i in range(1_000, 1_500)])
        batch.delete("t", first.slice(0, 9_000))
        batch.insert("t", columns_of(random, 5_000))
    assert visitors.in_the_middle > middle
    assert all(mill.verify(name, by="engine") for name in ("grouped", "extreme", "plain", "least"))
    with visitors.coming(every=3):
        mill.overwrite("r", rows_of(random, range(500)))


@pytest.mark.slow
def test_visitors_of_a_view_that_nobody_has_read_before(visitors: Visitors) -> None:
    """Code for reading it, and the indexes that this needs, are made while its stores are changing."""
    mill, twin, random = visitors.mill, made(), Random(8)
    assert mill is not None
    rows, columns = rows_of(random, range(3_000)), columns_of(random, 9_000)
    more, others = rows_of(random, range(3_000, 9_000)), columns_of(random, 9_000)
    for one in (mill, twin):
        one.insert("r", rows)
        one.insert("t", columns)
    assert mill._engine._fast is not None
    indexes = {name: (pool.slices, pool.orders) for name, pool in mill._engine._fast._pools.items()}
    with visitors.coming(twin=twin), mill.batch() as batch:
        batch.insert("r", more)
        batch.delete("r", [{"id": i} for i in range(2_000)])
        batch.insert("t", others)
    assert indexes != {name: (pool.slices, pool.orders) for name, pool in mill._engine._fast._pools.items()}
    with twin.batch() as batch:
        batch.insert("r", more)
        batch.delete("r", [{"id": i} for i in range(2_000)])
        batch.insert("t", others)
    for change in (lambda one: one.insert("t", columns), lambda one: one.delete("r", more[::2])):
        change(mill)
        change(twin)
        assert everything(mill) == everything(twin)


@pytest.mark.slow
def test_visitors_of_a_batch_that_is_refused(visitors: Visitors) -> None:
    mill, random = visitors.mill, Random(9)
    assert mill is not None
    mill.insert("r", rows_of(random, range(3_000)))
    mill.sql("CREATE MATERIALIZED VIEW quotient AS SELECT a, 1 div min(c) AS q FROM t GROUP BY a")
    mill.insert("t", pa.table({"a": pa.array([1], pa.int32()), "c": pa.array([1], pa.int32())}))
    before = everything(mill)
    bad = pa.table({"a": pa.array([1] * 9_000, pa.int32()), "c": pa.array([2] * 8_999 + [0], pa.int32())})
    with visitors.coming(every=5), pytest.raises(viewmill.ViewmillError, match="zero"):
        mill.insert("t", bad)
    assert everything(mill) == before


def test_visitors_of_what_is_interpreted(visitors: Visitors) -> None:
    mill, random = visitors.mill, Random(10)
    assert mill is not None
    with visitors.coming():
        mill.insert("r", rows_of(random, range(400)))
    with visitors.coming(), mill.batch() as batch:
        batch.insert("t", columns_of(random, 300))
        batch.delete("r", [{"id": i} for i in range(100)])
    assert visitors.visits and not mill._engine.is_compiled


def test_visitors_while_a_view_is_made(visitors: Visitors) -> None:
    mill, random = visitors.mill, Random(11)
    assert mill is not None
    mill.insert("r", rows_of(random, range(2_000)))
    with visitors.coming():
        mill.sql("CREATE MATERIALIZED VIEW later AS SELECT id % 977 AS k, max(x - a) AS x FROM r GROUP BY id % 977")
    assert visitors.visits


def test_interrupted_while_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that is interrupted in the middle of compiled code ends the batch, of which nothing is left."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT, c INT) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a, sum(c) AS c FROM t GROUP BY a")
    random = Random(12)
    mill.insert("t", columns_of(random, 2_000))

    def interrupt(gate: Gate) -> None:
        if gate._words[WAITING]:
            gate._words[WAITING] = 0
            raise KeyboardInterrupt

    monkeypatch.setattr(Gate, "pause", interrupt)
    for change in (lambda: mill.insert("t", columns_of(random, 9_000)), lambda: _in_a_batch(mill, random)):
        before = everything(mill)
        mill._gate._words[WAITING] = 1
        with pytest.raises(KeyboardInterrupt):
            change()
        assert everything(mill) == before
    mill.insert("t", columns_of(random, 9_000))
    assert mill.version == 2


def _in_a_batch(mill: viewmill.Mill, random: Random) -> None:
    with mill.batch() as batch:
        batch.insert("t", columns_of(random, 9_000))


def test_a_reader_who_is_interrupted_leaves_the_batch_alone(monkeypatch: pytest.MonkeyPatch, sigint: Handle) -> None:
    """Ctrl-C comes while a reader has the old weights in place, in the middle of somebody else's batch."""
    sigint(signal.default_int_handler)
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT, c INT) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a, sum(c) AS c FROM t GROUP BY a")
    random, came = Random(13), []
    first, second = columns_of(random, 9_000), columns_of(random, 9_000)
    mill.insert("t", first)
    swap = run.swap_weights

    def interrupted(pools: Group) -> None:
        swap(pools)
        if pools and not came:
            came.append(True)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(run, "swap_weights", interrupted)

    def read(gate: Gate) -> None:
        if gate._is_held and not came:
            with gate.opened(), suppress(KeyboardInterrupt):
                mill.read("v")
            gate._words[WAITING] = 1

    monkeypatch.setattr(Gate, "pause", read)
    mill._gate._words[WAITING] = 1
    mill.insert("t", second)
    assert came
    expected = Counter[int]()
    for one in (first, second):
        for a, c in zip(one["a"].to_pylist(), one["c"].to_pylist(), strict=True):
            expected[a] += c
    assert dict(mill.read("v").rows) == dict(expected)


def test_a_batch_that_begins_while_tables_change_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seen some of their rows."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (id INT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    commit, begun = BaseTable.commit, []

    def half(table: BaseTable, changes: dict[tuple[object, ...], int]) -> None:
        some = dict(list(changes.items())[:1])
        commit(table, some)
        if not begun:
            begun.append(mill.batch())
            begun[0].overwrite("t", [(7,)])
        commit(table, {row: weight for row, weight in changes.items() if row not in some})

    monkeypatch.setattr(BaseTable, "commit", half)
    mill.insert("t", [(1,), (2,), (3,)])
    with pytest.raises(viewmill.DataError, match="changed while this batch was open"), begun[0]:
        pass
    assert list(mill.read("v")) == [(3,)]


def test_making_a_view_beside_a_reader_who_makes_strings() -> None:
    """Both enter texts into the dictionary."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE r (s STRING, t STRING)")
    mill.sql("CREATE MATERIALIZED VIEW a AS SELECT s, upper(s) AS u, count(*) AS n FROM r GROUP BY s")
    mill.insert("r", pa.table({"s": [f"s{i}" for i in range(30_000)], "t": [f"t{i}" for i in range(30_000)]}))
    over = threading.Event()

    def make() -> None:
        try:
            for name in "bcd":
                mill.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT concat(t, '{name}') AS t, s FROM r")
        finally:
            over.set()

    def read() -> None:
        while not over.is_set():
            assert all(row[1] == row[0].upper() for row in mill.read("a"))

    _together(make, read)
    assert {row[0] for row in mill.read("d")} == {f"t{i}d" for i in range(30_000)}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # which is what ctypes makes of it
@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.08, 0.12])
@pytest.mark.parametrize("handler", [signal.default_int_handler, _raise_interrupt], ids=["python", "own"])
def test_interrupted_while_pools_grow(seconds: float, handler: Callable[..., None], sigint: Handle) -> None:
    """Python may raise it in a callback of compiled code, before its first step. It is not lost, nor half done.

    Others have handlers of their own, Spark for one.
    """
    sigint(handler)
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT, c INT) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a, sum(c) AS c FROM t GROUP BY a")

    def rows(count: int) -> pa.Table:
        return pa.table({"a": pa.array(range(count), pa.int32()), "c": pa.array([1] * count, pa.int32())})

    mill.insert("t", rows(2_000))
    many, timer = rows(500_000), threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        mill.insert("t", many)
        timer.join()
        time.sleep(5)
    expected = 500_000 if mill.version == 2 else 2_000
    assert len(mill.view("v")) == expected
    mill.insert("t", rows(10))
    assert len(mill.view("v")) == expected


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # which is what ctypes makes of it
def test_interrupted_while_a_function_of_strings_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also there Python may raise it before the first step, and what compiled code gets back means nothing."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (s STRING) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT upper(s) AS s, count(*) AS n FROM t GROUP BY upper(s)")
    mill.insert("t", pa.table({"s": [f"s{i}" for i in range(2_000)]}))
    before, miss, came = everything(mill), StringTable.miss, []

    def interrupted(table: StringTable, code: int) -> int:
        if not came:
            came.append(code)
            raise KeyboardInterrupt
        return miss(table, code)

    monkeypatch.setattr(StringTable, "cover", lambda table, codes: None)
    monkeypatch.setattr(StringTable, "miss", interrupted)
    more = pa.table({"s": [f"t{i}" for i in range(3_000)]})
    with pytest.raises(KeyboardInterrupt):
        mill.insert("t", more)
    assert came
    assert everything(mill) == before
    mill.insert("t", more)
    assert {row[0] for row in mill.read("v")} == {f"S{i}" for i in range(2_000)} | {f"T{i}" for i in range(3_000)}


def test_a_writer_who_is_interrupted_on_the_way_back_has_the_gate(sigint: Handle) -> None:
    """Ctrl-C comes while it waits for a reader. It hears of that when the gate is its own again."""
    sigint(signal.default_int_handler)
    gate, inside, leave = Gate(), threading.Event(), threading.Event()

    def read() -> None:
        with gate.reading():
            inside.set()
            leave.wait(10)

    reader = threading.Thread(target=read, daemon=True)
    timers = [threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]), threading.Timer(0.4, leave.set)]
    with gate.lock, gate.writing():
        with pytest.raises(KeyboardInterrupt), gate.opened():
            reader.start()
            assert inside.wait(10)
            for timer in timers:
                timer.start()
        assert leave.is_set()
        assert gate._is_held and not gate.is_opened
        taken = []
        other = threading.Thread(target=lambda: taken.append(gate.lock.acquire(blocking=False)))
        other.start()
        other.join()
        assert taken == [False]
    reader.join(10)
    assert gate.lock.acquire(blocking=False)


# --- threads


def _together(*work: Callable[[], None], seconds: float = 60) -> None:
    failures: list[BaseException] = []

    def tried(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=tried, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    if failures:
        raise failures[0]


def test_readers_beside_a_writer() -> None:
    """Money moves from account to account: whenever somebody looks, all of it is there."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE moves (account INT, amount BIGINT) WITH (stored = false)")
    mill.sql("CREATE TABLE kept (id INT PRIMARY KEY, amount BIGINT)")
    mill.sql("CREATE MATERIALIZED VIEW accounts AS SELECT account, sum(amount) AS held FROM moves GROUP BY account")
    mill.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(amount) AS amount FROM kept")
    mill.insert("moves", [(account, 100) for account in range(1_500)])
    mill.insert("kept", [(0, 0)])
    over = threading.Event()

    def write() -> None:
        random = Random(1)
        try:
            for i in range(1, 16):
                amounts = [random.randrange(50) for _ in range(15_000)]
                accounts = [random.randrange(1_500) for _ in range(30_000)]
                rows = pa.table(
                    {
                        "account": pa.array(accounts, pa.int32()),
                        "amount": pa.array([*amounts, *(-amount for amount in amounts)], pa.int64()),
                    }
                )
                mill.insert("moves", rows)
                mill.insert("kept", [(i * 1_000 + j, 1) for j in range(500)])
                mill.update("kept", [(0, -i * 500)])
        finally:
            over.set()

    def single() -> None:
        while not over.is_set():
            mill.insert("moves", [(3, 0)])

    def read() -> None:
        version = 0
        while not over.is_set():
            result = mill.view("accounts").read()
            assert result.version >= version
            version = result.version
            assert sum(row[1] for row in result) == 150_000
            assert sum(mill.view("accounts").to_arrow()["held"].to_pylist()) == 150_000

    def select() -> None:
        while not over.is_set():
            both = mill.sql("SELECT (SELECT sum(amount) FROM kept) - (SELECT sum(amount) FROM total) AS differ")
            assert list(both) == [(0,)]

    _together(write, single, read, read, select)
    assert mill.verify("total")


def test_writers_are_not_kept_out_by_readers() -> None:
    gate, done = Gate(), threading.Event()
    turns = 0

    def write() -> None:
        nonlocal turns
        try:
            with gate.lock, gate.writing():
                end = time.monotonic() + 20
                while turns < 5 and time.monotonic() < end:
                    before = gate._left
                    gate.pause()
                    turns += gate._left != before
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            with gate.reading():
                time.sleep(0.001)

    _together(write, read, read, read)
    assert turns == 5
