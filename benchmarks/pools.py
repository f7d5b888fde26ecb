"""How fast record pools are: rows merged and looked up per second, and bytes per group.

    python benchmarks/pools.py [--groups 1500000] [--rows 6000000]

Rows have random keys among the groups, in batches of 100,000. Every answer is compared with NumPy's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from viewmill.engines.local import kernels
from viewmill.engines.local.pools import Pool

BATCH = 100_000


def merge_all(pool: Pool, keys: np.ndarray, weights: np.ndarray) -> None:
    for start in range(0, len(keys), BATCH):
        pool.begin()
        pool.merge(keys[start : start + BATCH], weights[start : start + BATCH])


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def spread(values: np.ndarray, width: int) -> np.ndarray:
    """Keys of the given width that differ as the values do, in the first column and the others."""
    return np.ascontiguousarray(np.stack([values * 7 + column for column in range(width)], axis=1))


def measure(table: Table, groups: int, rows: int, width: int, slices: tuple[tuple[int, ...], ...]) -> None:
    random = np.random.default_rng(1)
    values = random.integers(0, groups, rows)
    keys, weights = spread(values, width), random.integers(1, 100, rows)
    pool = Pool(width, "int", slices)
    pool.merge(keys[:1], weights[:1] * 0)  # compiles
    pool.weights_of(keys[:1])
    pool.begin()
    pool.reserve(1000)
    build = timed(lambda: merge_all(pool, spread(np.arange(groups), width), np.ones(groups, np.int64)))
    merge = timed(lambda: merge_all(pool, keys, weights))
    found = np.full(rows, -1)  # written, so that the system's page faults are not measured
    look = timed(lambda: kernels.lookup(pool.arrays, keys, found))
    expected = np.bincount(values, weights, groups).astype(np.int64)[values] + 1
    assert np.array_equal(found, expected), "the pool gives a wrong answer"
    nbytes = pool.nbytes
    remove = timed(lambda: (merge_all(pool, keys[:BATCH], -found[:BATCH]), pool.begin()))
    speeds = [
        f"{n / seconds / 1e6:.1f}" for n, seconds in ((groups, build), (rows, merge), (rows, look), (BATCH, remove))
    ]
    table.add_row(f"{groups:,}", str(width), str(len(slices)), *speeds, f"{nbytes / groups:.0f}")


def main(groups: Annotated[int, typer.Option()] = 1_500_000, rows: Annotated[int, typer.Option()] = 6_000_000) -> None:
    table = Table("groups", "width", "slices", title="record pools, million rows per second")
    for name in ("insert", "upsert", "look up", "remove", "bytes"):
        table.add_column(name, justify="right")
    measure(table, groups, rows, 1, ())
    measure(table, groups, rows, 3, ())
    measure(table, groups, rows, 2, ((0,),))
    measure(table, 4, rows, 2, ())
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
