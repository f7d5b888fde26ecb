"""Batches of one relation as columns of codes, when they come as columns: Arrow, pandas, polars.

    Columnar(lineitem, ("l_orderkey", "l_shipdate"), dictionary).encode(table)  ->  6000 rows, a Column for each of both

Columns that no view uses are not encoded, but checked. Whatever does not fit is refused as rows are in `intake.py`, in
the same words. What depends on the schema of a batch is worked out once; one compiled call then does all the columns
that hold plain numbers or known texts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewmill.arrow import arrow_type
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.engines.interpreter.pauses import nothing
from viewmill.engines.local import column_loops as loops
from viewmill.engines.local.columns import (
    Column,
    Numbers,
    encode_column,
    encode_values,
    encoder_for,
    exported,
    is_binary,
    is_text,
)
from viewmill.engines.local.dictionary import Dictionary, Ints, address
from viewmill.engines.local.interning import intern_rows
from viewmill.engines.local.scalars import NULL
from viewmill.engines.local.values import TooWide
from viewmill.errors import DataError, InternalError
from viewmill.given import GivenColumn
from viewmill.intake import given_columns, given_rows, whole_row
from viewmill.types import Type
from viewmill.values import Misfit, fit

_NOTHING = Column(0, 0, None)
_UNREADABLE = (Misfit, OverflowError, ValueError)
"""What is raised for a value that does not fit, or that Python does not have."""
_TEXTS = {pa.string(): loops.TEXTS, pa.large_string(): loops.LONG_TEXTS}


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows as compiled code takes them: at `address` is a pair of words for each column of the relation, in order.

    A pair says where the codes of the column are and how many words there are from one to the next; both are 0 if the
    column is not in use. The last pair is that of the weights, which are all the same. Valid while this is kept.
    """

    rows: int
    address: int
    words: Ints
    keep: list[object]

    def put(self, place: int, column: Column) -> None:
        self.words[2 * place], self.words[2 * place + 1] = column.address, column.stride
        self.keep.append(column)

    def codes(self, place: int) -> Ints:
        """The codes of a column, by its place in the relation."""
        where, stride = self.words[2 * place : 2 * place + 2].tolist()
        return Column(where, stride, self).codes(self.rows)


@dataclass(frozen=True, slots=True)
class _Plan:
    """For batches of one schema: the plans that compiled code carries out, and the columns left for Python.

    The first `encoded` plans write codes. Of a column of texts, or one that is left: its position in the batch and in
    the relation.
    """

    schema: pa.Schema
    plans: Ints
    plans_at: int
    encoded: int
    texts: tuple[tuple[int, int], ...]
    left: tuple[tuple[int, int], ...]


