"""The work of a distributed program, statement by statement: who takes what, where, and what comes of it.

A statement whose result has to be elsewhere becomes two: a `let` where it is computed, which is sent, and an update
where it arrives. So every statement has at most one transfer, of something that has a name (Hot Dog, 4.3.2: single
transformer form).

What needs several changes that arrive one by one waits for all of them: each is put down in a store of its own, which
is read in the place of the change, and cleared afterwards. So does what needs one that may not arrive, when nothing is
left of it: of `TopK(r + d_r) - TopK(r)`, both terms are needed if d_r is zero, and the second one reads no change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from viewmill.algebra.build import product
from viewmill.algebra.nodes import ZERO, AggSum, DeltaRelation, Exists, Expr, Product, Sum, TopK
from viewmill.algebra.schema import bottom_up, deltas, relations
from viewmill.distribute.located import is_whole, locate
from viewmill.distribute.nodes import Anywhere, Buckets, Driver, Everywhere, Here, Mode, Place, Use
from viewmill.distribute.routes import Arrival, Part, Route, Router, Target, joined, renamed_place
from viewmill.distribute.terms import change_atoms, terms_of
from viewmill.distribute.timing import Timing, Work
from viewmill.program.nodes import Program, Statement

Let = tuple[str, tuple[str, ...], Expr]

PUT_DOWN, READ, ADD, CLEAR, ANEW = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Unroutable:
    """What is read together for a target cannot be, where it is."""

    expr: Expr
    target: str


@dataclass(frozen=True, slots=True)
class Unit:
    """One statement, with the `let`s it reads, over one change that arrives; a tick takes several, or none."""

    relation: str
    mode: Mode
    takes: tuple[Arrival, ...]
    statement: Statement
    lets: tuple[Let, ...] = ()
    turn: int = ADD
    is_tick: bool = False

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return (self.statement.expr, *(expr for _, _, expr in self.lets))

    @property
    def uses(self) -> Iterator[Use]:
        reading = self.turn if self.turn >= ANEW else READ
        for name in sorted(frozenset().union(*map(relations, self.exprs))):
            yield Use(name, "read", reading)
        if self.is_tick and self.turn < CLEAR:
            yield from (Use(waiting(arrival), "read", READ) for arrival in self.takes)
        if self.statement.op != "let":
            yield Use(self.statement.target, "set" if self.statement.op == ":=" else "add", self.turn)


@dataclass
class Units:
    """Units of all relations, and the stores for changes that wait."""

    program: Program
    places: Mapping[str, Place]
    units: list[Unit] = field(default_factory=list)
    waiting: dict[str, tuple[Arrival, set[str]]] = field(default_factory=dict)  # by store: what waits, its columns
    failures: list[Unroutable] = field(default_factory=list)

    def add_relation(self, router: Router) -> None:
        trigger = router.trigger
        found: list[Unit] = []
        for s in trigger.statements:
            if s.expr == ZERO or s.op == "let":
                continue
            router.next_statement()
            found += self._anew(trigger.relation, s) if s.op == ":=" else self._updates(router, s)
        found += _makers(router, found)
        found = list(_at_source_or_buckets(trigger.relation, found))
        self.units += self._one_at_a_time(found)

    def _updates(self, router: Router, s: Statement) -> Iterator[Unit]:
        target = self._target(s)
        routes: list[Route] = []
        for term in terms_of(s.expr, s.vars, self.places):
            way = router.route(term, target)
            if way is None:
                self.failures.append(Unroutable(_with_lets(term.product, router), s.target))
                return
            routes.append(way)
        for part in _joined(way.part for way in routes if not way.sent):
            yield _unit(router, part, replace(s, expr=part.expr))
        for part in _joined(way.part for way in routes if way.sent):
            name, columns = router.make(part)
            arrival = Arrival(name, renamed_place(target.place, target.by, s.vars, columns))
            expr = DeltaRelation(arrival.name, columns, s.vars)
            mode: Mode = "driver" if isinstance(target.place, Driver) else "buckets"
            yield Unit(router.trigger.relation, mode, (arrival,), replace(s, expr=expr))

    def _target(self, s: Statement) -> Target:
        place = self.places[s.target]
        if not isinstance(place, Buckets):
            return Target(place)
        keys = self.program.stores[s.target].keys
        return Target(place, tuple(s.vars[keys.index(column)] for column in place.by))

    def _anew(self, relation: str, s: Statement) -> Iterator[Unit]:
        turn = ANEW + [one.target for one in self.program.triggers[relation].statements if one.op == ":="].index(
            s.target
        )
        target = self._target(s)
        if not fits(s.expr, target, self.places):
            self.failures.append(Unroutable(s.expr, s.target))
            return
        mode: Mode = "driver" if isinstance(target.place, Driver) else "buckets"
        yield Unit(relation, mode, (), s, turn=turn, is_tick=True)

    def _one_at_a_time(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Each unit over one change, without which it is zero."""
        for unit in units:
            if not unit.takes or len(unit.takes) == 1 and is_zero_without(unit.takes[0].name, unit):
                yield unit
                continue
            for arrival in unit.takes:
                columns = self.waiting.setdefault(waiting(arrival), (arrival, set()))[1]
                columns |= {f for expr in unit.exprs for node in change_atoms(expr, arrival.name) for f in node.fields}
            yield replace(unit, is_tick=True)

    def waiters(self) -> Iterator[Unit]:
        """Who puts changes down, and who clears them away."""
        for name, (arrival, columns) in self.waiting.items():
            taker = next(u for u in self.units if arrival in u.takes)
            keys = tuple(sorted(columns))
            put = Statement(
                name, keys, "+=", DeltaRelation(arrival.name, keys, keys), "recursive", "others wait for it"
            )
            clear = Statement(name, keys, ":=", ZERO, "recursive", "nobody waits for it any more")
            yield Unit(taker.relation, taker.mode, (arrival,), put, turn=PUT_DOWN)
            yield Unit(taker.relation, taker.mode, (arrival,), clear, turn=CLEAR, is_tick=True)


