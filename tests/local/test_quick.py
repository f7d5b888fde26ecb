"""What may go wrong on the quick way: it is undone, told, and nothing that it works on is gone."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

import viewmill
from viewmill.engines.local import engine, pools, run
from viewmill.errors import DataError


@pytest.fixture
def mill(monkeypatch) -> viewmill.Mill:
    monkeypatch.setattr(engine, "COMPILE_AFTER", -1)
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (k BIGINT NOT NULL, s DECIMAL(18, 0) NOT NULL, x INT NOT NULL) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(s) AS n FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT 100 div sum(x) AS q FROM t")
    mill.insert("t", rows([1]))
    mill.insert("t", rows([1]))
    return mill


def rows(keys: list[int], value: int = 1) -> pa.RecordBatch:
    numbers = pa.array([Decimal(value)] * len(keys), pa.decimal128(18, 0))
    return pa.record_batch({"k": keys, "s": numbers, "x": pa.array([min(value, 1)] * len(keys), pa.int32())})


def contents(mill: viewmill.Mill) -> tuple[object, ...]:
    return sorted(mill.view("v")), list(mill.view("w")), mill.version


class Interrupted:
    """A call that somebody interrupts: signals are told to Python when a compiled call is over, or just before it."""

    def __init__(self, *, after: bool) -> None:
        self._after = after
        self.brief = run.run_request.brief

    def __call__(self, *words: int) -> int:
        if self._after:
            run.run_request_(*words)
        raise KeyboardInterrupt


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("value", [1, -1], ids=["good", "refused"])  # the sum of all is then 0
def test_an_interrupted_batch_leaves_no_trace(mill, monkeypatch, after, value):
    before = contents(mill)
    monkeypatch.setattr(run, "run_request_", run.run_request, raising=False)
    monkeypatch.setattr(run, "run_request", Interrupted(after=after))
    with pytest.raises(KeyboardInterrupt):
        mill.insert("t", rows([1, 1], value))
    monkeypatch.undo()
    assert contents(mill) == before
    with pytest.raises(DataError, match="zero"):
        mill.insert("t", rows([1, 1], -1))
    assert contents(mill) == before
    mill.insert("t", rows([7]))
    assert sorted(mill.view("v")) == [(1, 2), (7, 1)]


def test_a_store_that_cannot_grow_says_so_once(mill, monkeypatch):
    grow, armed = pools.Pool._grow_records, [MemoryError("no more")]

    def fails_once(self, number):
        if armed:
            raise armed.pop()
        return grow(self, number)

    before = contents(mill)
    monkeypatch.setattr(pools.Pool, "_grow_records", fails_once)
    with pytest.raises(MemoryError, match="no more"):
        mill.insert("t", rows(list(range(5000))))
    assert contents(mill) == before
    mill.insert("t", rows([1] * 20, 10**18 - 1))  # more than 64 bits: what failed before has nothing to do with it
    assert sorted(mill.view("v")) == [(1, 20 * (10**18 - 1) + 2)]


def test_what_the_last_batch_changed_is_there_when_the_next_one_ends_it():
    """The last one was interpreted, since a number on the way had more than 64 bits. In another process: it crashed."""
    code = """
import numpy as np, viewmill, viewmill.engines.local.engine as engine
engine.COMPILE_AFTER = -1
mill = viewmill.connect()
mill.sql("CREATE TABLE t (a BIGINT NOT NULL, b BIGINT NOT NULL)")
mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t "
         "WHERE cast(b AS DECIMAL(19,0)) * cast(b AS DECIMAL(19,0)) > 0 GROUP BY a")
for b in (1, 2, 2**62):
    mill.insert("t", [(1, b)])
for _ in range(20):
    small = [np.zeros(1, np.int64) for _ in range(50)]
    del small
    mill.insert("t", [(1, 2**62)])
    mill.insert("t", [(1, 3)])
print(list(mill.view("v")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("[(1, 43)]", 0), done.stderr


def test_two_threads_find_that_there_is_no_quick_way(monkeypatch):
    """Both looked it up before either has called it."""
    monkeypatch.setattr(engine, "COMPILE_AFTER", -1)
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT, x BIGINT) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a, sum(x) AS x FROM t GROUP BY a")
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT sum(x) AS x FROM v")
    mill.insert("t", [(1, 1), (2, 1)])
    monkeypatch.setattr(type(mill._engine), "quick", lambda self, table: None)
    first = second = mill._quick["t"]
    assert not first([(1, 0)], 1)
    assert not second([(1, 0)], 1)
    mill.insert("t", [(1, 5)])
    assert list(mill.view("over")) == [(7,)]
