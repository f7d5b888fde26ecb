"""A cluster in one process: `buckets` interpreters for the buckets and one for the driver, doing what plans say.

It is the meaning of `distribute/nodes.py`, slow and obvious, and compares itself with an interpreter that runs the
program undistributed: every store and every view, after every batch.
"""

from __future__ import annotations

import decimal
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isclose
from random import Random

from viewmill.algebra.functions import EXACT
from viewmill.algebra.nodes import Expr
from viewmill.distribute import plan
from viewmill.distribute.nodes import (
    WEIGHT,
    Anywhere,
    Block,
    Buckets,
    Distributed,
    Driver,
    Everywhere,
    Here,
    Plan,
    Send,
)
from viewmill.engines.interpreter import Interpreter
from viewmill.engines.interpreter.expressions import compile_expr
from viewmill.engines.interpreter.tables import Row, Rows, State, Table
from viewmill.program.nodes import Program

Named = dict[str, Rows]
"""Rows with counts, by name; their columns are known from `Distributed.infos`, or are the keys of a `let`."""


class Node(Interpreter):
    """One place: an engine whose triggers are fired by name, and give out their `let`s."""

    def __init__(self, program: Program, stores: Mapping[str, Rows] | None = None) -> None:
        super().__init__()
        self.install(program, {})
        for name, store in program.stores.items():
            self._tables[name] = Table(store.keys, (stores or {}).get(name, {}))

    def begin(self) -> None:
        self._journal = {}

    def fire(self, name: str, rows: Rows) -> dict[str, Table]:
        changes = {name: Table(self.program.fields[name], rows)}
        with decimal.localcontext(EXACT):
            for statement in self.program.triggers[name].statements:
                self._execute(statement, changes)
        return {let: table for let, table in changes.items() if let != name}

    def finish(self) -> None:
        """Views over views follow."""
        with decimal.localcontext(EXACT):
            self._run({}, frozenset())


class Simulation:
    """Starts with what the undistributed program has: stores may hold rows before any table does (`VALUES`)."""

    def __init__(self, distributed: Distributed, truth: Interpreter, buckets: int = 3, seed: int = 1) -> None:
        self.distributed = distributed
        stores = {name: truth.store(name) for name in truth.program.stores}
        parts = [self._part(stores, number, buckets) for number in range(buckets)]
        self.buckets = [Node(distributed.buckets, part) for part in parts]
        self.driver = Node(distributed.driver, stores)
        self.random = Random(seed)
        self._plans: dict[frozenset[str], Plan] = {}

    def _part(self, stores: Mapping[str, Rows], number: int, count: int) -> dict[str, Rows]:
        """What one bucket has of all stores."""
        found = dict(stores)
        for name, place in self.distributed.places.items():
            if isinstance(place, Buckets) and name in stores:
                at = [self.distributed.buckets.stores[name].keys.index(column) for column in place.by]
                found[name] = {
                    row: w for row, w in stores[name].items() if bucket([row[i] for i in at], count) == number
                }
        return found

    def plan(self, relations: Iterable[str]) -> Plan:
        key = frozenset(relations)
        if key not in self._plans:
            self._plans[key] = plan(self.distributed, tuple(sorted(key)))
        return self._plans[key]

    def apply(self, batch: Mapping[str, Mapping[Row, int]], fields: Mapping[str, Sequence[str]]) -> None:
        batch = {name: {row: n for row, n in rows.items() if n} for name, rows in batch.items()}
        batch = {name: rows for name, rows in batch.items() if rows}
        for node in (*self.buckets, self.driver):
            node.begin()
        gathered: Named = {}
        arrived: list[Named] = []
        for block in self.plan(batch).blocks:
            match block.mode:
                case "source":
                    arrived = self._empty()
                    for send in block.sends:
                        if send.incoming:
                            rows = passing(send.where, fields[send.source], batch[send.source])
                            table = Table(tuple(fields[send.source]), rows)
                            self._deliver(send, table, None, arrived, gathered)
                    for name in block.fires:
                        for part in self._scattered(batch[name]):
                            self._at_source(block, name, part, arrived, gathered, fields[name])
                case "buckets":
                    arrived = self._in_buckets(block, arrived, gathered)
                case "driver":
                    self._run(self.driver, block, gathered)
        self.driver.finish()

    def _empty(self) -> list[Named]:
        return [{} for _ in self.buckets]

    def _scattered(self, rows: Rows) -> Iterator[Rows]:
        parts: list[Rows] = [{}, {}]
        for row, count in rows.items():
            self.random.choice(parts)[row] = count
        return (part for part in parts if part)

    def _at_source(
        self, block: Block, name: str, rows: Rows, arrived: list[Named], gathered: Named, fields: Sequence[str]
    ) -> None:
        wanted = self.distributed.infos[name].names
        batch = _projected(Table(tuple(fields), rows), wanted)
        lets = Node(self.distributed.source).fire(name, batch)
        for send in block.sends:
            if not send.incoming and send.source in lets:
                self._deliver(send, lets[send.source], None, arrived, gathered)

    def _in_buckets(self, block: Block, arrived: list[Named], gathered: Named) -> list[Named]:
        following = self._empty()
        for number, node in enumerate(self.buckets):
            lets = self._run(node, block, arrived[number])
            for send in block.sends:
                if send.source in lets:
                    self._deliver(send, lets[send.source], number, following, gathered)
                elif send.source in arrived[number]:
                    names = self.distributed.infos[send.source].names
                    table = Table(names, arrived[number][send.source])
                    self._deliver(send, table, number, following, gathered)
        return following

    def _run(self, node: Node, block: Block, arrived: Named) -> dict[str, Table]:
        lets: dict[str, Table] = {}
        others = {send.info.name: send.source for send in block.within}
        for name in block.fires:
            rows = {(0,): 1} if name in self.distributed.ticks else arrived.get(others.get(name, name), {})
            if rows:
                found = node.fire(name, rows)
                assert not {send.source for send in block.sends} & set(found) & set(lets), "a name given twice"
                lets |= found
        return lets

    def _deliver(self, send: Send, table: Table, here: int | None, arrived: list[Named], gathered: Named) -> None:
        names = send.info.names
        if WEIGHT in names and WEIGHT not in table.fields:
            rows = _weighted(table, names)
        else:
            rows = _projected(table, names)
        for row, count in rows.items():
            for target in self._targets(send, row, here, arrived, gathered):
                into = target.setdefault(send.info.name, {})
                into[row] = into.get(row, 0) + count
                if not into[row]:
                    del into[row]

    def _targets(self, send: Send, row: Row, here: int | None, arrived: list[Named], gathered: Named) -> list[Named]:
        match send.to:
            case Driver():
                return [gathered]
            case Everywhere():
                return arrived
            case Anywhere():
                return [self.random.choice(arrived)]
            case Here():
                assert here is not None
                return [arrived[here]]
            case Buckets(by):
                return [arrived[bucket([row[send.info.names.index(name)] for name in by], len(arrived))]]

    # --- comparing

    def complaints(self, truth: Interpreter) -> list[str]:
        """All that is not as in the undistributed program."""
        found = []
        for name in self.distributed.places:
            found += [f"store {name}: {wrong}" for wrong in self._store_complaints(name, truth)]
        for name in truth.program.views:
            if wrong := difference(self.contents(name), truth.contents(name)):
                found.append(f"view {name}: {wrong}")
        return found

    def contents(self, view: str) -> Rows:
        place = self.distributed.views[view]
        if place == Driver():
            return self.driver.contents(view)
        parts = [node.contents(view) for node in self.buckets]
        if place == Everywhere():
            return parts[0]
        assert sum(map(len, parts)) == len({row for part in parts for row in part}), f"{view}: a row in two buckets"
        return {row: count for part in parts for row, count in part.items()}

    def _store_complaints(self, name: str, truth: Interpreter) -> Iterator[str]:
        place = self.distributed.places[name]
        expected = truth.store(name) if name in truth.program.stores else {}
        if place == Driver():
            parts = [self.driver.store(name)]
        else:
            parts = [node.store(name) for node in self.buckets]
        if place == Everywhere():
            yield from filter(None, (difference(part, expected) for part in parts))
            return
        if isinstance(place, Buckets) and name in truth.program.stores:
            at = [truth.program.stores[name].keys.index(column) for column in place.by]
            for number, part in enumerate(parts):
                if any(bucket([row[i] for i in at], len(parts)) != number for row in part):
                    yield "a record in the wrong bucket"
        if wrong := difference({row: weight for part in parts for row, weight in part.items()}, expected):
            yield wrong