def arrivals(units: Iterable[Unit]) -> dict[str, Arrival]:
    """All that is taken, by name."""
    return {arrival.name: arrival for unit in units for arrival in unit.takes}


def given(units: Sequence[Unit]) -> list[tuple[str, ...]]:
    """For each unit, the names under which others take what it makes."""
    names: dict[str, list[str]] = {}
    for name, arrival in arrivals(units).items():
        names.setdefault(arrival.change, []).append(name)
    return [tuple(names.get(u.statement.target, ())) if u.statement.op == "let" else () for u in units]


def timing(units: Sequence[Unit]) -> Timing:
    """When they can run, by what each takes, gives and uses."""
    return Timing(
        [
            Work(unit.relation, unit.mode, tuple(arrival.name for arrival in unit.takes), gives, tuple(unit.uses))
            for unit, gives in zip(units, given(units), strict=True)
        ]
    )


def is_zero_without(change: str, unit: Unit) -> bool:
    """Whether a unit has nothing to do if a change is empty."""
    empty = {change}
    for name, _, expr in unit.lets:
        if _is_zero(expr, empty):
            empty.add(name)
    return _is_zero(unit.statement.expr, empty)


def _is_zero(expr: Expr, empty: Collection[str]) -> bool:
    match expr:
        case DeltaRelation(name):
            return name in empty
        case Product(parts):
            return any(_is_zero(part, empty) for part in parts)
        case Sum(terms):
            return all(_is_zero(term, empty) for term in terms)
        case AggSum(_, body) | Exists(body) | TopK(_, _, _, body):
            return _is_zero(body, empty)
        case _:
            return False


def waiting(arrival: Arrival) -> str:
    """The store in which a change waits for others."""
    return f"{arrival.name} waiting"


def fits(expr: Expr, target: Target, places: Mapping[str, Place]) -> bool:
    """Whether what reads stores only is computed where it is wanted, each row in one place."""
    here = {places[name] for name in relations(expr)}
    match target.place:
        case Driver():
            return here <= {Driver()}
        case Everywhere():
            return is_whole(expr, lambda atom: places[atom.name])
        case _:
            found = locate(expr, tuple(frozenset((var,)) for var in target.by), lambda atom: places[atom.name])
            return found.right and found.zero


def _with_lets(expr: Expr, router: Router) -> Expr:
    """With all that its changes read: they fail together."""
    lets = [router.lets[name].expr for name in sorted(deltas(expr)) if name in router.lets]
    return product(expr, *(_with_lets(let, router) for let in lets))


def _unit(router: Router, part: Part, statement: Statement) -> Unit:
    takes = part.supply.arrivals
    return Unit(router.trigger.relation, part.mode, takes, statement, part.supply.lets, is_tick=not takes)


def _joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Parts computed from the same changes, as one."""
    groups: dict[tuple[Mode, tuple[Arrival, ...]], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.mode, part.supply.arrivals), []).append(part)
    for group in groups.values():
        yield joined(group)


def _makers(router: Router, units: Sequence[Unit]) -> Iterator[Unit]:
    """The units that make what these take, and what those take in turn."""
    wanted = [arrival.change for unit in units for arrival in unit.takes]
    done: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in done or name not in router.made:
            continue
        done.add(name)
        made = router.made[name]
        statement = Statement(name, made.keys, "let", made.part.expr, "recursive", "it is read elsewhere")
        unit = _unit(router, made.part, statement)
        yield unit
        wanted += [arrival.change for arrival in unit.takes]


def _at_source_or_buckets(relation: str, units: Sequence[Unit]) -> Iterator[Unit]:
    """What may run at the source does so if nothing of the batch goes to buckets; else in the buckets it goes to."""
    taken = [a for u in units if u.mode == "buckets" for a in u.takes if a.change == relation]
    spread = [arrival for arrival in taken if isinstance(arrival.place, Buckets | Anywhere)]
    here = Arrival(relation, Here()).name
    for unit in units:
        if unit.mode != "source" or not taken:
            yield unit
            continue
        arrival = spread[0] if spread else Arrival(relation, Anywhere())
        names = {here: arrival.name}
        lets = tuple((name, keys, _renamed(expr, names)) for name, keys, expr in unit.lets)
        statement = replace(unit.statement, expr=_renamed(unit.statement.expr, names))
        yield replace(unit, mode="buckets", takes=(arrival,), lets=lets, statement=statement)


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    def step(node: Expr) -> Expr:
        if isinstance(node, DeltaRelation):
            return DeltaRelation(names.get(node.name, node.name), node.fields, node.vars)
        return node

    return bottom_up(step, expr)
