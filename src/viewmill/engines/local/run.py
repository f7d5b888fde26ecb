"""Programs on record pools, compiled: what `viewmill.connect()` runs.

A batch is columns of codes. For each relation it changes, the compiled functions of the trigger read the stores and
emit rows, which are then merged into their pools; journals make a batch atomic. The interpreter works on the same
stores for everything else: statements that have no compiled code, and batches that compiled code declines because a
number does not fit 64 bits, or something may be divided by zero. What is an error, it says, and what is not, it
computes.
"""

from __future__ import annotations

import decimal
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewmill.algebra.functions import EXACT
from viewmill.algebra.schema import relations
from viewmill.catalog import Catalog
from viewmill.engines.interpreter.engine import Interpreter
from viewmill.engines.interpreter.pauses import paused
from viewmill.engines.interpreter.tables import Number, Row, Rows, State, Table
from viewmill.engines.local import layout
from viewmill.engines.local.anew import Anew
from viewmill.engines.local.columnar import Columnar
from viewmill.engines.local.decode import decode_columns, decode_rows
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.fallible import Fallible, fallible_views
from viewmill.engines.local.gate import INTERRUPTED, Gate
from viewmill.engines.local.indexes import Ints, address
from viewmill.engines.local.magnitudes import MANY
from viewmill.engines.local.many import Group, run_schedule
from viewmill.engines.local.memory import Memory
from viewmill.engines.local.pending import Pending, PendingRows
from viewmill.engines.local.placement import doubles, place
from viewmill.engines.local.plans import Plans
from viewmill.engines.local.pool_tables import PoolTable, weight_code, weight_of
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.quick import OneRow, QuickWays
from viewmill.engines.local.ready import Ready
from viewmill.engines.local.scalars import CannotLower, same_form
from viewmill.engines.local.sources import Source
from viewmill.engines.local.string_tables import FAILED, StringTables
from viewmill.engines.local.triggers import TriggerPlan, interpreted_trigger, plan_reading
from viewmill.engines.local.watching import Request, Watch, run_request, swap_weights
from viewmill.program.nodes import Program, Statement, Store, ViewPlan
from viewmill.types import Type


class Declined(Exception):
    """Compiled code cannot go on with this batch; nothing of it is left in the pools."""