def bucket(values: Sequence[object], count: int) -> int:
    """Any hash will do, if equal values have equal ones: 0.0 and -0.0, 1.5 and 1.50."""
    numbers = (int, float, decimal.Decimal)
    text = "|".join(str(hash(v)) if isinstance(v, numbers) and v == v else str(v) for v in values)
    return zlib.crc32(text.encode()) % count


def passing(where: Sequence[Expr], fields: Sequence[str], rows: Mapping[Row, int]) -> Rows:
    tests = [compile_expr(test, frozenset(fields)) for test in where]
    state = State({}, {})
    return {row: n for row, n in rows.items() if all(any(t(state, dict(zip(fields, row, strict=True)))) for t in tests)}


def _projected(table: Table, names: Sequence[str]) -> Rows:
    at = [table.fields.index(name) for name in names]
    total: Counter[Row] = Counter()
    for row, count in table.rows.items():
        total[tuple(row[i] for i in at)] += count
    return {row: count for row, count in total.items() if count}


def _weighted(table: Table, names: Sequence[str]) -> Rows:
    at = [table.fields.index(name) for name in names if name != WEIGHT]
    return {(*(row[i] for i in at), weight): 1 for row, weight in table.rows.items()}


def difference(found: Rows, expected: Rows) -> str:
    """What two multisets do not share; floats may differ in their last digits."""
    if found == expected:
        return ""
    extra = {row: w for row, w in found.items() if expected.get(row) != w}
    missing = {row: w for row, w in expected.items() if found.get(row) != w}
    left = list(missing.items())
    for row, weight in list(extra.items()):
        match = next((one for one in left if _close((*row, weight), (*one[0], one[1]))), None)
        if match is not None:
            left.remove(match)
            del extra[row]
        elif isinstance(weight, float) and abs(weight) < 1e-6:
            del extra[row]
    left = [one for one in left if not (isinstance(one[1], float) and abs(one[1]) < 1e-6)]
    return f"{dict(list(extra.items())[:3])} instead of {dict(left[:3])}" if extra or left else ""


def _close(left: Sequence[object], right: Sequence[object]) -> bool:
    """What is left of a sum of squares when nothing should be is 1e-11; a standard deviation is the root of that."""
    return all(
        isclose(a, b, rel_tol=1e-7, abs_tol=1e-5) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(left, right, strict=True)
    )
