"""DuckDB as an outside truth, and the comparison of a view with its answer.

Rows are compared as whole multisets. Integers, strings, dates and booleans must be equal, and so must decimals of one
scale. Where DuckDB computes in doubles and Spark in decimals (division, AVG), a decimal may differ by half a unit of
its last place; doubles may differ by 1e-9, relative or absolute, since a sum depends on its order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from workload import Database, Row, Table

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Question:
    """A query in Spark SQL and, where it has to be said differently, in DuckDB's."""

    title: str
    sql: str
    duckdb: str | None = None

    @cached_property
    def query(self) -> exp.Query:
        query = sqlglot.parse_one(self.sql, read="spark")
        assert isinstance(query, exp.Query), self.sql
        return query

    @cached_property
    def in_duckdb(self) -> str:
        return self.duckdb or self.query.sql("duckdb")

    @cached_property
    def unlimited(self) -> str | None:
        """The query in DuckDB's words without its LIMIT and OFFSET, if it has any."""
        if not (self.query.args.get("limit") or self.query.args.get("offset")):
            return None
        query = sqlglot.parse_one(self.in_duckdb, read="duckdb")
        query.set("limit", None)
        query.set("offset", None)
        return query.sql("duckdb")

    @cached_property
    def names(self) -> list[str | None]:
        """The output columns' names, None where SQL leaves the choice to the system; empty under a star."""
        selected = self.query.selects
        if any(item.is_star for item in selected):
            return []
        return [item.alias_or_name.lower() or None for item in selected]

    @cached_property
    def sorted_by(self) -> list[int] | None:
        """The output columns that rows are sorted by; None where the order depends on something not shown.

        Without ORDER BY the list is empty. With None, the query must give its rows a total order.
        """
        order = self.query.args.get("order")
        keys = [_position(item.this, self.names) for item in order.expressions] if order else []
        positions = [key for key in keys if key is not None]
        return positions if len(positions) == len(keys) else None


def questions_of(file: Path) -> Iterator[Question]:
    """Every block of a file: `# title`, Spark SQL and, where DuckDB needs other words, `-- duckdb:` and those."""
    for block in file.read_text().strip().split("\n\n"):
        title, _, body = block.partition("\n")
        sql, _, duckdb = body.partition("\n-- duckdb:")
        assert title.startswith("# ") and sql, f"{file.name}: malformed block {title!r}"
        yield Question(title[2:], sql, duckdb.strip() or None)


@dataclass(frozen=True)
class Answer:
    """What DuckDB says: its rows in order and, where the query has a LIMIT, the rows it chose from."""

    rows: list[Row]
    candidates: list[Row] | None


