"""A pending batch of one relation: rows with weights on their way into the stores.

Compiled code reads it as columns of codes; the interpreter as rows. It is given as one, and made into the other only if
somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from viewmill.catalog import RelationInfo
from viewmill.engines.interpreter.tables import Row
from viewmill.engines.local.columns import Column, encode_column
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.indexes import Ints, address
from viewmill.engines.local.values import encode


class Pending(Protocol):
    """`words`: for each column in order, and for the weights after them, an address and a stride."""

    @property
    def count(self) -> int: ...

    def words(self, columns: frozenset[str], dictionary: Dictionary) -> Ints:
        """Where compiled code finds the columns; those that nobody reads are nowhere."""

    def rows(self) -> dict[Row, int]:
        """The net change, row by row."""


class PendingRows:
    """Rows with weights other than 0, each once."""

    def __init__(self, info: RelationInfo, rows: Mapping[Row, int]) -> None:
        self._info = info
        self._rows = rows
        self._keep: list[Ints] = []

    @property
    def count(self) -> int:
        return len(self._rows)

    def rows(self) -> dict[Row, int]:
        return dict(self._rows)

    def words(self, columns: frozenset[str], dictionary: Dictionary) -> Ints:
        words = np.zeros(2 * len(self._info.columns) + 2, np.int64)
        self._keep = []
        for i, column in enumerate(self._info.columns):
            if column.name in columns:
                codes = (encode(row[i], column.type, dictionary) for row in self._rows)
                self._point(words, i, np.fromiter(codes, np.int64, self.count))
        weights = np.fromiter(self._rows.values(), np.int64, self.count)
        self._point(words, len(self._info.columns), weights)
        return words

    def _point(self, words: Ints, place: int, codes: Ints) -> None:
        self._keep.append(codes)
        words[2 * place], words[2 * place + 1] = address(codes), 1


class PendingColumns:
    """Arrow columns in the order of the relation's; every row has the same weight, or `weights` says."""

    def __init__(self, info: RelationInfo, columns: list[pa.Array | pa.ChunkedArray], weight: int) -> None:
        self._info = info
        self._columns = columns
        self._weight = np.array([weight], np.int64)
        self._keep: list[Column] = []

    @property
    def count(self) -> int:
        return len(self._columns[0])

    def words(self, columns: frozenset[str], dictionary: Dictionary) -> Ints:
        words = np.zeros(2 * len(self._info.columns) + 2, np.int64)
        self._keep = []
        for i, column in enumerate(self._info.columns):
            if column.name in columns:
                coded = encode_column(self._columns[i], column.type, dictionary)
                self._keep.append(coded)
                words[2 * i], words[2 * i + 1] = coded.address, coded.stride
        words[-2], words[-1] = address(self._weight), 0
        return words

    def rows(self) -> dict[Row, int]:
        from viewmill.values import fit

        weight = int(self._weight[0])
        values = [
            [fit(value, info.type) for value in column.to_pylist()]
            for column, info in zip(self._columns, self._info.columns, strict=True)
        ]
        net: dict[Row, int] = {}
        for row in zip(*values, strict=True):
            net[row] = net.get(row, 0) + weight
        return net


def pending_rows(info: RelationInfo, rows: Mapping[Row, int]) -> PendingRows:
    return PendingRows(info, rows)
