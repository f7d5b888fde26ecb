"""A multiset of rows becomes what the reader sees: ordered, cut off, hidden columns dropped.

ORDER BY, LIMIT and OFFSET belong to reading. Ties are broken by the whole row, so that the same rows always come out in
the same order. As in Spark, NaN is greater than every other number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from viewmill.errors import DataError
from viewmill.intake import Row
from viewmill.sql.bound import BoundView, SortKey
from viewmill.wording import shown


@dataclass(frozen=True, slots=True)
class Presentation:
    """How rows are shown. Of each row the last `hidden` values exist only to sort by."""

    hidden: int = 0
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0

    @staticmethod
    def of(bound: BoundView) -> Presentation:
        return Presentation(bound.hidden, bound.order, bound.limit, bound.offset)

    @property
    def cuts(self) -> bool:
        """Some rows may not be shown at all."""
        return self.limit is not None or self.offset > 0

    def shown(self, rows: int) -> int:
        """How many of so many rows are."""
        left = max(0, rows - self.offset)
        return left if self.limit is None else min(left, self.limit)


def present(rows: Mapping[Row, int], how: Presentation) -> list[Row]:
    """Every row as often as its weight says, in order."""
    for row, weight in rows.items():
        if weight < 0:
            raise DataError(
                f"row {shown(row)} was removed more often than it was added",
                hint="a table with stored = false, or a stream, took the removal of a row it never had",
            )
    listed = [row for row, weight in rows.items() for _ in range(weight)]
    if how.order or how.cuts:
        _sort(listed, how.order)
    end = None if how.limit is None else how.offset + how.limit
    return [visible(row, how.hidden) for row in listed[how.offset : end]]


def visible(row: Row, hidden: int) -> Row:
    return row[: len(row) - hidden]


def _sort(rows: list[Row], order: tuple[SortKey, ...]) -> None:
    rows.sort(key=lambda row: [_rank(value, nulls=0) for value in row])
    # Sorting is stable: the last pass, by the first key, decides.
    for key in reversed(order):
        rows.sort(key=partial(_key, by=key), reverse=key.descending)


def _key(row: Row, by: SortKey) -> tuple[object, ...]:
    return _rank(row[by.column], nulls=0 if by.nulls_first != by.descending else 3)


def _rank(value: object, nulls: int) -> tuple[object, ...]:
    if value is None:
        return (nulls,)
    if value != value:  # only NaN differs from itself
        return (2,)
    return (1, value)
