"""Changes of a stored table against the rows it has: checked, and made into what is added and removed.

The rows of a stored table are a store in the buckets, by primary key. What happens to one key happens in one bucket, so
each bucket checks its part by itself, in the words of `tables.py`: it looks up the rows with the keys that a batch
names, lays the changes over them in order, and keeps the difference.

    inserts and deletes of whole rows, updates and deletes by key    ->    rows with counts, +1 and -1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from operator import itemgetter
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewmill.algebra.build import agg_sum, product
from viewmill.algebra.functions import one_nan
from viewmill.algebra.nodes import DeltaRelation, Relation
from viewmill.arrow import arrow_schema, arrow_table
from viewmill.catalog import RelationInfo
from viewmill.distribute.nodes import Buckets, Distributed
from viewmill.engines.interpreter.tables import Row
from viewmill.engines.local.kept import Kept
from viewmill.engines.local.pending import Pending, PendingData, PendingRows
from viewmill.errors import DataError
from viewmill.numbers import as_column, flags, numbers
from viewmill.program.nodes import Statement, Store, Trigger
from viewmill.tables import BaseTable, Draft
from viewmill.types import BIGINT
from viewmill.wording import quoted, shown, titled


class Op(IntEnum):
    """What happens to a row. In a batch, operations are numbered in the order they were asked for.

    Rows of one number have no order: they arrive as Spark brings them. So that the same rows do the same every time, a
    key that is replaced or removed by two of them in different ways is refused.
    """

    INSERT = 0
    DELETE = 1
    UPDATE = 2
    DELETE_KEY = 3
    UPSERT = 4
    DISCARD = 5  # by key, if there is one
    REMOVE = 6  # like DELETE and INSERT, but added up: only what is left at the end is looked at
    ADD = 7

    def code(self, number: int) -> int:
        """The count that rows of operation `number` travel with."""
        return number * len(Op) + self

    @staticmethod
    def of(code: int) -> Op:
        return Op(code % len(Op))

    @staticmethod
    def number(code: int) -> int:
        return code // len(Op)


BY_KEY = (Op.DELETE_KEY, Op.DISCARD)
"""Operations that give only the key of a row."""
_REPLACING = (Op.UPDATE, Op.UPSERT, Op.DISCARD)
"""Operations of which the last one counts. Several of the others do the same, or are refused, in whatever order."""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """What belongs to a stored table in the buckets: a store of its rows, and names for what arrives."""

    info: RelationInfo

    @property
    def store(self) -> str:
        return f"rows of {self.info.name}"

    @property
    def key(self) -> tuple[str, ...]:
        """A table without a primary key is one whose key is the whole row."""
        return self.info.primary_key or self.info.names

    @property
    def place(self) -> Buckets:
        """By the key, or the part of it that PARTITION BY names: what happens to one key happens in one bucket."""
        by = self.info.partition_by
        return Buckets(by if by and set(by) <= set(self.key) else self.key)

    @property
    def asked(self) -> RelationInfo:
        """Operations as they arrive: all columns, of which a delete by key has only the key."""
        columns = tuple(replace(column, nullable=True) for column in self.info.columns)
        return RelationInfo(f"{self.info.name} asked", columns)

    @property
    def keys(self) -> RelationInfo:
        """Keys to look up."""
        return RelationInfo(f"{self.info.name} keys", tuple(c for c in self.info.columns if c.name in self.key))

    @property
    def rows(self) -> RelationInfo:
        """Rows that come and go."""
        return RelationInfo(f"{self.info.name} rows", self.info.columns)

    @property
    def found(self) -> str:
        return f"found of {self.info.name}"


def with_tables(distributed: Distributed, infos: Iterable[RelationInfo]) -> Distributed:
    """The program with the rows of these tables in its buckets."""
    tables = [StoredTable(info) for info in infos]
    stores, triggers = dict(distributed.buckets.stores), dict(distributed.buckets.triggers)
    fields = dict(distributed.buckets.fields)
    for table in tables:
        info, names = table.info, table.info.names
        everything = Relation(table.store, names, names)
        stores[table.store] = Store(
            table.store,
            names,
            Relation(info.name, names, names),
            tuple(column.type for column in info.columns),
            BIGINT,
        )
        found = agg_sum(names, product(DeltaRelation(table.keys.name, table.keys.names, table.keys.names), everything))
        look_up = Statement(table.found, names, "let", found, "recursive", "rows by key")
        change = Statement(
            table.store, names, "+=", DeltaRelation(table.rows.name, names, names), "recursive", "the table's rows"
        )
        for relation, statement in ((table.keys, look_up), (table.rows, change)):
            triggers[relation.name] = Trigger(relation.name, (statement,))
            fields[relation.name] = relation.names
    arriving = {info.name: info for table in tables for info in (table.asked, table.keys, table.rows)}
    return replace(
        distributed,
        places={**distributed.places, **{table.store: table.place for table in tables}},
        buckets=replace(distributed.buckets, stores=stores, triggers=triggers, fields=fields),
        infos={**distributed.infos, **arriving},
    )


Changes: TypeAlias = tuple[pa.RecordBatch, NDArray[np.int64]]
"""Rows, and how often each is added or, if the count is negative, removed."""


def resolved(kept: Kept, table: StoredTable, asked: pa.RecordBatch, codes: NDArray[np.int64]) -> Changes:
    """What operations on a table add and remove; the store of its rows has changed so.

    Raises `DataError` for an operation that the rows do not allow.
    """
    _check_nulls(table, asked, codes)
    changes = _all_at_once(kept, table, asked, codes)
    if changes is None:
        changes = _one_by_one(kept, table, asked, codes)
    rows, counts = changes
    if rows.num_rows:
        kept.fire([PendingData(table.rows, rows, counts)])
    return changes


def _all_at_once(kept: Kept, table: StoredTable, asked: pa.RecordBatch, codes: NDArray[np.int64]) -> Changes | None:
    """For batches that name every key once, and are right: None for others, whose first mistake is then looked for."""
    key = list(table.info.primary_key)
    if not key or _keys(asked, key).group_by(key, use_threads=False).aggregate([]).num_rows < asked.num_rows:
        return None
    parts: list[tuple[pa.RecordBatch, int]] = []
    if (codes % len(Op) >= Op.REMOVE).any():
        return None
    for op in Op:
        rows = asked.filter(as_column(codes % len(Op) == op))
        if not rows.num_rows:
            continue
        found = _found(kept, table, PendingData(table.keys, rows.select(list(table.keys.names)), 1))
        if not _fits(op, rows, found, key):
            return None
        if op != Op.INSERT:
            parts.append((found, -1))
        if op in (Op.INSERT, Op.UPDATE, Op.UPSERT):
            parts.append((rows, 1))
    schema = arrow_schema(table.info.columns)
    batches = [part.cast(schema) for part, _ in parts]
    rows = pa.concat_batches([pa.RecordBatch.from_pylist([], schema), *batches])
    return rows, np.repeat(np.array([sign for _, sign in parts], np.int64), [part.num_rows for part, _ in parts])


def _keys(asked: pa.RecordBatch, key: list[str]) -> pa.Table:
    """Keys that are equal are the same to Arrow, too, which tells zeros by their sign."""
    columns = {name: asked.column(name) for name in key}
    zero = {name: pa.scalar(0, column.type) for name, column in columns.items() if pa.types.is_floating(column.type)}
    return pa.table({name: pc.add(c, zero[name]) if name in zero else c for name, c in columns.items()})


def _fits(op: Op, rows: pa.RecordBatch, found: pa.RecordBatch, key: list[str]) -> bool:
    """Whether an operation is allowed for these rows, whose keys differ, if the table has the rows found for them."""
    match op:
        case Op.INSERT:
            return bool(found.num_rows == 0)
        case Op.UPDATE | Op.DELETE_KEY:
            return bool(found.num_rows == rows.num_rows)
        case Op.UPSERT | Op.DISCARD:
            return True
        case Op.DELETE:
            by_key = [(name, "ascending") for name in key]
            return bool(rows.sort_by(by_key).columns == found.cast(rows.schema).sort_by(by_key).columns)
        case Op.REMOVE | Op.ADD:
            return False
        case _:
            assert_never(op)


def _one_by_one(kept: Kept, table: StoredTable, asked: pa.RecordBatch, codes: NDArray[np.int64]) -> Changes:
    """Operations in order, each seeing what those before it did."""
    draft = Draft(_touched(kept, table, asked))
    for op, row in _in_order(draft, zip(codes.tolist(), _rows(asked), strict=True)):
        _ask(draft, op, row)
    draft.check()
    changes = draft.changes
    rows = arrow_table(table.info.columns, changes)
    batch = pa.RecordBatch.from_arrays([column.combine_chunks() for column in rows.columns], schema=rows.schema)
    return batch, np.fromiter(changes.values(), np.int64, len(changes))


def _in_order(draft: Draft, asked: Iterable[tuple[int, Row]]) -> Iterator[tuple[Op, Row]]:
    """Operations by their numbers. Of those that replace, each key has one for a number, maybe told several times."""
    told: dict[tuple[int, Row], tuple[Op, Row]] = {}
    for code, row in sorted(asked, key=itemgetter(0)):
        op = Op.of(code)
        if op in _REPLACING:
            key = draft.key(row)
            first = told.setdefault((Op.number(code), key), (op, row))
            if first != (op, row):
                raise DataError(
                    f"two changes of the row of {titled(draft.info)} with {draft.shown_key(key)} come together, "
                    "and nothing tells which is the last",
                    hint="give each key once; a stream takes order_by=, the columns that tell",
                )
        yield op, row


def _check_nulls(table: StoredTable, asked: pa.RecordBatch, codes: NDArray[np.int64]) -> None:
    whole = ~np.isin(codes % len(Op), BY_KEY)
    for column in table.info.columns:
        nulls = flags(asked.column(column.name).is_null())
        wrong = nulls if column.name in table.info.primary_key else nulls & whole
        if not column.nullable and wrong.any():
            row = _rows(asked.slice(int(np.argmax(wrong)), 1))[0]
            raise DataError(
                f"NULL in column {quoted(column.name)} of {titled(table.info)}, row {shown(row)}",
                hint=f"{column.name} is NOT NULL; give it a value",
            )


def _touched(kept: Kept, table: StoredTable, asked: pa.RecordBatch) -> BaseTable:
    """The part of the table that the operations can see: the rows with their keys."""
    keys = dict.fromkeys(_rows(asked.select(list(table.keys.names))), 1)
    base = BaseTable(table.info)
    base.commit(Counter(_rows(_found(kept, table, PendingRows(table.keys, keys)))))
    return base


def _found(kept: Kept, table: StoredTable, keys: Pending) -> pa.RecordBatch:
    """The rows that have one of these keys, each as often as it occurs."""
    found = kept.fire([keys], {table.keys.name: [table.found]})[table.found]
    rows, counts = found.select(list(table.info.names)), numbers(found.column(found.num_columns - 1))
    return rows if (counts == 1).all() else rows.take(as_column(np.repeat(np.arange(len(counts)), counts)))


def _ask(draft: Draft, op: Op, row: Row) -> None:
    match op:
        case Op.INSERT:
            draft.insert(row)
        case Op.DELETE:
            draft.delete(row)
        case Op.UPDATE:
            draft.update(row)
        case Op.UPSERT:
            draft.upsert(row)
        case Op.DELETE_KEY:
            draft.delete_key(draft.key(row))
        case Op.DISCARD:
            draft.discard(draft.key(row))
        case Op.REMOVE:
            draft.add(row, -1)
        case Op.ADD:
            draft.add(row, 1)
        case _:
            assert_never(op)


def _rows(batch: pa.RecordBatch) -> list[Row]:
    return list(zip(*map(_values, batch.columns), strict=True))


def _values(column: pa.Array) -> list[object]:
    values = column.to_pylist()
    return list(map(one_nan, values)) if pa.types.is_floating(column.type) else values
