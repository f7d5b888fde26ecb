"""How fast record pools are: rows merged and looked up per second, nanoseconds for one row, and bytes per group.

    python benchmarks/pools.py [--groups 1500000] [--rows 6000000]

Rows have random keys among the groups. They are emitted and merged by compiled code, as in a trigger, in batches of
10,000. Every answer is compared with NumPy's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from viewmill.engines.local.layout import (
    BEGIN,
    EMITTED,
    GROW,
    GROW_OUT,
    MERGE,
    NEEDED,
    OUT,
    OUT_LIMIT,
    POOL,
    WEIGHTS,
)
from viewmill.engines.local.libraries import Library
from viewmill.engines.local.lookup import find
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.raw import call, peek, poke

BATCH = 10_000


LOOPS = Library("benchmark", kept=False)


@LOOPS.export
def feed(block: Any, rows: Any, stride: Any, total: Any, batch: Any) -> Any:
    """Begin a batch, emit its rows, merge them, and so on."""
    flags = 0
    for start in range(0, total, batch):
        count = min(batch, total - start)
        flags |= call(peek(block, BEGIN), block, 0)
        if count > peek(block, OUT_LIMIT):
            poke(block, NEEDED, count)
            flags |= call(peek(block, GROW), peek(block, POOL), GROW_OUT)
        out = peek(block, OUT)
        for word in range(count * stride):
            poke(out, word, peek(rows, start * stride + word))
        poke(block, EMITTED, count)
        flags |= call(peek(block, MERGE), block, 0)
    return flags


@LOOPS.export
def find_2(block: Any, rows: Any, stride: Any, total: Any) -> Any:
    """A loop of look-ups as generated code has it, one row after the other."""
    found, lanes = 0, stride - 2
    for row in range(total):
        record = find(block, (peek(rows, row * stride), peek(rows, row * stride + 1)))
        if record >= 0:
            found += peek(peek(block, WEIGHTS), record * lanes)
    return found


def merge_all(pool: Pool, rows: np.ndarray, batch: int = BATCH) -> None:
    assert feed(pool.address, rows.ctypes.data, rows.shape[1], len(rows), batch) == 0


def timed(action: Callable[[], object]) -> float:
    """Seconds of this thread: other programs cost it time, but that is not counted."""
    start = time.thread_time()
    action()
    return time.thread_time() - start


def spread(values: np.ndarray, width: int, weights: np.ndarray, lanes: int) -> np.ndarray:
    """Rows with keys that differ as the values do, in the first column and the others."""
    keys = [values * 7 + column for column in range(width)]
    return np.ascontiguousarray(np.stack([*keys, *[weights] * lanes], axis=1))


def measure(
    table: Table, groups: int, rows: int, width: int, lanes: int = 1, slices: tuple[tuple[int, ...], ...] = ()
) -> None:
    random = np.random.default_rng(1)
    values, weights = random.integers(0, groups, rows), random.integers(1, 100, rows)
    given = spread(values, width, weights, lanes)
    pool = Pool(width, (False,) * lanes, slices)
    merge_all(pool, given[:0])  # compiles
    all_groups = spread(np.arange(groups), width, np.ones(groups, np.int64), lanes)
    build = timed(lambda: merge_all(pool, all_groups))
    merge = timed(lambda: merge_all(pool, given))
    keys = np.ascontiguousarray(given[:, :width])
    pool.weights_of(keys)  # so that the system's page faults are not measured
    look = timed(lambda: pool.weights_of(keys))
    expected = np.bincount(values, weights, groups).astype(np.int64)[values] + 1
    assert np.array_equal(pool.weights_of(keys), np.stack([expected] * lanes, axis=1)), "the pool gives a wrong answer"
    loop = 0.0
    if width == 2:
        assert find_2(pool.address, given.ctypes.data, given.shape[1], 0) == 0
        loop = timed(lambda: find_2(pool.address, given.ctypes.data, given.shape[1], rows))
    nbytes = pool.nbytes
    few = given[:BATCH].copy()
    single = timed(lambda: merge_all(pool, few, 1))
    merge_all(pool, spread(values[:BATCH], width, -weights[:BATCH], lanes))
    few[:, width:] = -pool.weights_of(keys[:BATCH])
    remove = timed(lambda: (merge_all(pool, few), pool.begin()))
    counts = (groups, build), (rows, merge), (rows, look), (rows, loop), (BATCH, remove)
    speeds = [f"{n / seconds / 1e6:.1f}" if seconds else "" for n, seconds in counts]
    row = [f"{groups:,}", str(width), str(lanes), str(len(slices)), *speeds]
    table.add_row(*row, f"{single / BATCH * 1e9:.0f}", f"{nbytes / groups:.0f}")


def main(groups: Annotated[int, typer.Option()] = 1_500_000, rows: Annotated[int, typer.Option()] = 6_000_000) -> None:
    table = Table("groups", "width", "lanes", "slices", title="record pools, million rows per second")
    for name in ("insert", "upsert", "look up", "loop of finds", "remove", "one row, ns", "bytes"):
        table.add_column(name, justify="right")
    measure(table, groups, rows, 1)
    measure(table, groups, rows, 2)
    measure(table, groups, rows, 3)
    measure(table, groups, rows, 5)
    measure(table, groups, rows, 2, lanes=4)
    measure(table, groups, rows, 2, slices=((0,),))
    measure(table, 4, rows, 2)
    measure(table, 4, rows, 2, lanes=8)
    measure(table, 1000, rows, 1)
    Console(width=140).print(table)


if __name__ == "__main__":
    typer.run(main)
