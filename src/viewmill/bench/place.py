"""Where a run is made: the commit, the machine, and the versions of what it runs on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from viewmill.bench.results import Place

_PACKAGES = ("viewmill", "llvmlite", "numpy", "pyarrow", "duckdb")


def here() -> Place:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return Place(_commit(), _machine(), _versions(), date.today().isoformat(), round(load, 2))


def _commit() -> str:
    """The commit measured, with a plus sign where the source has been changed since."""
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{commit}+" if commit != "unknown" and _git("status", "--porcelain", "--", ".") else commit


def _git(*words: str) -> str:
    folder = Path(__file__).parents[1]
    try:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _machine() -> str:
    parts = [_processor(), f"{os.cpu_count()} cores", _memory(), f"{platform.system()} {platform.machine()}"]
    return ", ".join(part for part in parts if part)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    except (ValueError, OSError, AttributeError):
        return ""


def _versions() -> str:
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {_version(name)}" for name in _PACKAGES)])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
