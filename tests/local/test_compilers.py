"""Functions compiled by other processes are those that this one would have compiled, and it can do without."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from viewmill.cache import directory
from viewmill.engines.local import compilers, generated
from viewmill.engines.local.compilers import compile_all
from viewmill.engines.local.generated import compiled
from viewmill.engines.local.libraries import Library
from viewmill.engines.local.locks import Lock


def source(number: int) -> str:
    return f"def run(env, batch, rows, flags):\n    return rows * {number} + env\n"


@pytest.fixture(autouse=True)
def nothing_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path))
    monkeypatch.setattr(compilers, "_LONG", 0)
    generated.compiled.cache_clear()
    yield
    generated.compiled.cache_clear()


def right(numbers: range) -> bool:
    return all(compiled(source(number))(5, 0, 7, 0) == 7 * number + 5 for number in numbers)


def test_another_process_compiles_and_this_one_runs(tmp_path, monkeypatch):
    """This one takes nothing from the queue, and waits until it is empty."""

    def wait(waiting, functions):
        while waiting:
            time.sleep(0.01)

    monkeypatch.setattr(compilers, "_compile", wait)
    monkeypatch.setattr(compilers, "_how_many", lambda sources: 1)
    monkeypatch.setattr(compilers, "_THREADS", 1)
    given = []
    give = Library.give
    monkeypatch.setattr(Library, "give", lambda self, code: given.append(code) or give(self, code))
    compile_all([source(number) for number in range(10)])
    assert len(given) == 10
    monkeypatch.setattr(Library, "compiled", lambda self: pytest.fail("it is there"))
    assert right(range(10))
    assert len(list(tmp_path.rglob("code-*.o"))) == 10, "and kept for the next process"


def test_both_compile(monkeypatch):
    monkeypatch.setattr(compilers, "_how_many", lambda sources: 2)
    compile_all([source(number) for number in range(30)])
    monkeypatch.setattr(Library, "compiled", lambda self: pytest.fail("it is there"))
    assert right(range(30))


@pytest.mark.parametrize(
    "start", ["raise SystemExit(3)", "import sys; sys.stdin.buffer.read(1); sys.exit()", "print(1)"]
)
def test_a_process_that_is_of_no_use(monkeypatch, start):
    monkeypatch.setattr(compilers, "_START", start)
    monkeypatch.setattr(compilers, "_how_many", lambda sources: 2)
    compile_all([source(number) for number in range(5)])
    assert right(range(5))


def test_a_process_that_dies_at_its_work(monkeypatch):
    """What it was given is compiled here."""
    dying = (
        "import pickle, sys; pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(pickle.dumps('here')); "
        "sys.stdout.buffer.flush(); pickle.load(sys.stdin.buffer); sys.exit(1)"
    )
    monkeypatch.setattr(compilers, "_START", dying)
    monkeypatch.setattr(compilers, "_how_many", lambda sources: 1)
    monkeypatch.setattr(compilers, "_THREADS", 1)
    compile_all([source(number) for number in range(400, 420)])
    assert right(range(400, 420))


def test_others_are_for_much_work(monkeypatch):
    monkeypatch.setattr(compilers, "_LONG", 1000)
    assert compilers._how_many(["x" * 400] * 2) == 0
    assert compilers._how_many(["x" * 2000]) == 0
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    assert compilers._how_many(["x" * 2000] * 5) == 0
    monkeypatch.setattr(sys, "executable", "")
    assert compilers._how_many(["x" * 2000] * 5) == 0


def test_what_cannot_be_compiled_is_an_error():
    with pytest.raises(Exception, match="no words for"):
        compile_all([source(1), "def run(env, batch, rows, flags):\n    return {}\n"])


def test_no_process_is_left(monkeypatch):
    processes = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: processes.append(popen(*a, **k)) or processes[-1])
    monkeypatch.setattr(compilers, "_how_many", lambda sources: 2)
    compile_all([source(number) for number in range(8)])
    assert len(processes) == 2 and all(process.poll() is not None for process in processes)


def test_one_process_at_a_time_has_others(tmp_path, monkeypatch):
    """Of many workers that compile at once, one asks for help."""
    monkeypatch.setattr(compilers, "_how_many", lambda sources: 1)
    lock = Lock(directory() / "compilers")
    directory().mkdir(parents=True)
    lock.take(0)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("somebody else has help"))
        compile_all([source(number) for number in range(5)])
    lock.drop()
    assert right(range(5))


def test_a_process_that_cannot_be_started(monkeypatch):
    def fail(*given, **named):
        raise OSError("no more processes")

    monkeypatch.setattr(compilers, "_how_many", lambda sources: 2)
    monkeypatch.setattr(subprocess, "Popen", fail)
    compile_all([source(number) for number in range(5)])
    assert right(range(5))
