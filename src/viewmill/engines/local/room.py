"""How much more a file may take that is memory.

Memory runs out in another way than a disk: nothing fails, but the system ends some process. So a part of it is left to
others, and who wants more is told that there is no room, as by a disk that is full.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_LEFT_TO_OTHERS = 8  # an eighth of all memory
_GROUP = Path("/sys/fs/cgroup")  # as a container sees its own limits


def is_memory(path: Path) -> bool:
    """Whether files there are memory."""
    try:
        return _is_memory(path.stat().st_dev)
    except OSError:
        return False


@lru_cache(maxsize=64)
def _is_memory(device: int) -> bool:
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for mount in _text(Path("/proc/self/mountinfo")).splitlines():
        place, _, kind = mount.partition(" - ")
        if place.split()[2:3] == [wanted]:
            return kind.split()[0] in ("tmpfs", "ramfs")
    return False


def free_memory(folder: Path) -> int:
    """Bytes that files in a folder may grow by; not more than 0 if there is no room, or nobody can tell."""
    told = {line.split(":")[0]: line.split()[1] for line in _text(Path("/proc/meminfo")).splitlines()}
    if "MemAvailable" not in told:
        return 0
    total, free = 1024 * int(told["MemTotal"]), 1024 * int(told["MemAvailable"])
    limit = _text(_GROUP / "memory.max").strip()
    if limit.isdigit():
        total, free = min(total, int(limit)), min(free, int(limit) - _used_by_group())
    there = os.statvfs(folder)
    return min(free, there.f_bavail * there.f_frsize) - total // _LEFT_TO_OTHERS


def _used_by_group() -> int:
    """Without pages that the system would give up for others."""
    used = _text(_GROUP / "memory.current").strip()
    told = dict(line.split(maxsplit=1) for line in _text(_GROUP / "memory.stat").splitlines())
    return int(used or 0) - int(told.get("inactive_file", 0))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
