"""VWAP over a large order book: the value of the bids in the dearest quarter of the volume (DBToaster, section 1).

Any change moves the threshold for all bids, which is why the papers evaluate the query anew. A book of so many orders
is loaded; then random orders go and others come, in batches of each size. DuckDB verifies the view after each size by
running totals over prices: for the query as it is, it would compare all bids with all bids.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from typing import TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

import viewmill
from viewmill.bench.measure import told
from viewmill.bench.place import here
from viewmill.bench.process import SHARE, Spawned, TooLarge, spawned
from viewmill.bench.results import Book, Run, Size, Status, percentile, rows_in
from viewmill.bench.timing import AHEAD, Call, clocked
from viewmill.bench.tpch_run import Watch
from viewmill.bench.truth import compare
from viewmill.errors import InternalError
from viewmill.session import Mill

SETUP = """
CREATE TABLE bids (id BIGINT NOT NULL PRIMARY KEY, broker INT NOT NULL, price DECIMAL(10, 2) NOT NULL,
                   volume BIGINT NOT NULL) WITH (stored = false);
CREATE MATERIALIZED VIEW vwap WITH (maintain = '{strategy}') AS
SELECT sum(b2.price * b2.volume) AS value, count(*) AS orders
FROM bids b2
WHERE 0.25 * (SELECT sum(b0.volume) FROM bids b0)
    > (SELECT coalesce(sum(b1.volume), 0) FROM bids b1 WHERE b1.price > b2.price)
"""
CHECK = """
WITH levels AS (SELECT price, sum(volume) AS volume, sum(price * volume) AS value, count(*) AS orders
                FROM bids GROUP BY price),
     dearer AS (SELECT *, sum(volume) OVER (ORDER BY price DESC) - volume AS above, sum(volume) OVER () AS total
                FROM levels)
SELECT sum(value) AS value, sum(orders)::BIGINT AS orders FROM dearer WHERE 0.25 * total > above
"""
_LOADED = 100_000
"""Rows in a batch while the book is loaded."""
Rows: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
"""Positions in the table of all orders."""


class OrderBook:
    """A mill with a book, and twice as many orders as are in it at a time: those that are not will come later."""

    def __init__(self, orders: int, strategy: str, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        self._rows = _orders(2 * orders, self._random)
        self._inside = np.zeros(2 * orders, np.bool_)
        self._orders = orders
        self.mill: Mill = viewmill.connect()
        self.mill.sql(SETUP.format(strategy=strategy))
        for start in range(0, orders, _LOADED):
            count = min(_LOADED, orders - start)
            self.mill.insert("bids", self._rows.slice(start, count))
            self._inside[start : start + count] = True

    def measure(self, size: Size, seconds: float) -> Book:
        times = array("d")
        changed = 0

        def done(rows: tuple[Rows, Rows], taken: float) -> None:
            nonlocal changed
            inserted, deleted = rows
            self._inside[inserted], self._inside[deleted] = True, False
            changed += len(inserted) + len(deleted)
            times.append(taken)

        if 4 * rows_in(size) > self._orders:
            return Book(size, self._orders, "small", "the book has too few orders", 0, 0.0, 0.0, 0.0)
        clocked(islice(self._ready(size, 2), 2), math.inf, done)  # warms up
        changed, times = 0, array("d")
        clocked(self._ready(size, AHEAD), seconds, done)
        ordered = sorted(times)
        wrong = self.disagreement()
        return Book(
            size=size,
            orders=self._orders,
            status="wrong" if wrong else "ok",
            note=wrong,
            updates=changed,
            seconds=sum(times),
            p50=percentile(ordered, 0.5),
            p99=percentile(ordered, 0.99),
        )

    def disagreement(self) -> str:
        """What is wrong with the view; empty if nothing is."""
        present = pa.Table.from_batches([self._rows.take(pa.array(np.flatnonzero(self._inside)))])
        with duckdb.connect() as connection:
            connection.register("bids", present)
            answer = connection.sql(CHECK).to_arrow_table()
        return compare(self.mill.view("vwap").to_arrow(), answer, answer)

    def _ready(self, size: Size, most: int) -> Iterator[tuple[tuple[Rows, Rows], Call]]:
        """Calls without end, made ready in blocks of about `most` rows."""
        half = max(1, rows_in(size) // 2)
        while True:
            exchanges = self._exchanges(half, max(1, most // (2 * half)))
            yield from [ready for exchange in exchanges for ready in self._calls(*exchange, size)]

    def _exchanges(self, half: int, count: int) -> list[tuple[Rows, Rows]]:
        """For each of `count` batches, `half` orders that come and as many that go; no order twice."""
        outside, inside = np.flatnonzero(~self._inside), np.flatnonzero(self._inside)
        count = min(count, len(outside) // half, len(inside) // half)
        come = self._random.choice(outside, half * count, replace=False).reshape(count, half)
        go = self._random.choice(inside, half * count, replace=False).reshape(count, half)
        return list(zip(come, go, strict=True))

    def _calls(self, come: Rows, go: Rows, size: Size) -> list[tuple[tuple[Rows, Rows], Call]]:
        """One batch, or two where a batch has a single row."""
        none = come[:0]
        if rows_in(size) > 1:
            exchange = partial(_exchange, self.mill, self._take(come), self._take(go))
            return [((come, go), exchange)]
        new, old = self._take(come), self._take(go)
        if size == "single":
            new, old = _tuples(new), _tuples(old)
        return [
            ((come, none), partial(self.mill.insert, "bids", new)),
            ((none, go), partial(self.mill.delete, "bids", old)),
        ]

    def _take(self, rows: Rows) -> pa.RecordBatch:
        return self._rows.take(pa.array(rows))


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there are no more figures."""

    status: Status
    note: str