class CompiledEngine:
    """Stores in pools. Made from the tables of an interpreter, or extended from another.

    Sets of a batch only have to be large enough where all terms read the same batch. They are `exact` where some may
    read it after it has waited in a store (`hoist.py`).
    """

    def __init__(
        self,
        program: Program,
        catalog: Catalog,
        tables: Mapping[str, Table],
        *,
        memory: Memory | None = None,
        exact: bool = False,
        first: Collection[str] = (),
        gate: Gate | None = None,
    ) -> None:
        """A batch of the relations `first` is about to come. Readers come in by the `gate`."""
        self._exact = exact
        self._start(Dictionary(memory), memory, gate)
        self._use(program, catalog, tables, first)

    def _start(self, dictionary: Dictionary, memory: Memory | None, gate: Gate | None = None) -> None:
        """An engine without a program."""
        self.dictionary = dictionary
        self.strings = StringTables(dictionary)
        self._memory = memory
        self._pools: dict[str, Pool] = {}
        self._placed: dict[str, Source] = {}
        self._stores: dict[str, Store] = {}
        self._triggers: dict[str, Ready] = {}
        self._dirty: dict[tuple[str, str], Group] = {}  # pools that the batch under way may have changed
        self._last: dict[tuple[str, str], Group] = {}  # those of the batch before, until the next one begins
        self._gate = gate or Gate()
        self._flags = np.array([0, self._gate.address], np.int64)
        self._flags_at = address(self._flags)
        self._quiet = np.zeros(2, np.int64)  # flags of what lets nobody in
        self._quiet_at = address(self._quiet)

    def _use(
        self, program: Program, catalog: Catalog, tables: Mapping[str, Table], first: Collection[str] = ()
    ) -> None:
        """Take on a program. Stores that are new to us are in `tables`."""
        new = [name for name in program.stores if self._stores.get(name) != program.stores[name]]
        kept = {name: source for name, source in self._placed.items() if name in program.stores and name not in new}
        placed = {**kept, **place(program, new, catalog, {source.pool for source in kept.values()})}
        pools = {source.pool: self._pools[source.pool] for source in kept.values()}
        plans = Plans(program, catalog, placed, exact=self._exact)
        plans.compile(first)  # before there are pools, whose code another thread may be compiling (`warming.py`)
        for pool in dict.fromkeys(placed[name].pool for name in new):
            pools[pool] = self._filled(pool, placed, tables)
        self.program, self._catalog, self._plans = program, catalog, plans
        self._placed, self._pools, self._stores = placed, pools, dict(program.stores)
        self._triggers = {}
        self._takers: dict[str, Columnar] = {}
        self._evaluated: dict[tuple[str, ...], Anew] = {}
        self._readers: dict[str, Ready | None] = {}
        self._watches: dict[str, Watch | None] = {}
        self._slow = Interpreter(self._gate.pause)
        self._slow.program = program
        self._slow._tables = {
            name: PoolTable(source, pools[source.pool], self.dictionary) for name, source in placed.items()
        }

    def extended(self, program: Program, catalog: Catalog, tables: Mapping[str, Table]) -> CompiledEngine:
        """An engine for another program that shares the stores both have. Ours is still good for the old one."""
        other = object.__new__(CompiledEngine)
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("_fallible", None)
        other._last = dict(self._last)
        other._use(program, catalog, tables)
        return other

    def _filled(self, name: str, placed: Mapping[str, Source], tables: Mapping[str, Table]) -> Pool:
        lanes = [source for source in placed.values() if source.pool == name]
        pool = Pool(len(lanes[0].keys), doubles(placed, name), memory=self._memory)
        rows: dict[Row, list[int]] = {}
        for source in lanes:
            for row, weight in paused(tables[source.name].rows.items(), self._gate.pause):
                codes = rows.setdefault(row, [0] * len(lanes))
                codes[source.lane] = weight_code(weight, source.weight)
        table = PoolTable(lanes[0], pool, self.dictionary)
        keys = np.array([table.codes(row)[0] for row in paused(rows, self._gate.pause)], np.int64)
        weights = np.array(list(rows.values()), np.int64)
        pool.fill(keys.reshape(len(rows), pool.width), weights.reshape(len(rows), pool.lanes))
        return pool

    # --- reading

    @property
    def tables(self) -> Mapping[str, Table]:
        """The stores, as the interpreter reads them."""
        return self._slow._tables

    def contents(self, view: str, *, before: bool = False) -> Rows:
        """The rows of a view, hidden columns included, without order; as they were `before` the batch under way."""
        with self._before(view) if before else nullcontext():
            read = self._read(view)
            if read is None:
                return self._slow.contents(view)
        codes, source = read
        total: Rows = {}
        weights = codes[:, len(source.keys)].tolist()
        rows = decode_rows(codes[:, : len(source.keys)], source.types, self.dictionary)
        for row, weight in zip(rows, weights, strict=True):
            total[row] = total.get(row, 0) + weight
        return {row: weight for row, weight in total.items() if weight}

    def _read(self, view: str) -> tuple[Ints, Source] | None:
        """Rows and their weights as codes, by compiled code; None if it has none, or declines."""
        reader = self._reader(view)
        if reader is None:
            return None
        if run_schedule(reader.schedule.address, 0, 0, self._quiet_at, 0, 0):
            self._forget()
            return None
        source = reader.plan.lets[reader.plan.output]
        arrays = reader.lets[source.pool].arrays
        return arrays.out[: arrays.block[layout.EMITTED]].copy(), source

    def columns(
        self, view: str, types: Sequence[Type], *, before: bool = False
    ) -> list[pa.Array | pa.ChunkedArray] | None:
        """The view's leading columns as Arrow, each row as often as it occurs; None if that takes the long way."""
        with self._before(view) if before else nullcontext():
            read = self._read(view)
        if read is None:
            return None
        codes, source = read
        weights = codes[:, len(source.keys)]
        if len(types) < len(source.keys) or not all(map(same_form, source.types, types)) or (weights < 0).any():
            return None
        rows = codes if (weights == 1).all() else np.repeat(codes, weights, axis=0)
        return decode_columns(rows[:, : len(types)], types, self.dictionary)

    def _reader(self, view: str) -> Ready | None:
        if view not in self._readers:
            plan = self.program.views[view]
            try:
                self._readers[view] = Ready(plan_reading(view, plan.output, plan.columns, self._placed), self)
            except CannotLower:
                self._readers[view] = None
        return self._readers[view]

    @contextmanager
    def _before(self, view: str) -> Iterator[None]:
        """What a view reads is for a while as it was before the batch under way."""
        read = {self._pools[self._placed[name].pool] for name in relations(self.program.views[view].output)}
        changing = Group(read.intersection(pool for group in self._dirty.values() for pool in group.pools))
        swap_weights(changing)
        try:
            yield
        finally:
            swap_weights(changing)

    def store(self, name: str) -> Rows:
        return dict(self._slow._tables[name].rows.items())

    @property
    def nbytes(self) -> int:
        lets = sum(pool.nbytes for trigger in self._triggers.values() for pool in trigger.lets.values())
        return sum(pool.nbytes for pool in self._pools.values()) + lets + self.dictionary.nbytes

    def size(self, store: str) -> tuple[int, int]:
        """Rows of a store, and bytes: all of its pool if that is its own, else its share."""
        source = self._placed[store]
        pool = self._pools[source.pool]
        return int(np.count_nonzero(pool.rows()[1][:, source.lane])), pool.nbytes // source.lanes

    def code(self, relation: str) -> TriggerPlan:
        return self._trigger(relation).plan

    # --- batches

    def apply(
        self, batch: Sequence[Pending], watched: frozenset[str] = frozenset(), *, checked: bool = True
    ) -> dict[str, Rows]:
        """Take a batch, all or nothing. Returns the change of each watched view."""
        try:
            with decimal.localcontext(EXACT):
                changes = self._run(batch, watched, checked)
        except Declined:
            self._rollback()
            changes = self._interpreted(batch, watched, self._fallible.ever if checked else frozenset())
        except BaseException:
            self._rollback()
            raise
        self._last, self._dirty = {**self._last, **self._dirty}, {}
        return changes

    def quick(self, relation: str) -> QuickWays | None:
        """What takes changes of a relation the quick way, if it can be done."""
        trigger, info = self._trigger(relation), self._catalog.relations[relation]
        above = any(name in self.program.triggers for name in self.program.views)
        watches = [watch for name in self._fallible.ever if (watch := self._watch(name)) is not None]
        if above or trigger.plan.interpreted or len(watches) < len(self._fallible.ever):
            return None
        one, encode_plain = OneRow(info, trigger.columns, self.dictionary), self._taker(trigger).encode_plain
        (single, request), mark = self._requests(trigger, watches)
        encode, batch, second, at, run = one.encode, one.address, one.size, single.address, run_request.brief

        def take(row: Sequence[object], weight: int) -> bool:
            if not encode(row, weight, 0):
                return False
            if self._last is not mark:
                start(single)
            failed = run(at, batch, 1)
            self._last = mark
            return not failed or undo(failed)

        def exchange(old: Sequence[object], new: Sequence[object]) -> bool:
            if not encode(old, -1, 0) or not encode(new, 1, second):
                return False
            if self._last is not mark:
                start(single)
            failed = run(at, batch, 2)
            self._last = mark
            return not failed or undo(failed)

        def take_columns(data: object, weight: int) -> bool:
            columns, runs = encode_plain(data, weight), request.runs
            if columns is None:
                return False
            try:
                if self._last is not mark:
                    start(request)
                self._dirty = mark
                failed = run_request(request.address, columns.address, columns.rows)
                self._last = mark
                return not failed or undo(failed)
            except BaseException:  # somebody interrupts us, which is told when the call is over
                if request.runs != runs:
                    undo(0)
                raise
            finally:
                self._dirty = {}

        def start(request: Request) -> None:
            request.end(self._last.values())
            self._last = {**self._last, **mark}  # until it has run

        def undo(failed: int) -> bool:
            request.changing.call(layout.ROLLBACK)
            try:
                Group((*request.changing.pools, *trigger.temporary.pools)).check(failed)
            finally:
                self._forget()
            return False

        return QuickWays(take, exchange, take_columns, (one, single, request))

    def _requests(
        self, trigger: Ready, checks: Sequence[Watch]
    ) -> tuple[tuple[Request, Request], dict[tuple[str, str], Group]]:
        """What takes single rows and batches of a relation the quick way, and what these change, as `_last` has it.

        Single rows are taken before a reader could come in.
        """
        relation = trigger.plan.relation
        order = self._anew((relation,))
        stores = [s.target for s in (*order.now[relation], *order.late)]
        assigned = Group(dict.fromkeys(self._pools[self._placed[name].pool] for name in stores))
        changing = Group((*trigger.targets.pools, *assigned.pools))
        anew = [trigger.assigned[name] for name in stores]
        # Apart, since the general way ends what is changed "on" a relation together with starting the next batch.
        mark = {("on", relation): trigger.targets} | ({("anew", relation): assigned} if assigned else {})
        single, many = (
            Request(trigger.schedule, anew, changing, checks, at) for at in (self._quiet_at, self._flags_at)
        )
        return (single, many), mark

    def _end_last(self) -> None:
        """The batch before is over: its journals are not needed any more."""
        for group in self._last.values():
            group.call(layout.BEGIN)
        self._last = {}

    def _rollback(self) -> None:
        for group in self._dirty.values():
            group.call(layout.ROLLBACK)
        self._dirty = {}

    def _interpreted(
        self, batch: Sequence[Pending], watched: frozenset[str], checks: frozenset[str]
    ) -> dict[str, Rows]:
        self._end_last()
        self._dirty = {("all", ""): Group(self._pools.values())}
        net: dict[str, dict[Row, int]] = {}
        for pending in batch:
            rows = net.setdefault(pending.relation, {})
            for row, weight in pending.rows().items():
                rows[row] = rows.get(row, 0) + weight
        try:
            changes = self._slow.apply(net, watched | checks)
            return {name: changes[name] for name in watched}
        except BaseException:
            self._rollback()
            raise

    def _run(self, batch: Sequence[Pending], watched: frozenset[str], checked: bool) -> dict[str, Rows]:
        self._fire([pending for pending in batch if pending.relation in self.program.triggers], first=True)
        changes = self._fire_above(watched)
        self._check_outputs(self.fallible - set(changes) if checked else ())
        return {name: changes[name] for name in watched}

    def _fire_above(self, watched: Collection[str]) -> dict[str, Rows]:
        """The changes of views that are watched, or that others read: these have triggers, which run."""
        changes: dict[str, Rows] = {}
        for name in self.program.views:  # a view stands behind the views it reads
            if name in watched or name in self.program.triggers:
                changes[name] = self._view_change(name)
                if name in self.program.triggers and changes[name]:
                    info = self._catalog.relations[name]
                    width = len(info.columns)
                    rows: Rows = {}
                    for row, weight in changes[name].items():
                        rows[row[:width]] = rows.get(row[:width], 0) + weight
                    net = {row: weight for row, weight in rows.items() if weight}
                    self._fire([PendingRows(info, net)])
        return changes

    def _fire(self, batch: Sequence[Pending], *, first: bool = False) -> None:
        """Triggers of several relations, one after the other; what can wait is evaluated anew once, at the end."""
        missing = [pending.relation for pending in batch if pending.count and pending.relation not in self._triggers]
        with self._gate.opened() if missing else nullcontext():
            self._plans.compile(missing)
        moved = [(self._trigger(pending.relation), pending) for pending in batch if pending.count]
        begin = first and len(moved) == 1 and self._last.keys() == {("on", moved[0][1].relation)}
        if first and not begin:
            self._end_last()
        anew = self._anew(tuple(pending.relation for _, pending in moved))
        for trigger, pending in moved:
            self._emit(trigger, pending, begin=begin)
            for s in anew.now[pending.relation]:
                self._assign(trigger, s)
        for s in anew.late:
            self._assign(self._trigger(anew.owner[s.target]), s)

    def _anew(self, relations_: tuple[str, ...]) -> Anew:
        if relations_ not in self._evaluated:
            self._evaluated[relations_] = Anew.of([self.program.triggers[name] for name in relations_])
        return self._evaluated[relations_]

    def _emit(self, trigger: Ready, pending: Pending, *, begin: bool) -> Mapping[str, Table]:
        """All `let` and `+=` of a trigger. Returns the `let`s that were interpreted."""
        columns = pending.columns(self._taker(trigger))
        interpreted = bool(trigger.plan.interpreted)
        if begin:
            self._last = {}
        self._dirty["on", trigger.plan.relation] = trigger.targets
        flags = run_schedule(
            trigger.schedule.address, columns.address, columns.rows, self._flags_at, begin, not interpreted
        )
        lets: Mapping[str, Table] = {}
        if interpreted and not flags:
            rest, lets = self._interpret(trigger, pending)
            flags = trigger.targets.call(layout.MERGE)
            for store, rows in rest if not flags else ():
                self._add(store, rows)
        if flags:
            Group((*trigger.targets.pools, *trigger.temporary.pools)).check(flags)
            self._forget()
            raise Declined
        return lets

    def _taker(self, trigger: Ready) -> Columnar:
        relation = trigger.plan.relation
        if relation not in self._takers:
            info = self._catalog.relations[relation]
            self._takers[relation] = Columnar(info, trigger.columns, self.dictionary, self._gate.pause)
        return self._takers[relation]

    def _forget(self) -> None:
        """What compiled code complained about is left to the interpreter, but that somebody interrupts us."""
        flags = int(self._flags[0] | self._quiet[0])
        self._flags[0] = self._quiet[0] = 0
        if flags & FAILED and isinstance(failure := self.strings.failure(), KeyboardInterrupt):
            raise failure
        if flags & INTERRUPTED:
            error, self._gate.failure = self._gate.failure, None
            raise error or KeyboardInterrupt

    def _interpret(self, trigger: Ready, pending: Pending) -> tuple[list[tuple[str, Rows]], Mapping[str, Table]]:
        """The statements without compiled code, on the state before the batch: what stores gain, and `let`s."""
        info = self._catalog.relations[trigger.plan.relation]
        changes: dict[str, Table] = {trigger.plan.relation: Table(info.names, pending.rows())}
        for name, source in trigger.plan.lets.items():
            changes[name] = PoolTable(source, trigger.lets[source.pool], self.dictionary)
        found: list[tuple[str, Rows]] = []
        for s in (one.statement for one in trigger.plan.interpreted):
            if s.op == ":=":
                continue
            rows = self._slow._found(s.expr, s.vars, State(self._slow._tables, changes))
            if s.op == "let":
                changes[s.target] = Table(s.vars, rows)
            else:
                found.append((s.target, rows))
        return found, changes

    def _add(self, store: str, rows: Rows) -> None:
        table = self._slow._tables[store]
        assert isinstance(table, PoolTable)
        self._dirty.setdefault(("store", table.source.pool), Group([table.pool]))
        for row, weight in paused(rows.items(), self._gate.pause):
            table.set(row, table.rows.get(row, 0) + weight)

    def _assign(self, trigger: Ready, s: Statement) -> None:
        table = self._slow._tables[s.target]
        assert isinstance(table, PoolTable)
        self._dirty.setdefault(("store", table.source.pool), Group([table.pool]))
        schedule = trigger.assigned.get(s.target)
        if schedule is None:
            rows = self._slow._found(s.expr, s.vars, State(self._slow._tables, {}))
            for row in paused([row for row in table.rows if row not in rows], self._gate.pause):
                table.set(row, 0)
            for row, weight in paused(rows.items(), self._gate.pause):
                table.set(row, weight)
            return
        if run_schedule(schedule.address, 0, 0, self._flags_at, 0, 0):
            Group((table.pool, *trigger.temporary.pools)).check(int(self._flags[0]))
            self._forget()
            raise Declined

    def _view_change(self, name: str) -> Rows:
        watch = self._watch(name)
        if watch is None:
            return self._interpreted_change(name)
        total: Rows = {}
        for before, sign in ((False, 1), (True, -1)):
            for row, weight in self._watched(watch, before=before):
                total[row] = total.get(row, 0) + sign * weight
        return {row: weight for row, weight in total.items() if weight}

    def _watched(self, watch: Watch, *, before: bool) -> Iterator[tuple[Row, int]]:
        if watch.run(self._quiet_at, before=before):
            self._forget()
            raise Declined
        arrays, width = watch.out.arrays, len(watch.rows.keys)
        codes = arrays.out[: arrays.block[layout.EMITTED]]
        rows = decode_rows(codes[:, :width], watch.rows.types, self.dictionary)
        return zip(rows, codes[:, width].tolist(), strict=True)

    def _watch(self, name: str) -> Watch | None:
        if name not in self._watches:
            try:
                safe = MANY if name in self._fallible.if_large else -1
                self._watches[name] = Watch(self.program.views[name], self._placed, self, safe=safe)
            except CannotLower:
                self._watches[name] = None
        return self._watches[name]

    def _check_outputs(self, views: Collection[str]) -> None:
        """An error in what readers of a view would see rejects the batch."""
        for name in views:
            watch = self._watch(name)
            if watch is None:
                self._interpreted_change(name)
            elif watch.run(self._quiet_at, before=False):
                self._forget()
                raise Declined

    @cached_property
    def _fallible(self) -> Fallible:
        return fallible_views(self.program, self._placed)

    @property
    def fallible(self) -> frozenset[str]:
        """Views that may be in error, with stores as large as they are."""
        found = self._fallible
        return found.always.union(name for name in found.if_large if self._has_large_stores(name))

    def _has_large_stores(self, view: str) -> bool:
        names = relations(self.program.views[view].output)
        return any(len(self._pools[self._placed[name].pool]) > MANY for name in names)

    def _interpreted_change(self, name: str) -> Rows:
        plan = self.program.views[name]
        with self._journal_of(plan):
            return self._slow._view_change(plan)

    @contextmanager
    def _journal_of(self, plan: ViewPlan) -> Iterator[None]:
        """For as long as the interpreter looks at a view, what the batch has changed in the stores it reads."""
        self._slow._journal = {store: old for store in relations(plan.output) if (old := self._old(store))}
        try:
            yield
        finally:
            self._slow._journal = {}

    def _old(self, store: str) -> dict[Row, Number]:
        """The weights before the batch of what it changed in a store."""
        source = self._placed[store]
        keys, old, new = self._pools[source.pool].changes()
        differ = old[:, source.lane] != new[:, source.lane]
        rows = decode_rows(keys[differ], source.types, self.dictionary)
        return {
            row: weight_of(int(code), source.weight) for row, code in zip(rows, old[differ, source.lane], strict=True)
        }

    # --- compiling

    def _trigger(self, relation: str) -> Ready:
        if relation not in self._triggers:
            info = self._catalog.relations[relation]
            try:
                self._triggers[relation] = Ready(self._plans.of(relation), self)
            except CannotLower as reason:  # of indexes there may be too many for one pool
                self._triggers[relation] = Ready(
                    interpreted_trigger(self.program, info, self._placed, str(reason)), self
                )
        return self._triggers[relation]

    def pool(self, name: str) -> Pool:
        return self._pools[name]
