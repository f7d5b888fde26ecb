"""A driver that dies at a commit when it is told to: just before the commit file is there, or just after.

    mortal(folder, diary)                      # the driver, before it connects
    tell(folder, "before", version=7)          # anybody: it will not commit version 7, nor anything after

It does so once: the driver after it lives.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Literal

from diary import Diary

from viewmill.durable.history import Commit, History

Moment = Literal["before", "after"]


def tell(folder: Path, moment: Moment, *, version: int = 0) -> None:
    """Die at the next commit of this version or a later one."""
    draft = folder / "death.draft"
    draft.write_text(json.dumps([moment, version]))
    draft.replace(folder / "death")


def mortal(folder: Path, diary: Diary) -> None:
    """From here on, commits of this process look whether it is to die."""
    write = History.commit

    def commit(self: History, what: Commit) -> None:
        if _is_told(folder, "before", what):
            _die(diary, "before", what, self.newest())
        write(self, what)
        if _is_told(folder, "after", what):
            _die(diary, "after", what, self.newest())

    History.commit = commit  # type: ignore[method-assign]


def _is_told(folder: Path, moment: Moment, what: Commit) -> bool:
    order = folder / "death"
    if not order.exists():
        return False
    told, version = json.loads(order.read_text())
    if told != moment or what.version < version:
        return False
    order.unlink()  # whoever is started next lives
    return True


def _die(diary: Diary, moment: Moment, what: Commit, newest: Commit | None) -> None:
    diary.write("dies", moment=moment, version=what.version, leaves=newest.version if newest else 0)
    os.kill(os.getpid(), signal.SIGKILL)
