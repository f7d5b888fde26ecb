"""A shop whose every batch follows from a seed and its number, and what each view over it must hold.

    shop = Shop.at(seed, mill.version)       # the rows that are there after so many batches
    shop.next()                              # the changes of the next one, which are there from now on
    shop.truth("revenue")                    # what DuckDB says about the rows that are there

So a driver that is started again needs to know nothing but the version that the checkpoint has.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Literal

import duckdb
import pyarrow as pa

Row = tuple[Any, ...]

OPENS = 3
"""The first batch with clicks. Views can be added until then: what clicks were is not kept."""

TABLES = {
    "customers": "CREATE TABLE customers (id INT PRIMARY KEY, region STRING)",
    "orders": "CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2), day DATE)",
    "clicks": "CREATE TABLE clicks (customer INT, page STRING, ms BIGINT) WITH (stored = false)",
}

VIEWS = {
    # Orders and customers meet by customer, after both were checked by their keys; the sums are on the driver.
    "revenue": """
        SELECT c.region, count(*) AS orders, sum(o.price) AS total, min(o.price) AS least, max(o.price) AS most
        FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region""",
    # Lives in buckets.
    "per_customer": """
        SELECT c.id, c.region, count(*) AS orders, sum(o.price) AS total
        FROM customers c JOIN orders o ON o.customer = c.id GROUP BY c.id, c.region""",
    "days": "SELECT DISTINCT c.region, o.day FROM customers c JOIN orders o ON o.customer = c.id",
    "pages": "SELECT page, count(*) AS clicks, sum(ms) AS total, max(ms) AS slowest FROM clicks GROUP BY page",
    "visits": """
        SELECT c.region, k.page, count(*) AS clicks, sum(k.ms) AS total
        FROM clicks k JOIN customers c ON k.customer = c.id GROUP BY c.region, k.page""",
}

LATER_VIEWS = {
    "prices": "SELECT customer, min(price) AS least, max(price) AS most, count(*) AS n FROM orders GROUP BY customer",
}
"""Created just before the clicks begin, over tables that have rows already."""

SCHEMAS = {
    "customers": pa.schema([("id", pa.int32()), ("region", pa.string())]),
    "orders": pa.schema(
        [("id", pa.int32()), ("customer", pa.int32()), ("price", pa.decimal128(10, 2)), ("day", pa.date32())]
    ),
    "clicks": pa.schema([("customer", pa.int32()), ("page", pa.string()), ("ms", pa.int64())]),
}

REGIONS = ("north", "south", "west", None)
PAGES = ("home", "search", "basket")


@dataclass(frozen=True, slots=True)
class Change:
    """`rows` are whole, or dictionaries with only the primary key."""

    op: Literal["insert", "delete", "update", "upsert"]
    table: str
    rows: list[Any]


def views_at(version: int) -> dict[str, str]:
    """The views that are to be there before the batch that follows the version."""
    return {**VIEWS, **(LATER_VIEWS if version >= OPENS - 1 else {})}


class Shop:
    def __init__(self, seed: int) -> None:
        self.version = 0
        self.customers: dict[int, Row] = {}
        self.orders: dict[int, Row] = {}
        self.clicks: list[Row] = []
        self._random = Random(seed)
        self._new_customer = self._new_order = 0

    @classmethod
    def at(cls, seed: int, version: int) -> Shop:
        shop = cls(seed)
        for _ in range(version):
            shop.next()
        return shop

    def next(self) -> list[Change]:
        self.version += 1
        changes = [*self._of_customers(), *self._of_orders()]
        if self.version >= OPENS:
            changes += self._of_clicks()
        return [change for change in changes if change.rows]

    def _of_customers(self) -> list[Change]:
        new = [self._customer() for _ in range(6 if self.version == 1 else 2)]
        gone = self._some(self.customers, 1 if len(self.customers) > 10 else 0)
        moved = [
            (key, self._random.choice(REGIONS)) for key in self._some([k for k in self.customers if k not in gone], 3)
        ]
        self._put(self.customers, gone, [*new, *moved])
        return [
            Change("insert", "customers", new),
            Change("delete", "customers", [{"id": key} for key in gone]),
            Change("update", "customers", moved),
        ]

    def _customer(self) -> Row:
        self._new_customer += 1
        return (self._new_customer, self._random.choice(REGIONS))

    def _of_orders(self) -> list[Change]:
        new = [self._order() for _ in range(20)]
        gone = self._some(self.orders, 8)
        removed = [self.orders[key] for key in gone]
        left = [key for key in self.orders if key not in gone]
        changed = [self._order(key) for key in self._some(left, 5)]
        taken = {row[0] for row in changed}
        put = [self._order(key) for key in self._some([key for key in left if key not in taken], 2)] + [self._order()]
        self._put(self.orders, gone, [*new, *changed, *put])
        return [
            Change("insert", "orders", new),
            Change("delete", "orders", removed),
            Change("update", "orders", changed),
            Change("upsert", "orders", put),
        ]

    def _order(self, key: int | None = None) -> Row:
        if key is None:
            self._new_order += 1
            key = self._new_order
        price = Decimal(self._random.randrange(100_000)) / 100
        day = date(2024, 1, 1) + timedelta(days=self._random.randrange(5))
        return (key, self._random.randrange(1, self._new_customer + 3), price.quantize(Decimal("0.01")), day)

    def _of_clicks(self) -> list[Change]:
        """The feed is trusted: what is deleted was inserted."""
        gone = self._random.sample(self.clicks, min(4, len(self.clicks)))
        for row in gone:
            self.clicks.remove(row)
        new = [self._click() for _ in range(15)]
        self.clicks += new
        return [Change("delete", "clicks", gone), Change("insert", "clicks", new)]

    def _click(self) -> Row:
        customer = self._random.randrange(1, self._new_customer + 1)
        return (customer, self._random.choice(PAGES), self._random.randrange(50))

    def _some(self, keys: Any, count: int) -> list[int]:
        there = sorted(keys)
        return self._random.sample(there, min(count, len(there)))

    def _put(self, table: dict[int, Row], gone: list[int], rows: list[Row]) -> None:
        for key in gone:
            del table[key]
        table.update({row[0]: row for row in rows})

    # --- what is so

    def truth(self, view: str) -> list[Row]:
        """The view's query, run from scratch by DuckDB."""
        rows = {"customers": self.customers.values(), "orders": self.orders.values(), "clicks": self.clicks}
        with duckdb.connect() as database:
            for name, schema in SCHEMAS.items():
                columns = list(zip(*rows[name], strict=True)) or [()] * len(schema)
                arrays = [pa.array(values, column.type) for values, column in zip(columns, schema, strict=True)]
                database.register(name, pa.table(arrays, schema=schema))
            return database.execute({**VIEWS, **LATER_VIEWS}[view]).fetchall()
