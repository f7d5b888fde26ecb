"""Python workers between tasks.

Spark keeps a worker for the next task, and has it collect garbage after each: all of its objects are looked at, most of
them belonging to modules. What is there for good is therefore put aside (`gc.freeze`): a task that has nothing to do
took 50 to 100 ms of processor time in Python without this, and takes 2 to 3 with it.
"""

from __future__ import annotations

import gc

_tasks = 0


def settle() -> None:
    """To be called at the end of a task. What is alive after tasks 1, 2, 4, 8, ... is taken to be there for good.

    Rarely enough, since garbage that is put aside along with it stays; and again and again, since what a worker keeps
    grows with what it is asked to do.
    """
    global _tasks
    _tasks += 1
    if _tasks & (_tasks - 1) == 0:
        gc.freeze()
