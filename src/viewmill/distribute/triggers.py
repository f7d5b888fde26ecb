"""Units become triggers of ordinary programs: for the source, for every bucket, and for the driver.

Units that take the same change at the same time share a trigger, and with it the `let`s they read. What arrived from
another place has its weights in a column:

    d_`orders#1`(o) * M(o)   =>   d_`orders#1@o`(o, weight_) * weight_ * M(o)

and where it is not a mere factor, its rows are added up first: several buckets may have sent some for one key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from viewmill.algebra.build import agg_sum, product, sum_
from viewmill.algebra.nodes import ZERO, AggSum, DeltaRelation, Expr, Product, Relation, Sum, Value
from viewmill.algebra.scalars import Var
from viewmill.algebra.schema import bottom_up, deltas, relations, schema, variables
from viewmill.catalog import Catalog, RelationInfo
from viewmill.distribute.dead_code import columns_read, rows_read
from viewmill.distribute.fuse import fuse, one_by_one
from viewmill.distribute.kinds import Kind, Kinds
from viewmill.distribute.nodes import TICK, WEIGHT, Buckets, Fire, Here, Mode, Send
from viewmill.distribute.routes import Arrival
from viewmill.distribute.units import CLEAR, Unit, arrivals, given, timing, waiting
from viewmill.errors import InternalError
from viewmill.program.nodes import Program, Statement, Store, Trigger
from viewmill.program.order import Found, order


@dataclass
class Built:
    """The triggers of every place, and how they are fired."""

    triggers: dict[Mode, dict[str, Trigger]] = field(
        default_factory=lambda: {"source": {}, "buckets": {}, "driver": {}}
    )
    infos: dict[str, RelationInfo] = field(default_factory=dict)
    fires: list[Fire] = field(default_factory=list)
    incoming: list[Send] = field(default_factory=list)
    looked_at: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    ticks: set[str] = field(default_factory=set)
    stores: dict[str, Store] = field(default_factory=dict)  # of changes that wait


@dataclass
class Builder:
    units: Sequence[Unit]
    waiting: Mapping[str, tuple[Arrival, set[str]]]
    program: Program
    catalog: Catalog
    found: Found
    order: Sequence[str]  # of relations
    fused: bool = True
    lean: bool = True  # leave out what nobody reads
    kinds: Kinds = field(default_factory=Kinds)
    built: Built = field(default_factory=Built)

    def build(self) -> Built:
        for store in self.program.stores.values():
            self.kinds.add_store(store)
        groups = self._groups()
        self._declare()
        for group in groups:
            self._fire(group)
        self._incoming()
        return self.built

    # --- what is done together

    @cached_property
    def _arrivals(self) -> dict[str, Arrival]:
        return arrivals(self.units)

    @cached_property
    def _given(self) -> dict[str, tuple[str, ...]]:
        """What is made to be sent, and the names under which it is taken."""
        made = zip(self.units, given(self.units), strict=True)
        return {unit.statement.target: names for unit, names in made if unit.statement.op == "let"}

    def _groups(self) -> list[list[Unit]]:
        found = timing(self.units)
        timed = found.timed(self.order)
        groups = (fuse if self.fused else one_by_one)(self.units, timed, found.edges(self.order))
        return [[self.units[i] for i in group] for group in groups]

    # --- what is known of every change

    def _declare(self) -> None:
        """The types of everything that arrives, in the order in which it is made."""
        for name, arrival in self._arrivals.items():
            if (info := self.catalog.relations.get(arrival.change)) is not None:
                self.kinds.known[name] = Kind(info.columns)
        makers = {unit.statement.target: unit for unit in self.units if unit.statement.op == "let"}
        done: set[str] = set()

        def declare(name: str) -> None:
            if name in done or name not in makers:
                return
            done.add(name)
            unit = makers[name]
            for arrival in unit.takes:
                declare(arrival.change)
                self._wait_for(arrival)
            for let, keys, expr in unit.lets:
                self.kinds.add_let(let, keys, expr)
            kind = self.kinds.add_let(name, unit.statement.vars, unit.statement.expr)
            self.kinds.known |= dict.fromkeys(self._given[name], kind)

        for name in makers:
            declare(name)
        for arrival in self._arrivals.values():
            self._wait_for(arrival)
        read = columns_read(self.units)
        for name, arrival in self._arrivals.items():
            self.built.infos[name] = self._info(name, arrival, read.get(name, set()))

    def _wait_for(self, arrival: Arrival) -> None:
        name = waiting(arrival)
        if name in self.waiting and name not in self.built.stores:
            keys = tuple(sorted(self.waiting[name][1]))
            kind = self.kinds.known[arrival.name]
            types = tuple(kind.column(key).type for key in keys)
            rows: Expr = Relation(arrival.name, keys, keys)
            if arrival.change not in self.catalog.relations:
                rows = agg_sum(
                    keys, product(Relation(arrival.name, (*keys, WEIGHT), (*keys, WEIGHT)), Value(Var(WEIGHT)))
                )
            self.built.stores[name] = Store(name, keys, rows, types, kind.weight)
            self.kinds.add_store(self.built.stores[name])

    def _info(self, name: str, arrival: Arrival, used: set[str]) -> RelationInfo:
        kind = self.kinds.known[name]
        if arrival.change not in self.catalog.relations:
            return kind.travelling(name)
        columns = used if self.lean else {column.name for column in kind.columns}
        columns = columns | set(arrival.place.by if isinstance(arrival.place, Buckets) else ())
        return kind.info(name, columns or {kind.columns[0].name})

    # --- triggers

    def _fire(self, group: Sequence[Unit]) -> None:
        first = group[0]
        name = self._name(first)
        travelled = first.takes[0] if len(first.takes) == 1 and not first.is_tick else None
        statements = list(self._statements(group, name, travelled))
        self.built.triggers[first.mode][name] = Trigger(name, tuple(statements))
        uses = tuple(dict.fromkeys(use for unit in group for use in unit.uses))
        sends = tuple(send for unit in group for send in self._sends(unit))
        takes = tuple(a.name for a in first.takes)
        self.built.fires.append(Fire(name, first.relation, first.mode, takes, uses, sends))

    def _name(self, unit: Unit) -> str:
        """The name of what arrived, or another one if that has a trigger already."""
        taken = self.built.triggers[unit.mode]
        if unit.mode == "source":
            return unit.relation
        if unit.is_tick:
            number = 1 + len([name for name in self.built.ticks if name.startswith(f"{unit.relation} tick ")])
            name = f"{unit.relation} tick {number}"
            self.built.ticks.add(name)
            self.built.infos[name] = RelationInfo(name, (TICK,), kind="stream", stored=False)
            return name
        (arrival,) = unit.takes
        name, count = arrival.name, 1
        while name in taken:
            count += 1
            name = f"{arrival.name} {count}"
        if name != arrival.name:
            self.built.infos[name] = replace(self.built.infos[arrival.name], name=name)
        return name

    def _statements(self, group: Sequence[Unit], name: str, arrival: Arrival | None) -> Iterator[Statement]:
        lets = {let[0]: let for unit in group for let in unit.lets}
        parts = [Statement(let, keys, "let", expr, "recursive", "read here") for let, keys, expr in lets.values()]
        merged: dict[tuple[str, str], Statement] = {}
        for unit in group:
            s = unit.statement
            old = merged.get((s.target, s.op))
            merged[s.target, s.op] = s if old is None or s.expr == ZERO else replace(s, expr=_added(old, s))
        parts += merged.values()
        if arrival is not None:
            parts = self._arrived(parts, name, arrival)
        elif group[0].turn < CLEAR:
            for taken in group[0].takes:  # not under its own name: what arrived may have to be sent on
                parts = [
                    self._waited(taken),
                    *(replace(s, expr=_renamed(s.expr, taken.name, _ready(taken))) for s in parts),
                ]
        parts = _plainly_named(parts, {name, *(_ready(taken) for taken in group[0].takes)})
        yield from (replace(s, expr=order(s.expr, found=self._size)) for s in in_order(parts))

    def _size(self, name: str, given: frozenset[str]) -> float:
        """What waits is as small as a batch."""
        return 2.0 if name in self.waiting else self.found(name, given)

    def _arrived(self, statements: Sequence[Statement], name: str, arrival: Arrival) -> list[Statement]:
        """The statements over the rows that arrive under the trigger's name."""
        if arrival.change in self.catalog.relations:
            return [replace(s, expr=_renamed(s.expr, arrival.name, name)) for s in statements]
        columns = tuple(column.name for column in self.kinds.known[arrival.name].columns)
        total = DeltaRelation(name, (*columns, WEIGHT), (*columns, WEIGHT))
        summed = agg_sum(columns, product(total, Value(Var(WEIGHT))))
        rows = f"{name} rows"  # the trigger may have the name of what is being replaced
        found = [replace(s, expr=_weighted(s.expr, arrival.name, rows)) for s in statements]
        if any(arrival.name in deltas(s.expr) for s in found):
            found = [replace(s, expr=_renamed(s.expr, arrival.name, arrival.change)) for s in found]
            found.insert(0, Statement(arrival.change, columns, "let", summed, "recursive", "its parts added up"))
        return [replace(s, expr=_renamed(s.expr, rows, name)) for s in found]

    def _waited(self, arrival: Arrival) -> Statement:
        """What has been put down, as the change that it is."""
        store = self.built.stores[waiting(arrival)]
        expr = Relation(store.name, store.keys, store.keys)
        return Statement(_ready(arrival), store.keys, "let", expr, "recursive", "it has waited for others")

    def _sends(self, unit: Unit) -> Iterator[Send]:
        for name in self._given[unit.statement.target] if unit.statement.op == "let" else ():
            yield Send(unit.statement.target, self.built.infos[name], self._arrivals[name].place)

    def _incoming(self) -> None:
        for name, arrival in self._arrivals.items():
            if arrival.change in self.catalog.relations and not isinstance(arrival.place, Here):
                info = self.built.infos[name]
                where = rows_read(name, self.units) if self.lean else ()
                self.built.incoming.append(Send(arrival.change, info, arrival.place, True, where))
        for name in [name for name, arrival in self._arrivals.items() if isinstance(arrival.place, Here)]:
            info = self.built.infos.pop(name)
            relation = self._arrivals[name].change
            self.built.infos[relation] = replace(info, name=relation)
            self.built.looked_at[relation] = rows_read(name, self.units) if self.lean else ()


