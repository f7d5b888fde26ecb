"""What is kept between processes is found again, and made again if it is not what it should be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import viewmill
from viewmill import cache
from viewmill.definitions import Definitions
from viewmill.numbers import as_column, flags, numbers


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "WORTH_IT", 0.0)
    return tmp_path / "kernels"


def test_something_is_made_once(folder: Path) -> None:
    made = []

    def make() -> list[int]:
        made.append(1)
        return [1, 2, 3]

    for _ in range(2):
        assert cache.remembered("thing", ("from", 1), list, make) == [1, 2, 3]
    assert len(made) == 1
    cache.remembered("thing", ("from", 2), list, make)
    assert len(made) == 2
    for file in folder.iterdir():
        file.write_bytes(b"cut")
    assert cache.remembered("thing", ("from", 1), list, make) == [1, 2, 3]
    assert len(made) == 3
    assert cache.remembered("thing", ("from", 1), dict, dict) == {}  # something else is not taken for it


def test_a_program_is_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "CREATE TABLE t (a INT, b INT); CREATE MATERIALIZED VIEW v AS SELECT a, sum(b) AS s FROM t GROUP BY a"
    first = viewmill.connect()
    first.sql(sql)
    monkeypatch.setattr("viewmill.definitions.add_view", None)
    second = viewmill.connect()
    second.sql(sql)
    second.insert("t", [(1, 2), (1, 3)])
    assert list(second.view("v")) == [(1, 5)]
    assert first.explain("v") == second.explain("v")
    assert isinstance(second._definitions, Definitions)


def test_a_first_batch_does_not_wait_for_pandas(tmp_path: Path) -> None:
    rows = pa.table({"a": range(2000), "s": [str(i % 40) for i in range(2000)], "u": [f"u{i}" for i in range(2000)]})
    with pa.OSFile(str(tmp_path / "rows"), "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows)
    code = """
import sys, viewmill, pyarrow as pa
mill = viewmill.connect()
mill.sql("CREATE TABLE t (a BIGINT, s STRING, u STRING) WITH (stored = false)")
mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t WHERE (s LIKE '%7%' OR u LIKE '%7%') AND a > 3")
mill.insert("t", pa.ipc.open_file(sys.argv[1]).read_all())
print(mill.view("v").read().rows[0][0], "pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "rows")], capture_output=True, text=True, check=True
    )
    expected = sum("7" in str(i % 40) or "7" in str(i) for i in range(4, 2000))
    assert done.stdout.split() == [str(expected), "False"]


def test_numbers_are_those_of_the_column() -> None:
    column = pa.array([5, 6, 7, 8], pa.int32())
    assert numbers(column.slice(1, 2)).tolist() == [6, 7]
    assert numbers(pa.chunked_array([[1], [2, 3]], pa.int64())).tolist() == [1, 2, 3]
    assert numbers(pa.chunked_array([], pa.int64())).tolist() == []
    assert numbers(pa.array([1.5], pa.float64())).dtype == np.float64
    assert flags(pa.array([True, False, True]).slice(1)).tolist() == [False, True]
    with pytest.raises(ValueError, match="1 NULLs"):
        numbers(pa.array([1, None]))


def test_columns_are_those_numbers() -> None:
    for values in (np.arange(10)[::3], np.empty(0, np.int32), np.array([1.5]), np.array([True, False] * 9)):
        column = as_column(values)
        column.validate(full=True)
        assert column.to_pylist() == values.tolist()
    assert as_column(np.array([1], np.int32)).type == pa.int32()


def test_the_first_view_on_a_machine_has_libraries_compiled(tmp_path: Path) -> None:
    """By another thread: what it makes is on disk when the process ends, and the next one has no such thread."""
    code = """
import threading, viewmill
mill = viewmill.connect()
mill.sql("CREATE TABLE t (a BIGINT)")
mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
started = [thread for thread in threading.enumerate() if thread.name == "viewmill-warm-up"]
for thread in started:
    thread.join()
print(len(started))
"""
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "VIEWMILL_CACHE": str(tmp_path)},
        )
        told.append(done.stdout.strip() + done.stderr)
    assert told == ["1", "0"]
    kept = {file.name.split("-")[0] for file in (tmp_path / "kernels").iterdir()}
    assert {"pools", "columns", "strings", "triggers"} <= kept


def test_nothing_is_compiled_ahead_where_nothing_can_be_kept() -> None:
    code = """
import threading, viewmill
mill = viewmill.connect()
mill.sql("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
print(threading.active_count())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "VIEWMILL_CACHE": "/dev/null/x"},
    )
    assert done.stdout.strip() == "1", done.stderr


def test_a_process_that_forks_meanwhile_waits(tmp_path: Path) -> None:
    code = """
import os, time, viewmill, viewmill.engines.local.engine as engine
engine.COMPILE_AFTER = -1
mill = viewmill.connect()
mill.sql("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
time.sleep(0.3)  # the compiler is in the middle of something
child = os.fork()
mill.insert("t", [(1,)])
os.write(1, f"{list(mill.view('v'))}\\n".encode())  # in one piece: both have the same pipe
if child:
    os.waitpid(child, 0)
"""
    environment = {**os.environ, "VIEWMILL_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout.split("\n") == ["[(1,)]", "[(1,)]", ""], done.stderr
