"""Random batches over a few small tables, and the tables of the SQL suite.

`Churn` plays the world that views must follow. It keeps every table as a plain Python multiset and makes batches that
mix inserts, deletes and updates, often of the same rows: a row inserted and changed in one batch, deleted and
inserted again, a group that empties and comes back. Domains are tiny, so duplicates and collisions are the rule, and
about one value in five is NULL. The same seed gives the same batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any, Literal

import pyarrow as pa

Row = tuple[Any, ...]
Database = dict[str, list[Row]]


@dataclass(frozen=True)
class Operation:
    """One call on a batch: `insert`, `delete` or `update` some rows of a table."""

    kind: Literal["insert", "delete", "update"]
    table: str
    rows: tuple[Row, ...]


Batch = tuple[Operation, ...]


@dataclass(frozen=True)
class Table:
    """A table and where its rows come from.

    `fresh` makes a new row; `change` makes another row out of one, with the same primary key.
    `key` holds the positions of the primary key's columns; empty means that duplicates are welcome.
    `edits` is how often a batch touches the table, on average; `low` and `high` bound its size, roughly.
    """

    name: str
    ddl: str
    schema: pa.Schema
    key: tuple[int, ...]
    fresh: Callable[[Random], Row]
    change: Callable[[Random, Row], Row]
    edits: float = 5
    low: int = 6
    high: int = 16


@dataclass
class Churn:
    """Makes batches and applies them to its own copy of the tables, `database`."""

    tables: tuple[Table, ...]
    seed: int
    random: Random = field(init=False)
    database: Database = field(init=False)
    _removed: Database = field(init=False)
    _batch: list[Operation] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.database = {table.name: [] for table in self.tables}
        self._removed = {table.name: [] for table in self.tables}

    def start(self, rows: int) -> Batch:
        """The first batch: only inserts, `rows` for each table."""
        for table in self.tables:
            for _ in range(rows):
                self._insert_new(table)
        return self._take_batch()

    def step(self) -> Batch:
        """The next batch, over all tables at once."""
        turns = [table for table in self.tables for _ in range(int(table.edits + self.random.random()))]
        self.random.shuffle(turns)
        for table in turns:
            self._edit(table)
        return self._take_batch()

    def clear(self) -> Batch:
        """A batch that empties every table."""
        for table in self.tables:
            if rows := tuple(self.database[table.name]):
                self._do("delete", table, *rows)
        return self._take_batch()

    def load(self, database: Database) -> Batch:
        """A batch that inserts just these rows."""
        for table in self.tables:
            self._do("insert", table, *database[table.name])
        return self._take_batch()

    def snapshot(self) -> Database:
        return {name: list(rows) for name, rows in self.database.items()}

    def _edit(self, table: Table) -> None:
        size = len(self.database[table.name])
        if size < table.low:
            choices = (self._insert_new, self._insert_new, self._insert_and_change, self._change)
        elif size > table.high:
            choices = (self._delete, self._delete, self._empty_group, self._change)
        else:
            choices = (
                self._insert_new,
                self._insert_again,
                self._delete,
                self._change,
                self._change,
                self._delete_and_insert,
                self._insert_and_delete,
                self._insert_and_change,
                self._empty_group,
            )
        self.random.choice(choices)(table)

    def _insert_new(self, table: Table) -> Row | None:
        """Insert a new row, or bring back one that was deleted before; None if every key tried is taken."""
        for _ in range(20):
            removed = self._removed[table.name]
            back = removed and self.random.random() < 0.4
            row = self.random.choice(removed) if back else table.fresh(self.random)
            if self._is_free(table, row):
                self._do("insert", table, row)
                return row
        return None

    def _insert_again(self, table: Table) -> None:
        """Insert a duplicate, where duplicates are allowed."""
        row = self._pick(table)
        if row is None or table.key:
            self._insert_new(table)
        else:
            self._do("insert", table, row)

    def _delete(self, table: Table) -> None:
        if (row := self._pick(table)) is not None:
            self._do("delete", table, row)

    def _change(self, table: Table) -> None:
        if (row := self._pick(table)) is not None:
            self._replace(table, row)

    def _delete_and_insert(self, table: Table) -> None:
        if (row := self._pick(table)) is not None:
            self._do("delete", table, row)
            self._do("insert", table, row)

    def _insert_and_delete(self, table: Table) -> None:
        if (row := self._insert_new(table)) is not None:
            self._do("delete", table, row)

    def _insert_and_change(self, table: Table) -> None:
        if (row := self._insert_new(table)) is not None:
            self._replace(table, row)

    def _empty_group(self, table: Table) -> None:
        """Delete every row that agrees with a random row in a random column, if that is not much of the table."""
        if (row := self._pick(table)) is not None:
            position = self.random.randrange(len(row))
            rows = self.database[table.name]
            group = [other for other in rows if other[position] == row[position]]
            if 3 * len(group) <= len(rows):
                self._do("delete", table, *group)

    def _replace(self, table: Table, row: Row) -> None:
        changed = table.change(self.random, row)
        if table.key and self.random.random() < 0.7:
            self._do("update", table, changed)
        else:
            self._do("delete", table, row)
            self._do("insert", table, changed)

    def _pick(self, table: Table) -> Row | None:
        rows = self.database[table.name]
        return self.random.choice(rows) if rows else None

    def _is_free(self, table: Table, row: Row) -> bool:
        key = _key(table, row)
        return not table.key or all(_key(table, other) != key for other in self.database[table.name])

    def _do(self, kind: Literal["insert", "delete", "update"], table: Table, *rows: Row) -> None:
        """Add an operation to the batch and apply it to our own copy."""
        here = self.database[table.name]
        for row in rows:
            match kind:
                case "insert":
                    here.append(row)
                case "delete":
                    here.remove(row)
                    self._removed[table.name] = [row, *self._removed[table.name][:5]]
                case "update":
                    key = _key(table, row)
                    here[next(i for i, old in enumerate(here) if _key(table, old) == key)] = row
        self._batch.append(Operation(kind, table.name, tuple(rows)))

    def _take_batch(self) -> Batch:
        batch, self._batch = tuple(self._batch), []
        return batch


def apply(mill: Any, batch: Batch) -> None:
    """Apply a batch to a mill, as one version."""
    with mill.batch() as pending:
        for operation in batch:
            getattr(pending, operation.kind)(operation.table, list(operation.rows))


def _key(table: Table, row: Row) -> Row:
    return tuple(row[position] for position in table.key)


# --- the tables of the SQL suite

ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a Spark type: `decimal(10,2)` is `decimal128(10, 2)`."""
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return ARROW[name]