def _ready(arrival: Arrival) -> str:
    """The name of a change that has waited for others."""
    return f"{arrival.name} ready"


def _plainly_named(statements: Sequence[Statement], fixed: set[str]) -> list[Statement]:
    """`d_"M@k"` is `d_M`, where there is only one: readers know it for the change of M."""
    plain: dict[str, list[str]] = {}
    for s in statements:
        if s.op == "let" and s.target not in fixed:
            plain.setdefault(s.target.rpartition("@")[0] or s.target, []).append(s.target)
    names = {long: short for short, (long, *others) in plain.items() if not others and short not in fixed}

    def step(node: Expr) -> Expr:
        if isinstance(node, DeltaRelation):
            return DeltaRelation(names.get(node.name, node.name), node.fields, node.vars)
        return node

    return [
        replace(s, target=names.get(s.target, s.target) if s.op == "let" else s.target, expr=bottom_up(step, s.expr))
        for s in statements
    ]


def _added(old: Statement, new: Statement) -> Expr:
    """Two updates of one store as one. The variables may have other names."""
    assert old.vars == new.vars
    return sum_((old.expr, new.expr))


def in_order(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Changes before those who read them, readers of a store before it is updated, `:=` last."""
    lets = [s for s in statements if s.op == "let"]
    updates = [s for s in statements if s.op == "+="]
    yield from _sorted(lets, lambda a, b: b.target in deltas(a.expr))
    yield from _sorted(updates, lambda a, b: a.target in relations(b.expr))
    yield from (s for s in statements if s.op == ":=")


def _sorted(statements: list[Statement], after: Callable[[Statement, Statement], bool]) -> Iterator[Statement]:
    left = list(statements)
    while left:
        free = next((a for a in left if not any(b is not a and after(a, b) for b in left)), None)
        if free is None:
            raise InternalError(f"statements read each other in a circle: {', '.join(s.target for s in left)}")
        left.remove(free)
        yield free


def _renamed(expr: Expr, old: str, new: str) -> Expr:
    def step(node: Expr) -> Expr:
        if isinstance(node, DeltaRelation) and node.name == old:
            return DeltaRelation(new, node.fields, node.vars)
        return node

    return bottom_up(step, expr)


def _weighted(expr: Expr, old: str, new: str) -> Expr:
    """A change that is a factor of a term: rows with their weights."""
    match expr:
        case Sum(terms):
            return sum_(_weighted(term, old, new) for term in terms)
        case AggSum(group, body):
            return agg_sum(group, _body_weighted(body, old, new))
        case _:
            changed = _body_weighted(expr, old, new)
            return expr if changed is expr else agg_sum(schema(expr), changed)


def _body_weighted(body: Expr, old: str, new: str) -> Expr:
    match body:
        case Sum(terms):
            return sum_(_body_weighted(term, old, new) for term in terms)
        case AggSum(group, inner):
            return agg_sum(group, _body_weighted(inner, old, new))
        case DeltaRelation() if body.name == old:
            return product(*_rows(body, new, set(body.vars)))
        case Product(parts) if any(isinstance(part, DeltaRelation) and part.name == old for part in parts):
            taken, found = set(variables(body)), list[Expr]()
            for part in parts:
                if isinstance(part, DeltaRelation) and part.name == old:
                    found += _rows(part, new, taken)
                else:
                    found.append(part)
            return product(*found)
        case _:
            return body


def _rows(atom: DeltaRelation, name: str, taken: set[str]) -> tuple[Expr, Expr]:
    weight = WEIGHT
    while weight in taken:
        weight += "_"
    taken.add(weight)
    return DeltaRelation(name, (*atom.fields, WEIGHT), (*atom.vars, weight)), Value(Var(weight))
