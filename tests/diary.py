"""What a process does, line by line, for another one to follow: also if it is killed in the middle of a line.

    Diary(path).write("begin", batch=3)
    Diary(path).events()                  # [Event(at=..., what="begin", facts={"batch": 3})]

Lines are only ever added, by one writer after another.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    at: float
    what: str
    facts: dict[str, Any]


class Diary:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: list[Event] = []
        self._size = 0

    def write(self, what: str, **facts: object) -> None:
        line = json.dumps([time.time(), what, facts]) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def events(self) -> list[Event]:
        """All that is there by now. Asking costs little as long as nothing is new."""
        if self.path.exists() and self.path.stat().st_size > self._size:
            with self.path.open("rb") as file:
                file.seek(self._size)
                new, end, _ = file.read().rpartition(b"\n")
            self._size += len(new) + len(end)
            self._read += [Event(*json.loads(line)) for line in new.splitlines()]
        return list(self._read)