def run_vwap(orders: int, sizes: tuple[Size, ...], strategy: str, seconds: float, limit: float, watch: Watch) -> Run:
    """Every size in turn, in a process of its own. After the first that has no answer within the limit, none has."""
    run = Run(here(), scale=0.0, seconds=seconds)
    watch.at(f"loading {orders:,} orders")
    with spawned(_serve, orders, sizes, strategy, seconds) as process:
        news = _next(process, limit)
        watch.step()
        for size in sizes:
            watch.at(f"batches of {size}")
            if not isinstance(news, Trouble):
                news = _next(process, 4 * seconds + limit)
            run = replace(run, books=(*run.books, _book(news, size, orders)))
            watch.step()
    return run


def _serve(orders: int, sizes: tuple[Size, ...], strategy: str, seconds: float, connection: Connection) -> None:
    """In the new process: word that the book is loaded, then a result for each size."""
    with suppress(BrokenPipeError), connection:
        try:
            book = OrderBook(orders, strategy)
            connection.send(None)
            for size in sizes:
                connection.send(book.measure(size, seconds))
        except Exception as error:  # whatever it is, it is the result
            connection.send(Trouble("failed", told(error)))


def _next(process: Spawned, limit: float) -> Book | Trouble | None:
    try:
        news: Book | Trouble | None = process.recv() if process.poll(limit) else _silent(limit)
    except TooLarge:
        return Trouble("large", f"no answer in {SHARE:.0%} of the memory")
    except EOFError:
        return Trouble("failed", "the process died")
    return news


def _silent(limit: float) -> Trouble:
    return Trouble("slow", f"no answer in {limit:g} s")


def _book(news: Book | Trouble | None, size: Size, orders: int) -> Book:
    match news:
        case Book():
            return news
        case Trouble(status, note):
            return Book(size, orders, status, note, 0, 0.0, 0.0, 0.0)
        case None:
            raise InternalError("the process sent nothing for a batch size")


def _exchange(mill: Mill, new: pa.RecordBatch, old: pa.RecordBatch) -> None:
    with mill.batch() as batch:
        batch.insert("bids", new)
        batch.delete("bids", old)


def _tuples(rows: pa.RecordBatch) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _orders(count: int, random: np.random.Generator) -> pa.RecordBatch:
    """Prices lie around 100.00, most of them within ten."""
    cents = np.clip(random.normal(10_000, 1_000, count), 100, 20_000).astype(np.int64)
    words = np.stack([cents, cents >> 63], axis=1)  # a decimal is 128 bits: the value, and its sign again
    price = pa.Array.from_buffers(pa.decimal128(10, 2), count, [None, pa.py_buffer(words.tobytes())])
    columns = {
        "id": pa.array(np.arange(count, dtype=np.int64)),
        "broker": pa.array(random.integers(0, 100, count, np.int32)),
        "price": price,
        "volume": pa.array(random.integers(1, 1_000, count, np.int64)),
    }
    return pa.RecordBatch.from_pydict(columns)
