"""A store in a pool, as the interpreter sees it: a table of rows with weights.

What the compiler has no code for, and batches whose numbers do not fit 64 bits on the way, are run by the interpreter
on the same stores. This is slow, a call for each row, and exact: a number that has no place in a pool is `TooWide`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from decimal import Decimal

import numpy as np

from viewmill.algebra.functions import EXACT
from viewmill.engines.interpreter.tables import Number, Row, Table
from viewmill.engines.local.decode import decode_rows
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.indexes import Ints
from viewmill.engines.local.layout import ALIVE, HIGH
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.sources import Source
from viewmill.engines.local.values import LEAST, MOST, TooWide, encode
from viewmill.types import Type


def weight_code(weight: Number, type_: Type) -> int:
    """A weight in the form its lane keeps."""
    if type_.is_floating:
        return _code(float(weight))
    scaled = weight * 10**type_.scale if isinstance(weight, int) else weight.scaleb(type_.scale, EXACT)
    code = int(scaled)
    if code != scaled or not LEAST <= code <= MOST:
        raise TooWide(f"the number {weight} needs more than 64 bits")
    return code


def weight_of(code: int, type_: Type) -> Number:
    if type_.is_floating:
        return _double(code)
    return Decimal(code).scaleb(-type_.scale, EXACT) if type_.is_decimal else code


class PoolTable(Table):
    """One lane of a pool. `rows` is a view of it; `set` changes the pool."""

    def __init__(self, source: Source, pool: Pool, dictionary: Dictionary) -> None:
        self.fields = source.keys
        self.source = source
        self.pool = pool
        self.dictionary = dictionary
        self.rows = _Rows(self)  # type: ignore[assignment]

    def codes(self, row: Row) -> Ints:
        codes = [encode(value, type_, self.dictionary) for value, type_ in zip(row, self.source.types, strict=True)]
        return np.array([codes], np.int64).reshape(1, len(codes))

    def find(self, columns: tuple[int, ...], values: Row) -> list[tuple[Row, Number]]:
        if not columns:
            return list(self.rows.items())
        order = tuple(sorted(columns))
        value_of = dict(zip(columns, values, strict=True))
        if len(value_of) < len(columns) and any(value_of[c] != v for c, v in zip(columns, values, strict=True)):
            return []
        order = tuple(sorted(value_of))
        key = tuple(encode(value_of[c], self.source.types[c], self.dictionary) for c in order)
        if len(order) == len(self.fields):
            code = int(self.pool.weights_of(np.array([key], np.int64))[0, self.source.lane])
            return [(tuple(value_of[c] for c in order), weight_of(code, self.source.weight))] if code else []
        if order not in self.pool.slices:
            if not self.pool.can_slice():
                return self.listed(self._scanned(order, key))
            self.pool.add_slice(order)
        return self.listed(self.pool.records_in_slice(self.pool.slices.index(order), key))

    def _scanned(self, columns: tuple[int, ...], key: tuple[int, ...]) -> Ints:
        """The records with these values, found by looking at all."""
        records = self.living()
        found: Ints = records[(self.pool.arrays.keys[records][:, columns] == key).all(axis=1)]
        return found

    def living(self) -> Ints:
        live = self.pool.arrays.live[: self.pool.arrays.block[HIGH]] & ALIVE
        return np.flatnonzero(live)

    def listed(self, records: Ints) -> list[tuple[Row, Number]]:
        """Rows and weights of records, those that have a weight in this lane."""
        codes = self.pool.arrays.weights[records, self.source.lane]
        kept = records[codes != 0]
        rows = decode_rows(self.pool.arrays.keys[kept], self.source.types, self.dictionary)
        weights = (weight_of(int(code), self.source.weight) for code in codes[codes != 0])
        return list(zip(rows, weights, strict=True))

    def set(self, row: Row, weight: Number) -> None:
        keys = self.codes(row)
        old = self.pool.weights_of(keys)
        new = weight_code(weight, self.source.weight)
        change = np.zeros_like(old)
        lane = self.source.lane
        if not self.source.weight.is_floating:
            difference = new - int(old[0, lane])
            if not LEAST <= difference <= MOST:
                raise TooWide(f"the number {weight} needs more than 64 bits")
            change[0, lane] = difference
            self.pool.merge(keys, change)
            return
        # A difference of doubles would not give back the double: take the old one away first, exactly.
        held = _double(int(old[0, lane]))
        if not math.isfinite(held):
            held = self._made_finite(keys)
        for code in (_code(-held), new):
            change[0, lane] = code
            self.pool.merge(keys, change)

    def _made_finite(self, keys: Ints) -> float:
        """Infinity less infinity is no number: put another one in its place, which is returned."""
        self.pool.merge(keys, np.zeros((1, self.pool.lanes), np.int64))  # so that it is in the journal
        record = self.pool.find(tuple(keys[0].tolist()))
        self.pool.arrays.weights[record, self.source.lane] = _code(1.0)
        return 1.0


def _double(code: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", code))[0]
    return value


def _code(value: float) -> int:
    code: int = struct.unpack("<q", struct.pack("<d", value or 0.0))[0]
    return code


class _Rows(Mapping[Row, Number]):
    """All rows of the lane, read when asked for."""

    def __init__(self, table: PoolTable) -> None:
        self._table = table

    def __getitem__(self, row: Row) -> Number:
        table = self._table
        code = int(table.pool.weights_of(table.codes(row))[0, table.source.lane])
        if code == 0:
            raise KeyError(row)
        return weight_of(code, table.source.weight)

    def __iter__(self) -> Iterator[Row]:
        return iter(dict(self._listed()))

    def __len__(self) -> int:
        return len(self._listed())

    def items(self) -> list[tuple[Row, Number]]:  # type: ignore[override]
        return self._listed()

    def _listed(self) -> list[tuple[Row, Number]]:
        return self._table.listed(self._table.living())
