"""What a view has to be: DuckDB's answer to the same query over the same rows.

Rows are compared as whole multisets. Integers, strings, dates and decimals of one scale must be equal. Where DuckDB
computes in doubles and Spark in decimals (division, AVG), a decimal may differ by half a unit of its last place;
doubles may differ by 1e-9, relative or absolute. Under LIMIT, rows that tie at its edge may be chosen freely: the view
must have rows of the unlimited answer, as many as the limited one, and the same sort keys in the same order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import duckdb
import pyarrow as pa

from viewmill.bench.queries import Query
from viewmill.wording import shown

Row: TypeAlias = tuple[object, ...]

_TOLERANCE = 1e-9
_SHOWN = 3
"""Rows of each kind that a difference names."""


def disagreement(query: Query, view: pa.Table, tables: Mapping[str, pa.Table]) -> str:
    """What is wrong with a view over these tables, in one line; empty if nothing is."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        answer = connection.sql(query.sql).to_arrow_table()
        candidates = answer if query.limit is None else connection.sql(query.unlimited).to_arrow_table()
    return compare(view, answer, candidates, query.sorted_by)


def compare(view: pa.Table, answer: pa.Table, candidates: pa.Table, sorted_by: Sequence[str] = ()) -> str:
    """What is wrong with a view whose rows should be those of `answer`, or others of `candidates` that tie."""
    if view.column_names != answer.column_names:
        return f"columns {', '.join(view.column_names)} instead of {', '.join(answer.column_names)}"
    if view.num_rows != answer.num_rows:
        return f"{view.num_rows} rows instead of {answer.num_rows}; {difference(rows_of(view), rows_of(answer))}"
    if wrong := difference(rows_of(view), rows_of(candidates), part=candidates is not answer):
        return wrong
    mine, theirs = (rows_of(table.select(list(sorted_by))) for table in (view, answer))
    for place, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if not _same_row(one, other):
            return f"row {place} is sorted by {shown(one)} instead of {shown(other)}"
    return ""


def rows_of(table: pa.Table) -> list[Row]:
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def difference(view: Iterable[Row], truth: Iterable[Row], *, part: bool = False) -> str:
    """What differs between two multisets; with `part`, rows that only the truth has do not count."""
    mine, theirs = list(view), list(truth)
    inexact = {p for row in (*mine, *theirs) for p, value in enumerate(row) if isinstance(value, float | Decimal)}
    buckets: dict[Row, list[Row]] = defaultdict(list)
    for row in theirs:
        buckets[_exact_part(row, inexact)].append(row)
    extra = [row for row in mine if not _take(row, buckets[_exact_part(row, inexact)])]
    lacking = [] if part else [row for bucket in buckets.values() for row in bucket]
    parts = [_some(rows, kind) for rows, kind in ((lacking, "missing"), (extra, "extra")) if rows]
    return "; ".join(parts)


def same_value(a: object, b: object) -> bool:
    """Whether two values are equal, up to the rounding that different arithmetic makes. A boolean is no number here."""
    if a is None or b is None or isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        coarser = min(_scale(a), _scale(b))
        return a == b if _scale(a) == _scale(b) else abs(a - b) <= Decimal(5).scaleb(-coarser - 1)
    if isinstance(a, float | int | Decimal) and isinstance(b, float | int | Decimal):
        return a == b or (isinstance(a, float) or isinstance(b, float)) and _close(a, b)
    return a == b


def _close(a: float | Decimal, b: float | Decimal) -> bool:
    # Half a unit of the last place of a decimal, and a little for the double beside it.
    slack = max(0.5000001 * 10.0 ** -_scale(value) if isinstance(value, Decimal) else _TOLERANCE for value in (a, b))
    return math.isclose(float(a), float(b), rel_tol=_TOLERANCE, abs_tol=slack) or (a != a and b != b)


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _exact_part(row: Row, inexact: set[int]) -> Row:
    return tuple(value for position, value in enumerate(row) if position not in inexact)


def _take(row: Row, bucket: list[Row]) -> bool:
    """Remove from `bucket` one row that is the same as `row`, if there is one."""
    for position, other in enumerate(bucket):
        if _same_row(row, other):
            del bucket[position]
            return True
    return False


def _same_row(a: Row, b: Row) -> bool:
    return len(a) == len(b) and all(map(same_value, a, b))


def _some(rows: list[Row], kind: str) -> str:
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"{kind} {', '.join(shown(row) for row in rows[:_SHOWN])}{more}"
