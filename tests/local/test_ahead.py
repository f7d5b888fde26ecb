"""Machine code that every program needs is made while the first view is compiled, once, and by nobody in vain."""

from __future__ import annotations

import subprocess
import sys

import pytest

import viewmill
from viewmill.cache import directory
from viewmill.engines.local import ahead
from viewmill.engines.local.kernels import POOLS
from viewmill.engines.local.libraries import Library


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ahead, "_process", None)


def library() -> Library:
    """As another process has it."""
    found = Library(ahead.LIBRARY)
    found._exports = POOLS._exports
    return found


def test_the_first_view_starts_it_and_the_first_pool_waits_for_it(monkeypatch):
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT)")
    assert ahead._process is None
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
    assert ahead._process is not None
    monkeypatch.setattr(Library, "compiled", lambda self: pytest.fail("it was compiled by another process"))
    assert library()._object()
    assert ahead._process.poll() == 0


def test_it_is_started_once(monkeypatch):
    ahead.start()
    ahead.wait()
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("it is there"))
    ahead.start()
    monkeypatch.setattr(ahead, "_process", None)  # as for another process
    ahead.start()


def test_it_is_not_started_where_nothing_can_be_kept(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("")
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("in vain"))
    ahead.start()


def test_it_is_not_started_by_what_is_not_python(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("who knows what that does"))
    monkeypatch.setattr(sys, "executable", "/usr/sbin/uwsgi")
    ahead.start()


@pytest.mark.parametrize(
    "start", ["raise SystemExit(1)", "import sys; sys.stdin.close()", "import time; time.sleep(60)"]
)
def test_without_it_the_code_is_compiled_here(monkeypatch, start):
    monkeypatch.setattr(ahead, "_START", start)
    monkeypatch.setattr(ahead, "_PATIENCE", 0.5)
    ahead.start()
    assert library()._object()
    assert any(directory().glob(f"{ahead.LIBRARY}-*.o"))
    if ahead._process is not None:
        ahead._process.kill()
        ahead._process.wait()
