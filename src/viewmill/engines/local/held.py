"""An engine whose stores are in shared memory, and that runs triggers alone: the engine of a bucket.

Batches begin and are undone by the hand of who owns the memory (`kept.py`). What a trigger computes for others, its
`let`s, is given out as columns.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from viewmill.algebra.functions import EXACT
from viewmill.arrow import arrow_schema, arrow_table, arrow_type
from viewmill.catalog import Catalog, ColumnInfo
from viewmill.engines.interpreter.tables import Rows, Table
from viewmill.engines.local import layout
from viewmill.engines.local.decode import decode_column, decode_columns
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.indexes import Ints
from viewmill.engines.local.many import Group
from viewmill.engines.local.memory import Shared
from viewmill.engines.local.pending import Pending
from viewmill.engines.local.pieces import Piece
from viewmill.engines.local.placement import source_of
from viewmill.engines.local.pool_tables import weight_code
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.ready import Ready
from viewmill.engines.local.run import CompiledEngine, Declined
from viewmill.engines.local.scalars import same_form
from viewmill.engines.local.sources import Source
from viewmill.engines.local.values import TooWide, encode
from viewmill.engines.local.wide import Wide
from viewmill.errors import InternalError
from viewmill.numbers import as_column
from viewmill.program.nodes import Program
from viewmill.types import Type

WEIGHT = "weight_"
"""The column with the weights of rows that are given out."""


@dataclass(frozen=True, slots=True)
class Found:
    """What another process has left in shared memory: pools by name, and the pool and lane of every store.

    `wide` is the text of the stores (`wide.py`), if that is where their rows are.
    """

    dictionary: Dictionary
    pools: Mapping[str, Pool]
    lanes: Mapping[str, tuple[str, int, int]]  # pool, lane, lanes
    wide: bytes | None = None

    def sources(self, program: Program, catalog: Catalog) -> dict[str, Source]:
        """Its stores, as far as the program has them, too."""
        return {
            name: source_of(program.stores[name], catalog, *where)
            for name, where in self.lanes.items()
            if name in program.stores
        }


class HeldEngine(CompiledEngine):
    """Stores in shared memory. Its batches are read in several blocks, in some of them after they have waited."""

    def __init__(
        self,
        program: Program,
        catalog: Catalog,
        tables: Mapping[str, Table],
        memory: Shared,
        found: Found | None = None,
    ) -> None:
        self._exact = True
        self._start(Dictionary(memory) if found is None else found.dictionary, memory)
        self._wanted: Mapping[str, Sequence[str]] = {}
        self._given: dict[str, list[pa.RecordBatch]] = {}
        self._fired: list[Sequence[Pending]] = []  # since the batch began
        self.wide: Wide | None = None
        """Where the stores are, if a number did not fit the pools."""
        self._widened = False  # in this batch
        if found is not None:
            self._pools = dict(found.pools)
            self._placed = found.sources(program, catalog)
            self._stores = {name: program.stores[name] for name in self._placed}
            self.widen(found.wide, Program(self._stores))
        self.use(program, catalog, tables)

    def use(self, program: Program, catalog: Catalog, tables: Mapping[str, Table]) -> None:
        """Take on a program. New stores are in `tables`, or empty; those that are no more are given up."""
        try:
            if self.wide is None:
                self._switch(program, catalog, tables)
                return
        except TooWide:  # in a table
            pass
        same = [name for name, store in self._stores.items() if program.stores.get(name) == store]
        rows = {name: self.store(name) for name in same}
        self._switch(program, catalog, {})
        self.wide = Wide(program, {name: table.rows for name, table in tables.items()} | rows, self._declared)

    def _switch(self, program: Program, catalog: Catalog, tables: Mapping[str, Table]) -> None:
        before = self._pools
        nothing = {name: Table(store.keys) for name, store in program.stores.items()}
        self._use(program, catalog, {**nothing, **tables})
        self.__dict__.pop("_fallible", None)
        for name, pool in before.items():
            if self._pools.get(name) is not pool:
                pool.free()
        self.everything = Group(self._pools.values())

    @property
    def pools(self) -> Mapping[str, Pool]:
        return self._pools

    @property
    def placed(self) -> Mapping[str, Source]:
        return self._placed

    def take_over(self, moved: int) -> None:
        """Go on where another process left the memory, which it had `moved` bytes further down."""
        self.dictionary.take_over(moved)
        for pool in self._pools.values():
            pool.take_over(moved)

    # --- reading

    def contents(self, view: str, *, before: bool = False) -> Rows:
        return super().contents(view, before=before) if self.wide is None else self.wide.contents(view)

    def columns(
        self, view: str, types: Sequence[Type], *, before: bool = False
    ) -> list[pa.Array | pa.ChunkedArray] | None:
        return super().columns(view, types, before=before) if self.wide is None else None

    def store(self, name: str) -> Rows:
        return super().store(name) if self.wide is None else self.wide.store(name)

    def size(self, store: str) -> tuple[int, int]:
        return super().size(store) if self.wide is None else (len(self.wide.store(store)), 0)

    def pieces(self, store: str, size: int) -> Iterator[Piece]:
        """All rows of a store that counts rows."""
        if self.wide is not None:
            yield self._wide_piece(store)
            return
        source = self._placed[store]
        for keys, weights in self._pools[source.pool].pieces(size):
            yield Piece(weights[:, source.lane], partial(_decoded, keys, source.types, self.dictionary))

    def _wide_piece(self, store: str) -> Piece:
        rows = self.store(store)
        kept = self.program.stores[store]
        infos = [ColumnInfo(key, type_) for key, type_ in zip(kept.keys, kept.types, strict=True)]
        table = arrow_table(infos, rows).combine_chunks()
        counts = np.fromiter((int(count) for count in rows.values()), np.int64, len(rows))
        return Piece(counts, lambda number, at: table.column(number).combine_chunks().take(as_column(at)))

    # --- batches

    def begin(self) -> None:
        """End the batch before, and start one."""
        self._all(layout.BEGIN)
        self._widened = False
        if self.wide is not None:
            self.wide.begin()

    def rest(self) -> None:
        """After a batch: keep no more memory for the next one than it is likely to need."""
        for trigger in self._triggers.values():
            for pool in trigger.lets.values():
                pool.rest()

    def rollback(self) -> None:
        """Undo the batch."""
        self._all(layout.ROLLBACK)
        if self._widened:
            self.wide, self._widened = None, False
        elif self.wide is not None:
            self.wide.rollback()

    def _all(self, word: int) -> None:
        self.everything.check(self.everything.call(word))
        self._last, self._dirty, self._fired = {}, {}, []

    def fire(self, batch: Sequence[Pending], lets: Mapping[str, Sequence[str]]) -> dict[str, pa.RecordBatch]:
        """Run triggers in order, and no more: the rows of these `let`s of each. If it raises, roll back."""
        moved = [pending for pending in batch if pending.relation in self.program.triggers]
        above = any(view in self.program.triggers for view in self.program.views)
        if above and self._fired:
            raise InternalError("views over views are told of one change in a batch, not of several")
        try:
            if self.wide is None:
                self._fire_pools(moved, lets)
            else:
                self._given = self.wide.fire(moved, lets, WEIGHT)
        except TooWide:
            self._fire_wide(moved, lets)
        self._fired.append(moved)
        return {name: _one(batches) for name, batches in self._given.items()}

    def _fire_pools(self, batch: Sequence[Pending], lets: Mapping[str, Sequence[str]]) -> None:
        self._wanted, self._given = lets, {}
        try:
            with decimal.localcontext(EXACT):
                self._fire(batch)
                self._fire_above(())
        except Declined:
            self._fire_again(batch, lets)

    def _fire_wide(self, batch: Sequence[Pending], lets: Mapping[str, Sequence[str]]) -> None:
        """Undo all that the batch did to pools, and do it to rows in dictionaries."""
        earlier = self._fired
        self.rollback()
        stores = {name: self.store(name) for name in self.program.stores}
        self.wide, self._widened = Wide(self.program, stores, self._declared), True
        self.wide.begin()
        for again in earlier:
            self.wide.fire(again, {}, WEIGHT)
        self._given = self.wide.fire(batch, lets, WEIGHT)
        self._fired = earlier

    def widen(self, text: bytes | None, program: Program | None = None) -> None:
        """Have the stores of a program where this text is from; in pools, if there is none."""
        self.wide = Wide.load(text, program or self.program, self._declared) if text is not None else None

    def _declared(self, relation: str) -> Mapping[str, Source]:
        return self._plans.of(relation).declared

    def _fire_again(self, batch: Sequence[Pending], lets: Mapping[str, Sequence[str]]) -> None:
        """Undo all that compiled code did, and have the interpreter do what it declined."""
        earlier = self._fired
        self.rollback()
        for again in earlier:
            self._fire_pools(again, {})
            self._fired.append(again)
        self._wanted, self._given = lets, {}
        with decimal.localcontext(EXACT):
            for pending in batch:
                self._fire_slowly(pending)
            self._fire_above(())

    def _fire_slowly(self, pending: Pending) -> None:
        trigger = self._trigger(pending.relation)
        changes = {pending.relation: Table(self.program.fields[pending.relation], pending.rows())}
        try:
            for s in self.program.triggers[pending.relation].statements:
                self._slow._execute(s, changes)
        finally:
            self._slow._journal = {}
        for name in self._wanted.get(pending.relation, ()):
            self._give(name, *self._encoded(trigger, name, changes[name]))

    # --- what a batch does to views

    def watch(self, views: Iterable[str]) -> None:
        """Compile what `change` runs. It may need an index, which had better be there before a batch begins."""
        for view in views if self.wide is None else ():
            self._watch(view)

    def change(self, view: str, columns: Sequence[ColumnInfo]) -> pa.Table:
        """What the batch has done to a view's leading columns so far: rows that differ, each with its `weight_`."""
        codes = self._changed_codes(view, [column.type for column in columns])
        if codes is None:
            rows = self._changed_rows(view, len(columns))
            table = arrow_table(columns, rows)
            weights = np.fromiter(rows.values(), np.int64, len(rows))
        else:
            keys, weights = codes
            arrays = decode_columns(keys, [column.type for column in columns], self.dictionary)
            table = pa.table(arrays, schema=arrow_schema(columns))
        return table.append_column(pa.field(WEIGHT, pa.int64(), nullable=False), as_column(weights))

    def check(self, view: str) -> None:
        """Raise what a reader of the view would be told of, as far as the batch has changed it."""
        watch = self._watch(view) if self.wide is None else None
        if watch is not None:
            if not watch.run(self._quiet_at, before=False):
                return
            self._forget()
        plan = self.program.views[view]
        with decimal.localcontext(EXACT):
            if self.wide is not None:
                self.wide.check(view)
                return
            with self._journal_of(plan):
                self._slow._check_view(plan)

    def check_whole(self, view: str) -> None:
        """The same of all its rows."""
        if self.wide is not None or self._read(view) is None:
            self.contents(view)

    def _changed_codes(self, view: str, types: Sequence[Type]) -> tuple[Ints, Ints] | None:
        """By compiled code; None if it has none, or declines."""
        watch = self._watch(view) if self.wide is None else None
        if watch is None or not all(map(same_form, watch.rows.types, types)):
            return None
        width, parts = len(watch.rows.keys), []
        for before, sign in ((False, 1), (True, -1)):
            if watch.run(self._quiet_at, before=before):
                self._forget()
                return None
            arrays = watch.out.arrays
            rows = arrays.out[: arrays.block[layout.EMITTED]]
            parts.append((rows[:, : len(types)].copy(), sign * rows[:, width]))
        return _net(np.concatenate([keys for keys, _ in parts]), np.concatenate([weights for _, weights in parts]))

    def _changed_rows(self, view: str, width: int) -> Rows:
        with decimal.localcontext(EXACT):
            change = self._interpreted_change(view) if self.wide is None else self.wide.change(view)
        net: Rows = {}
        for row, weight in change.items():
            net[row[:width]] = net.get(row[:width], 0) + weight
        return {row: weight for row, weight in net.items() if weight}

    # --- what triggers give out

    def _emit(self, trigger: Ready, pending: Pending, *, begin: bool) -> Mapping[str, Table]:
        interpreted = super()._emit(trigger, pending, begin=begin)
        for name in self._wanted.get(pending.relation, ()):
            if name in trigger.plan.lets:
                source = trigger.plan.lets[name]
                self._give(name, source, *trigger.lets[source.pool].rows())
            else:
                self._give(name, *self._encoded(trigger, name, interpreted[name]))
        return interpreted

    def _encoded(self, trigger: Ready, name: str, table: Table) -> tuple[Source, Ints, Ints]:
        """The rows of a `let` that was interpreted."""
        source = trigger.plan.declared.get(name)
        if source is None:
            raise InternalError(f"the types of {name} are not known")
        rows = [[encode(v, t, self.dictionary) for v, t in zip(row, source.types, strict=True)] for row in table.rows]
        weights = [[weight_code(weight, source.weight)] for weight in table.rows.values()]
        keys = np.array(rows, np.int64).reshape(len(rows), len(source.keys))
        return source, keys, np.array(weights, np.int64).reshape(len(rows), 1)

    def _give(self, name: str, source: Source, keys: Ints, weights: Ints) -> None:
        some = weights[:, 0] != 0
        if not some.all():
            keys, weights = keys[some], weights[some]
        types = (*source.types, source.weight)
        columns = decode_columns([*keys.T, weights[:, 0]], types, self.dictionary)
        schema = pa.schema([(key, arrow_type(type_)) for key, type_ in zip((*source.keys, WEIGHT), types, strict=True)])
        self._given.setdefault(name, []).append(pa.RecordBatch.from_arrays(columns, schema=schema))


def _decoded(keys: Ints, types: Sequence[Type], dictionary: Dictionary, number: int, at: Ints) -> pa.Array:
    column = decode_column(keys[at, number], types[number], dictionary)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _net(keys: Ints, weights: Ints) -> tuple[Ints, Ints]:
    """Every row once, with the sum of its weights, if that is not 0."""
    if not len(keys):
        return keys, weights
    order = np.lexsort(keys.T)
    keys, weights = keys[order], weights[order]
    starts = np.flatnonzero(np.concatenate(([True], (keys[1:] != keys[:-1]).any(axis=1))))
    sums = np.add.reduceat(weights, starts)
    some = sums != 0
    return keys[starts[some]], sums[some]
