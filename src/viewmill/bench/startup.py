"""First use: how long CREATE and the first batch take in a new process, with nothing cached and with everything.

A new process gets an empty cache directory (`VIEWMILL_CACHE`), and others then find it filled: three of them, of which
the median counts, since a fifth of a second is easily doubled by what else a machine does. The first batch has
thousands of rows for every relation that the query reads, so that every trigger is needed, and an engine that
interprets what is small has to show how long it takes to compile. Importing the package is not counted; what it puts
off until it is used is.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from viewmill.bench.data import load
from viewmill.bench.measure import create_and_insert, told
from viewmill.bench.process import SHARE, TooLarge, spawned
from viewmill.bench.queries import Query
from viewmill.bench.results import FirstUse

_WARM = 3


def first_use(query: Query, strategy: str, folder: Path, limit: float) -> FirstUse:
    with TemporaryDirectory() as cache:
        found = [_in_new_process(query, strategy, folder, cache, limit) for _ in range(1 + _WARM)]
    notes = [why for why in found if isinstance(why, str)]
    if notes:
        return FirstUse(query.name, 0.0, 0.0, notes[0])
    cold, *warm = (float(seconds) for seconds in found)
    return FirstUse(query.name, cold, median(warm))


def _in_new_process(query: Query, strategy: str, folder: Path, cache: str, limit: float) -> float | str:
    """Seconds, or why there are none."""
    with spawned(_serve, query, strategy, folder, cache) as process:
        try:
            answer: float | str = process.recv() if process.poll(limit) else f"not done in {limit:g} s"
        except TooLarge:
            return f"not done in {SHARE:.0%} of the memory"
        except EOFError:
            return "the process died"
    return answer


def _serve(query: Query, strategy: str, folder: Path, cache: str, connection: Connection) -> None:
    """In the new process."""
    os.environ["VIEWMILL_CACHE"] = cache
    try:
        connection.send(create_and_insert(query, strategy, load(folder, query.reads)))
    except Exception as error:  # whatever it is, it is the result
        connection.send(told(error))
