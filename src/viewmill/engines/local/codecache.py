"""Where machine code is kept between processes: `VIEWMILL_CACHE`, else the user's cache directory."""

from __future__ import annotations

import os
from pathlib import Path


def directory() -> Path:
    chosen = os.environ.get("VIEWMILL_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "viewmill"
    return base / "kernels"