@dataclass(frozen=True)
class Field:
    """A column, its constraint if any, and the few values it takes. Without a constraint it is often NULL."""

    name: str
    type: str
    values: tuple[Any, ...]
    constraint: str = ""

    def pick(self, random: Random) -> Any:
        return None if not self.constraint and random.random() < 0.2 else random.choice(self.values)


def small_table(name: str, *fields: Field) -> Table:
    """A table whose columns take a few values each, independently."""
    key = tuple(position for position, column in enumerate(fields) if column.constraint == "primary key")

    def fresh(random: Random) -> Row:
        return tuple(column.pick(random) for column in fields)

    def change(random: Random, row: Row) -> Row:
        position = random.choice([p for p in range(len(fields)) if p not in key])
        return (*row[:position], fields[position].pick(random), *row[position + 1 :])

    columns = ", ".join(f"{column.name} {column.type} {column.constraint}".rstrip() for column in fields)
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in fields])
    return Table(name, f"CREATE TABLE {name} ({columns})", schema, key, fresh, change)


def _decimals(*texts: str) -> tuple[Decimal, ...]:
    return tuple(Decimal(text) for text in texts)


SMALL = tuple(range(5))
WORDS = ("apple", "a%b", "x_y", "", "abba", "ABBA", " pad ", "42", "naïve")
NAMES = ("Ann", "Bob", "Cy", "Dora", "Eve", "bob")
DAYS = tuple(
    date.fromisoformat(text)
    for text in ("2023-12-31", "2024-01-01", "2024-01-31", "2024-02-29", "2024-03-15", "2025-02-28", "1999-07-04")
)
MOMENTS = tuple(
    datetime.fromisoformat(text)
    for text in ("2024-01-01T00:00:00", "2024-01-01T12:34:56", "2024-02-29T23:59:59.5", "2025-06-15T08:00:00")
)

SUITE = (
    small_table("r", Field("a", "int", SMALL), Field("b", "int", tuple(range(6)))),
    small_table("s", Field("b", "int", tuple(range(1, 7))), Field("c", "int", SMALL)),
    small_table("t", Field("c", "int", tuple(range(6))), Field("d", "string", WORDS)),
    small_table(
        "emp",
        Field("id", "int", tuple(range(1, 21)), "primary key"),
        Field("dept", "int", (1, 2, 3, 4)),
        Field("name", "string", NAMES),
        Field("salary", "decimal(10,2)", _decimals("10.00", "10.01", "99.99", "250.50", "-10.00", "0.00")),
        Field("boss", "int", tuple(range(1, 13))),
        Field("hired", "date", DAYS),
    ),
    small_table(
        "dept",
        Field("id", "int", (1, 2, 3, 4, 5), "not null"),
        Field("name", "string", ("ops", "dev", "hr", "Dev")),
        Field("budget", "decimal(12,2)", _decimals("100.00", "0.05", "250.50", "-1.00", "99.99")),
    ),
    small_table(
        "x",
        Field("k", "int", (1, 2, 3)),
        Field("f", "double", (0.1, 0.2, -0.1, 1.5, 2.5, -2.5, 1000.25, 0.0)),
        Field("g", "double", (0.5, -0.25, 3.0, 0.3)),
    ),
    small_table(
        "ev",
        Field("id", "bigint", (1, 2, 3, 10_000_000_000)),
        Field("ts", "timestamp", MOMENTS),
        Field("kind", "string", ("buy", "sell", "hold")),
        Field("ok", "boolean", (True, False)),
        Field("amount", "decimal(8,3)", _decimals("1.005", "-1.005", "2.500", "12345.678", "0.000", "0.060", "0.010")),
    ),
    small_table(
        "n",
        Field("i", "tinyint", (-128, -1, 0, 1, 7, 127)),
        Field("j", "smallint", (-300, -7, 0, 2, 7, 300)),
        Field("m", "bigint", (-5_000_000_000, -2, 0, 3, 7, 5_000_000_000)),
    ),
)
