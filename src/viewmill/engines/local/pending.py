"""A pending batch of one relation: rows with weights on their way into the stores.

Compiled code reads it as columns of codes; the interpreter as rows. It is given as one, and made into the other only if
somebody asks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from viewmill.catalog import RelationInfo
from viewmill.engines.interpreter.pauses import paused
from viewmill.engines.interpreter.tables import Row
from viewmill.engines.local.values import encode
from viewmill.intake import whole_rows

if TYPE_CHECKING:  # what needs the compiler is imported when something is compiled
    from viewmill.engines.local.columnar import Columnar, Columns


class Pending(Protocol):
    @property
    def relation(self) -> str: ...

    @property
    def count(self) -> int:
        """About how many rows there are."""

    def columns(self, taker: Columnar) -> Columns:
        """The columns that compiled code reads."""

    def rows(self) -> dict[Row, int]:
        """The net change, row by row."""


class PendingRows:
    """Rows with weights other than 0, each once."""

    def __init__(self, info: RelationInfo, rows: Mapping[Row, int]) -> None:
        self.relation = info.name
        self._info = info
        self._rows = rows

    @property
    def count(self) -> int:
        return len(self._rows)

    def rows(self) -> dict[Row, int]:
        return dict(self._rows)

    def columns(self, taker: Columnar) -> Columns:
        from viewmill.engines.local.columnar import Columns

        columns, rows, words = self._info.columns, self.count, [0] * (2 * len(self._info.columns) + 2)
        used = [i for i, column in enumerate(columns) if column.name in taker.used]
        codes = [
            encode(row[i], columns[i].type, taker.dictionary) for i in used for row in paused(self._rows, taker.pause)
        ]
        codes += self._rows.values()
        memory = np.array(codes, np.int64)  # in one piece, since most batches of rows are small
        start = memory.ctypes.data
        for at, place in enumerate([*used, len(columns)]):
            words[2 * place : 2 * place + 2] = start + 8 * at * rows, 1
        pairs = np.array(words, np.int64)
        return Columns(rows, pairs.ctypes.data, pairs, [memory])


class PendingInsert(PendingRows):
    """Rows that were given as whole columns, which compiled code takes as they are."""

    def __init__(self, info: RelationInfo, rows: Mapping[Row, int], data: object) -> None:
        super().__init__(info, rows)
        self._data = data

    def columns(self, taker: Columnar) -> Columns:
        return taker.encode(self._data) or super().columns(taker)


def _point(words: NDArray[np.int64], place: int, codes: NDArray[np.int64], keep: list[object]) -> None:
    keep.append(codes)
    words[2 * place], words[2 * place + 1] = codes.ctypes.data, 1


class PendingData:
    """What was given as whole columns (Arrow, pandas, polars): rows that all have one weight, or each its own."""

    def __init__(self, info: RelationInfo, data: object, weight: int | NDArray[np.int64]) -> None:
        """Weights are an array as long as the data. They may be 0, and of any sign."""
        self.relation = info.name
        self._info = info
        self._data = data
        self._weight = weight

    @property
    def count(self) -> int:
        return len(self._data)  # type: ignore[arg-type]

    def rows(self) -> dict[Row, int]:
        net: dict[Row, int] = {}
        weights = itertools.repeat(self._weight) if isinstance(self._weight, int) else self._weight.tolist()
        for row, weight in zip(whole_rows(self._data, self._info), weights, strict=False):
            net[row] = net.get(row, 0) + weight
        return {row: weight for row, weight in net.items() if weight}

    def columns(self, taker: Columnar) -> Columns:
        columns = taker.encode(self._data, self._weight if isinstance(self._weight, int) else 1)
        if columns is None:
            return PendingRows(self._info, self.rows()).columns(taker)
        if not isinstance(self._weight, int):
            _point(columns.words, len(self._info.columns), np.ascontiguousarray(self._weight, np.int64), columns.keep)
        return columns
