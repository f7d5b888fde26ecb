"""Rows with weights in dictionaries: what the interpreter reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from viewmill.algebra.nodes import TopK

Row: TypeAlias = tuple[object, ...]
Number: TypeAlias = Any  # int, Decimal or float; translation has seen to it that no weight mixes the last two
Rows: TypeAlias = dict[Row, Number]


class Table:
    """Rows with weights, and a dictionary for every set of columns they are looked up by."""

    def __init__(self, fields: tuple[str, ...], rows: Mapping[Row, Number] | None = None) -> None:
        self.fields = fields
        self.rows: Rows = dict(rows or {})
        self._indexes: dict[tuple[int, ...], dict[Row, dict[Row, None]]] = {}

    def find(self, columns: tuple[int, ...], values: Row) -> list[tuple[Row, Number]]:
        """The rows that have `values` in `columns`."""
        if not columns:
            return list(self.rows.items())
        index = self._indexes.get(columns)
        if index is None:
            index = self._indexes[columns] = {}
            for row in self.rows:
                index.setdefault(tuple(row[i] for i in columns), {})[row] = None
        return [(row, self.rows[row]) for row in index.get(values, ())]

    def set(self, row: Row, weight: Number) -> None:
        if weight == 0:
            if self.rows.pop(row, None) is not None:
                for columns, index in self._indexes.items():
                    del index[tuple(row[i] for i in columns)][row]
            return
        if row not in self.rows:
            for columns, index in self._indexes.items():
                index.setdefault(tuple(row[i] for i in columns), {})[row] = None
        self.rows[row] = weight


class State:
    """What expressions read: tables by name, and pending changes by name.

    A state is for one evaluation, during which no table changes; `picked` are the first rows found so far.
    """

    def __init__(self, tables: Mapping[str, Table], changes: Mapping[str, Table]) -> None:
        self.tables = tables
        self.changes = changes
        self.picked: dict[TopK, list[tuple[Row, Number]]] = {}
