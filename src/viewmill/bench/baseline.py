"""What a view has to beat: DuckDB with the same rows in tables of its own, evaluating the query anew after a batch.

The time of a refresh does not depend on the size of the batch. Applying the batch to the tables is timed as well and
reported beside it, but not held against DuckDB: where data lives in a database anyway, that is paid for already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

import duckdb
import pyarrow as pa

from viewmill.bench.data import Data
from viewmill.bench.queries import KEYS, Query
from viewmill.bench.results import Baseline, Size, rows_in
from viewmill.bench.stream import Piece

_TIMES = 5
"""Refreshes, and batches of each size, of which the median counts."""


class DuckBaseline:
    """All tables at full size. `threads` 0 leaves the number to DuckDB, which takes every core."""

    def __init__(self, data: Data, threads: int = 0) -> None:
        self._data = data
        self._applied: dict[tuple[str, Size], float | None] = {}
        self._connection = duckdb.connect()
        if threads:
            self._connection.execute(f"SET threads = {threads}")
        for name, batch in data.items():
            with self._named("incoming", Piece(name, 0, batch.num_rows)):
                self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")

    @property
    def threads(self) -> int:
        ((threads,),) = self._connection.sql("SELECT current_setting('threads')").fetchall()
        return int(threads)

    def measure(self, query: Query, sizes: Iterable[Size]) -> Baseline:
        largest = query.reads[0]
        # Few rows are fetched faster as Python values, many as Arrow: the faster way counts.
        refresh = min(self._refresh(query, fetch) for fetch in (self._as_values, self._as_arrow))
        apply = {size: self._apply(largest, size) for size in sizes if size != "single"}
        return Baseline(query.name, refresh, largest, {size: seconds for size, seconds in apply.items() if seconds})

    def _refresh(self, query: Query, fetch: Callable[[str], object]) -> float:
        """The median time of an evaluation that follows a batch."""
        times = []
        fetch(query.sql)  # warms up
        for _ in range(_TIMES):
            self._changed(query.reads[0], 1000, 1)
            start = time.perf_counter()
            fetch(query.sql)
            times.append(time.perf_counter() - start)
        return median(times)

    def _as_values(self, sql: str) -> object:
        return self._connection.execute(sql).fetchall()

    def _as_arrow(self, sql: str) -> object:
        return self._connection.sql(sql).to_arrow_table()

    def _apply(self, table: str, size: Size) -> float | None:
        """The same for all queries, so it is measured once for each table; None if that has too few rows."""
        if (table, size) not in self._applied:
            self._applied[table, size] = self._changed(table, rows_in(size), _TIMES)
        return self._applied[table, size]

    def _changed(self, table: str, size: int, times: int) -> float | None:
        """Apply some batches, half deletes and half inserts, and leave the table as it was; their median time."""
        half, apart = max(1, size // 2), self._data[table].num_rows // (times + 1)
        if half > apart:
            return None
        pieces = [Piece(table, start, start + half) for start in range(0, apart * (times + 1), apart)]
        self._change(None, pieces[0])
        seconds = [self._change(back, gone) for back, gone in pairwise(pieces)]
        self._change(pieces[-1], None)
        return median(seconds)

    def _change(self, inserted: Piece | None, deleted: Piece | None) -> float:
        start = time.perf_counter()
        self._connection.begin()
        if deleted:
            same = " AND ".join(f"{deleted.table}.{key} = gone.{key}" for key in KEYS[deleted.table])
            with self._named("gone", deleted):
                self._connection.execute(f"DELETE FROM {deleted.table} USING gone WHERE {same}")
        if inserted:
            with self._named("fresh", inserted):
                self._connection.execute(f"INSERT INTO {inserted.table} SELECT * FROM fresh")
        self._connection.commit()
        return time.perf_counter() - start

    @contextmanager
    def _named(self, name: str, piece: Piece) -> Iterator[None]:
        rows = self._data[piece.table].slice(piece.start, piece.rows)
        self._connection.register(name, pa.Table.from_batches([rows]))
        yield
        self._connection.unregister(name)
