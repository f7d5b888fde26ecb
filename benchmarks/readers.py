"""How long readers wait while large batches are committed in another thread.

    python benchmarks/readers.py [--rows 1000000] [--batches 4]

A view of 5,000 groups is read all the time; a second one of millions of groups is there to be maintained. Each answer
that a reader gets must be that of a whole batch: the rows it counts are those of the versions so far.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

import viewmill

KINDS: dict[str, tuple[str, Literal["columns", "rows"], int]] = {
    "Arrow columns, rows not kept": (" WITH (stored = false)", "columns", 1),
    "tuples, rows not kept": (" WITH (stored = false)", "rows", 10),
    "tuples, rows kept": ("", "rows", 10),
}
"""What is said of the table, what it is given, and how many times fewer rows."""


@dataclass(frozen=True)
class Read:
    start: float
    end: float
    counted: int


def made(words: str) -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(
        f"""
        CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, k BIGINT, s STRING, x DECIMAL(12, 2)){words};
        CREATE MATERIALIZED VIEW small AS SELECT g, s, count(*) AS n, sum(x) AS x FROM t GROUP BY g, s;
        CREATE MATERIALIZED VIEW large AS SELECT k, count(*) AS n, max(x) AS x FROM t GROUP BY k;
        """
    )
    return mill


def batch(number: int, rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(number)
    texts = pa.array([f"s{i}" for i in range(100)]).take(pa.array(random.integers(0, 100, rows)))
    columns = {
        "id": np.arange(number * rows, (number + 1) * rows),
        "g": random.integers(0, 50, rows).astype(np.int32),
        "k": random.integers(0, 4 * rows, rows),
        "s": texts,
        "x": pa.array(random.integers(0, 10**4, rows).astype(np.int32)).cast(pa.decimal128(12, 2)),
    }
    return pa.record_batch(columns)


def measure(words: str, form: str, rows: int, batches: int) -> tuple[list[tuple[float, float]], list[Read]]:
    """When batches began and ended, and all reads."""
    mill = made(words)
    data = [batch(number, rows) for number in range(batches)]
    given = [[tuple(row.values()) for row in one.to_pylist()] if form == "rows" else one for one in data]
    reads: list[Read] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            start = time.perf_counter()
            found = mill.view("small").to_arrow()
            reads.append(Read(start, time.perf_counter(), sum(found["n"].to_pylist())))
            time.sleep(0.001)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    taken = []
    for one in given:
        start = time.perf_counter()
        mill.insert("t", one)
        taken.append((start, time.perf_counter()))
    over.set()
    reader.join()
    return taken, reads


def main(rows: Annotated[int, typer.Option()] = 1_000_000, batches: Annotated[int, typer.Option()] = 4) -> None:
    table = Table("batches", "rows", "ms a batch", "reads", "p50 ms", "p99 ms", "longest ms", "right", box=None)
    wrong = False
    for name, (words, form, fewer) in KINDS.items():
        each = rows // fewer
        taken, reads = measure(words, form, each, batches)
        counts = [read.counted for read in reads]
        right = counts == sorted(counts) and all(count % each == 0 for count in counts)
        wrong = wrong or not right
        began, ended = taken[0][0], taken[-1][1]
        waits = sorted(1e3 * (r.end - r.start) for r in reads if r.end > began and r.start < ended)
        mean = 1e3 * sum(end - start for start, end in taken) / batches
        p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        figures = (f"{mean:,.0f}", f"{len(waits):,}", f"{p50:.1f}", f"{p99:.1f}", f"{waits[-1]:.1f}")
        table.add_row(name, f"{each:,}", *figures, "yes" if right else "NO")
    Console().print(table)
    raise typer.Exit(wrong)


if __name__ == "__main__":
    typer.run(main)