class Columnar:
    """Takes batches of a relation; `used` are the columns that are wanted."""

    def __init__(
        self, info: RelationInfo, used: Collection[str], dictionary: Dictionary, pause: Callable[[], None] = nothing
    ) -> None:
        """Who takes many rows is to `pause` between some of them."""
        self.pause = pause
        self._info = info
        self.used = frozenset(used)
        self.dictionary = dictionary
        self._width = len(info.columns)
        self._entering = np.zeros(2, np.int64)
        self._plan: _Plan | None = None

    def encode(self, data: object, weight: int = 1) -> Columns | None:
        """The rows with this weight; None if the data is not made of whole columns, and is to be taken as rows.

        Data that can be read only once is to be made a table before (`intake.held`).
        """
        batch = _one_batch(data)
        if batch is not None:
            columns = self._all_at_once(batch, weight)
            if columns is not None:
                return columns
        given = given_columns(data, self._info)
        if given is None or len(given) < len(self._info.columns):  # the key alone
            return None
        try:
            return self._one_by_one(given, weight)
        except (Misfit, DataError) as error:
            for row in given_rows(data, self._info):  # the first row that is wrong says so
                whole_row(row, self._info)
            if isinstance(error, Misfit):
                raise InternalError(f"a column of {self._info.name} is refused, and all of its rows fit") from error
            raise

    def encode_plain(self, data: object, weight: int) -> Columns | None:
        """The same if all values are plain; None if not, or something is wrong: `encode` says what."""
        batch = _one_batch(data)
        try:
            return self._all_at_once(batch, weight) if batch is not None else None
        except TooWide:
            return None

    # --- one by one

    def _one_by_one(self, given: Mapping[str, GivenColumn], weight: int) -> Columns:
        encoded = [self._encoded(given[column.name], column) for column in self._info.columns]
        words = np.zeros(loops.head(self._width), np.int64)
        words[-3:] = address(words[-1:]), 0, weight
        columns = Columns(encoded[0][1] if encoded else 0, address(words), words, [])
        for place, (column, _) in enumerate(encoded):
            columns.put(place, column)
        return columns

    def _encoded(self, given: GivenColumn, column: ColumnInfo) -> tuple[Column, int]:
        array = given.arrow()
        if array is not None:
            try:
                return self._from_arrow(array, column), len(array)
            except _UNREADABLE:
                pass  # pandas has more to say than Arrow about what is missing, and `values` about what Python lacks
        values = [fit(value, column.type) for value in given.values()]
        if not column.nullable and None in values:
            raise Misfit("is NULL")
        if column.name not in self.used:
            return _NOTHING, len(values)
        return encode_values(values, column.type, self.dictionary), len(values)

    def _from_arrow(self, array: pa.Array | pa.ChunkedArray, column: ColumnInfo) -> Column:
        if array.null_count and not column.nullable:
            raise Misfit("is NULL")
        used = column.name in self.used
        if not used and always_fits(array.type, column.type):
            return _NOTHING
        try:
            codes = encode_column(array, column.type, self.dictionary)
        except TooWide:
            if used:
                raise
            return _NOTHING
        # A dictionary of Arrow's may have NULL among its values, which is not counted.
        if not column.nullable and pa.types.is_dictionary(array.type) and (codes.codes(len(array)) == NULL).any():
            raise Misfit("is NULL")
        return codes if used else _NOTHING

    # --- all at once

    def _all_at_once(self, batch: pa.RecordBatch, weight: int) -> Columns | None:
        """None if not every value is plain."""
        plan = self._plan
        if plan is None or not batch.schema.equals(plan.schema):
            plan = self._plan = self._planned(batch.schema)
            if plan is None:
                return None
        before, memory = len(self.dictionary), exported(batch, self._width, plan.encoded)
        at, rows = memory.address, batch.num_rows
        plain = loops.encode_batch(
            at, self._width, rows, weight, plan.plans_at, len(plan.plans), self._entering_at if plan.texts else 0
        )
        try:
            self.dictionary.check_new(before)
            if not plain:
                return None
            columns = Columns(rows, at, np.frombuffer(memory, np.int64, 2 * self._width + 2), [memory, batch])
            for index, place in plan.texts if plain == loops.MORE else ():
                if not columns.words[2 * place]:
                    columns.put(place, self._from_arrow(batch.column(index), self._info.columns[place]))
            for index, place in plan.left:
                columns.put(place, self._from_arrow(batch.column(index), self._info.columns[place]))
        except (*_UNREADABLE, DataError):
            return None
        return columns

    @cached_property
    def _entering_at(self) -> int:
        """Where compiled code finds the dictionary, and what enters texts."""
        self._entering[:] = self.dictionary.address, intern_rows.address
        return address(self._entering)

    def _planned(self, schema: pa.Schema) -> _Plan | None:
        """None if these are not the columns of the relation."""
        names = [name.lower() for name in schema.names]
        if sorted(names) != sorted(self._info.names):
            return None
        encoded: list[tuple[int, ...]] = []
        looked: list[tuple[int, ...]] = []
        texts: list[tuple[int, int]] = []
        left: list[tuple[int, int]] = []
        for place, column in enumerate(self._info.columns):
            index = names.index(column.name)
            kind = schema.types[index]
            not_null = int(not column.nullable)
            encoder = encoder_for(kind, column.type)
            if column.name in self.used and isinstance(encoder, Numbers):
                numbers = (encoder.form, encoder.low, encoder.high, encoder.times, encoder.per)
                encoded.append((index, place, not_null, *numbers))
            elif column.name in self.used and column.type.name == "string" and kind in _TEXTS:
                encoded.append((index, place, not_null, _TEXTS[kind], 0, 0, 1, 1))
                texts.append((index, place))
            elif column.name in self.used or not always_fits(kind, column.type):
                left.append((index, place))
            elif not_null:
                looked.append((index, place, not_null, loops.LOOK, 0, 0, 1, 1))
        plans = np.array(encoded + looked, np.int64).reshape(-1, loops.PLAN)
        return _Plan(schema, plans, address(plans), len(encoded), tuple(texts), tuple(left))


def _one_batch(data: object) -> pa.RecordBatch | None:
    if isinstance(data, pa.RecordBatch):
        return data
    if isinstance(data, pa.Table):
        batches = data.to_batches()
        if len(batches) == 1:
            return batches[0]
    return None


def always_fits(kind: pa.DataType, type_: Type) -> bool:
    """Whether every value of an Arrow type fits, NULL left aside."""
    match type_.name:
        case "string":
            return is_text(kind)
        case "binary":
            return is_binary(kind)
        case _:
            return bool(kind == arrow_type(type_))
