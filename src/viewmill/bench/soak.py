"""A soak: very many random single-row changes under five views, which must be right at every check and at the end.

The tables are small and have few distinct values, so that rows collide: groups appear and vanish, extremes go, rows
come twice, and NULLs are everywhere. The five views have between them joins, outer joins, MIN and MAX, COUNT DISTINCT,
EXISTS and NOT EXISTS with an inequality, a nested aggregate, and a threshold that every change moves.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random

import duckdb

import viewmill
from viewmill.arrow import arrow_table
from viewmill.bench.tpch_run import Watch
from viewmill.bench.truth import Row, compare
from viewmill.session import Mill

TABLES = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING, credit DECIMAL(10, 2));
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, placed DATE NOT NULL, status STRING NOT NULL);
CREATE TABLE lines (order_id INT, item INT NOT NULL, quantity BIGINT, price DECIMAL(10, 2));
"""
VIEWS = {
    "revenue": """
        SELECT c.region, count(*) AS line_count, sum(l.quantity * l.price) AS revenue, avg(l.price) AS average
        FROM customers c JOIN orders o ON o.customer = c.id JOIN lines l ON l.order_id = o.id
        WHERE o.status <> 'cancelled' GROUP BY c.region""",
    "extremes": """
        SELECT o.customer, min(l.price) AS least, max(l.price) AS most, count(DISTINCT l.item) AS items
        FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY o.customer""",
    "activity": """
        SELECT c.id, c.region, count(o.id) AS order_count, max(o.placed) AS latest
        FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.status = 'open' GROUP BY c.id, c.region""",
    "overtaken": """
        SELECT o.customer, count(*) AS order_count FROM orders o
        WHERE EXISTS (SELECT 1 FROM orders later WHERE later.customer = o.customer AND later.placed > o.placed)
          AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id AND l.quantity > 5)
        GROUP BY o.customer""",
    "large": """
        SELECT order_id, sum(quantity) AS quantity FROM lines WHERE order_id IS NOT NULL GROUP BY order_id
        HAVING sum(quantity) > (SELECT 0.01 * sum(quantity) FROM lines)""",
}


@dataclass(frozen=True, slots=True)
class Soaked:
    """How it went. `wrong` names the first check that failed, and is empty if none did."""

    changes: int
    checks: int
    seconds: float
    wrong: str


class Soak:
    """The views, and beside them the rows that the tables must have."""

    def __init__(self, seed: int = 1, strategy: str = "auto") -> None:
        self._random = Random(seed)
        self._done = 0
        self.rows = {"customers": Shelf(60), "orders": Shelf(300), "lines": Shelf(1000)}
        self.mill: Mill = viewmill.connect()
        self.mill.sql(TABLES)
        for name, query in VIEWS.items():
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} WITH (maintain = '{strategy}') AS {query}")

    def change(self) -> None:
        """Insert, delete or update one row."""
        table = self._random.choices(("customers", "orders", "lines"), (1, 3, 8))[0]
        shelf = self.rows[table]
        self._done += 1
        # Now and then the tables are nearly emptied, so that groups vanish and come back.
        wanted = shelf.wanted if self._done // 5000 % 4 != 3 else shelf.wanted // 20
        old = shelf.any(self._random) if len(shelf) else None
        if old is None or self._random.random() * 2 * wanted > len(shelf):
            self._insert(table, self._row(table))
        elif self._random.random() < 0.3:
            self._update(table, old, self._row(table))
        else:
            shelf.remove(old)
            self.mill.delete(table, [old])

    def disagreement(self) -> str:
        """What is wrong with any view; empty if nothing is."""
        with duckdb.connect() as connection:
            for table, shelf in self.rows.items():
                connection.register(table, arrow_table(self.mill.tables[table].columns, shelf))
            for name, query in VIEWS.items():
                answer = connection.sql(query).to_arrow_table()
                if wrong := compare(self.mill.view(name).to_arrow(), answer, answer):
                    return f"view {name}: {wrong}"
        return ""

    def _insert(self, table: str, row: Row) -> None:
        if table != "lines" and (old := self.rows[table].with_key(row[0])) is not None:
            self._update(table, old, row)
        else:
            self.rows[table].add(row)
            self.mill.insert(table, [row])

    def _update(self, table: str, old: Row, new: Row) -> None:
        shelf = self.rows[table]
        shelf.remove(old)
        if table == "lines":  # it has no key
            shelf.add(new)
            with self.mill.batch() as batch:
                batch.delete(table, [old])
                batch.insert(table, [new])
        else:
            same_key = (old[0], *new[1:])
            shelf.add(same_key)
            self.mill.update(table, [same_key])

    def _row(self, table: str) -> Row:
        random = self._random

        def maybe(value: object) -> object:
            return None if random.random() < 0.1 else value

        match table:
            case "customers":
                region = random.choice(("north", "south", "east", "west"))
                return random.randrange(100), maybe(region), maybe(_money(random, 1000))
            case "orders":
                placed = date(2024, 1, 1) + timedelta(days=random.randrange(30))
                status = random.choice(("open", "open", "shipped", "cancelled"))
                return random.randrange(500), maybe(random.randrange(100)), placed, status
            case _:
                order, item = random.randrange(500), random.randrange(20)
                return maybe(order), item, maybe(random.randrange(-2, 12)), maybe(_money(random, 50))


class Shelf:
    """A multiset of rows from which one can be drawn at random. `wanted` is how many there should be."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._rows: list[Row] = []
        self._places: dict[Row, list[int]] = {}
        self._keys: dict[object, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def any(self, random: Random) -> Row:
        return random.choice(self._rows)

    def with_key(self, key: object) -> Row | None:
        return self._keys.get(key)

    def add(self, row: Row) -> None:
        self._places.setdefault(row, []).append(len(self._rows))
        self._rows.append(row)
        self._keys[row[0]] = row

    def remove(self, row: Row) -> None:
        """Take one such row away; the last row takes its place."""
        place = self._places[row].pop()
        if not self._places[row]:
            del self._places[row]
        self._keys.pop(row[0], None)
        last = self._rows.pop()
        if place < len(self._rows):
            self._rows[place] = last
            places = self._places[last]
            places[places.index(len(self._rows))] = place


def soak(changes: int, checks: int, watch: Watch, *, seed: int = 1, strategy: str = "auto") -> Soaked:
    """Make so many changes, and check at even distances; stop at the first check that fails."""
    soaking = Soak(seed, strategy)
    seconds = 0.0
    done = 0
    for check in range(1, checks + 1):
        watch.at(f"changes up to check {check} of {checks}")
        start = time.perf_counter()
        for _ in range(changes * check // checks - done):
            soaking.change()
        done = changes * check // checks
        seconds += time.perf_counter() - start
        watch.at(f"check {check} of {checks}")
        if wrong := soaking.disagreement():
            return Soaked(done, check, seconds, f"after {done:,} changes, {wrong}")
        watch.step()
    return Soaked(done, checks, seconds, "")


def _money(random: Random, most: int) -> Decimal:
    return Decimal(random.randrange(100 * most)) / 100