class Oracle:
    """A DuckDB database that is loaded anew for every step."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._schemas = {table.name: table.schema for table in tables}

    def load(self, database: Database) -> None:
        for name, rows in database.items():
            schema = self._schemas[name]
            columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
            arrays = [pa.array(list(values), type=column.type) for values, column in zip(columns, schema, strict=True)]
            self._connection.register("incoming", pa.table(arrays, schema=schema))
            self._connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM incoming')
            self._connection.unregister("incoming")

    def ask(self, question: Question) -> Answer:
        return Answer(self._rows(question.in_duckdb), self._rows(question.unlimited) if question.unlimited else None)

    def _rows(self, sql: str) -> list[Row]:
        return self._connection.execute(sql).fetchall()


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table, in order."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def disagreement(question: Question, view: Sequence[Row], answer: Answer) -> str:
    """What is wrong with a view's rows, as readable text; empty if nothing is.

    Rows that tie under ORDER BY may come in any order, and LIMIT may choose any of those that tie at its edge.
    """
    if answer.candidates is None:
        wrong = difference(view, answer.rows)
    elif len(view) != len(answer.rows):
        wrong = f"{len(view)} rows instead of {len(answer.rows)}"
    else:
        wrong = difference(view, answer.candidates, part=True)
    if wrong or question.sorted_by == []:
        return wrong
    mine, theirs = (_keys(rows, question.sorted_by) for rows in (view, answer.rows))
    return "" if _same_sequence(mine, theirs) else f"sorted as {mine}\ninstead of  {theirs}"


def difference(view: Iterable[Row], truth: Iterable[Row], *, part: bool = False) -> str:
    """What differs between two multisets of rows, as readable text; empty if nothing does.

    With `part`, rows that only the truth has do not count.
    """
    mine, theirs = [_plain(row) for row in view], [_plain(row) for row in truth]
    widths = {len(row) for row in (*mine, *theirs)}
    if len(widths) > 1:
        return f"rows have {min(widths)} and {max(widths)} columns"
    inexact = {p for row in (*mine, *theirs) for p, value in enumerate(row) if isinstance(value, float | Decimal)}
    buckets: dict[Row, list[Row]] = defaultdict(list)
    for row in theirs:
        buckets[_exact_part(row, inexact)].append(row)
    only_mine = [row for row in mine if not _take_match(row, buckets[_exact_part(row, inexact)])]
    only_theirs = [row for bucket in buckets.values() for row in bucket]
    return _report(only_mine, [] if part else only_theirs)


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are equal, up to the rounding that different arithmetic makes.

    A boolean is no number here, although Python says that True equals 1.
    """
    if a is None or b is None:
        return a is b
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        return _close(a, b)
    if isinstance(a, Decimal) and isinstance(b, Decimal) and _scale(a) != _scale(b):
        return abs(a - b) <= Decimal(5).scaleb(-min(_scale(a), _scale(b)) - 1)
    return bool(a == b)


def _position(key: exp.Expression, names: list[str | None]) -> int | None:
    """The output column that a sort key names, by ordinal or by name."""
    if isinstance(key, exp.Literal) and key.is_int:
        return int(key.this) - 1
    if isinstance(key, exp.Column) and key.name.lower() in names:
        return names.index(key.name.lower())
    return None


def _keys(rows: Sequence[Row], columns: list[int] | None) -> list[Row]:
    return [_plain(row) if columns is None else _plain(tuple(row[c] for c in columns)) for row in rows]


def _same_sequence(mine: Sequence[Row], theirs: Sequence[Row]) -> bool:
    return len(mine) == len(theirs) and all(map(_same_row, mine, theirs))


def _close(a: Any, b: Any) -> bool:
    slack = max(_half_unit(a), _half_unit(b), TOLERANCE)
    return math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=slack) or (a != a and b != b)


def _half_unit(value: Any) -> float:
    """Half a unit of the last place of a decimal, and a little for the double beside it."""
    return 0.5000001 * 10.0 ** -_scale(value) if isinstance(value, Decimal) else 0.0


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _plain(row: Row) -> Row:
    """Moments without a time zone: those of the view and of DuckDB are then alike."""
    return tuple(
        value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value
        for value in row
    )


def _exact_part(row: Row, inexact: set[int]) -> Row:
    """The columns that must be equal; the type tells True from 1."""
    return tuple((type(value), value) for position, value in enumerate(row) if position not in inexact)


def _take_match(row: Row, bucket: list[Row]) -> bool:
    """Remove from `bucket` one row that is the same as `row`, if there is one."""
    for position, other in enumerate(bucket):
        if _same_row(row, other):
            del bucket[position]
            return True
    return False


def _same_row(a: Row, b: Row) -> bool:
    return len(a) == len(b) and all(map(same_value, a, b))


def _report(only_view: list[Row], only_truth: list[Row]) -> str:
    lines = []
    for title, rows in (("only in the view", only_view), ("only in the oracle", only_truth)):
        if rows:
            lines.append(f"{title} ({len(rows)}):")
            lines += [f"  {_show(row)}" for row in sorted(rows, key=repr)[:8]]
    return "\n".join(lines)


def _show(row: Row) -> str:
    return "(" + ", ".join(str(value) if isinstance(value, Decimal) else repr(value) for value in row) + ")"
