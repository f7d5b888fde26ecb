"""How each term of a trigger is computed: where, from which changes, and what travels on the way (Hot Dog, 4.3.1).

A term is computed whole where all its stores are: in buckets by one variable, with the changes sent there, or on the
driver. If its stores are in different buckets it is computed leg by leg; what a leg makes travels to the next one:

    d_orders(o, c) * M_customer(c) * M_lineitem(o)        M_customer by c, M_lineitem by o
    leg 1, in buckets by c:    let d_orders_1(o) = Sum[o](d_orders(o, c) * M_customer(c))
    leg 2, in buckets by o:    d_orders_1(o) * M_lineitem(o)

Of all ways the cheapest is taken: fewest rounds first; then large batches are not copied to every bucket, and few
things are sent. A store is never moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from viewmill.algebra.build import sum_
from viewmill.algebra.nodes import DeltaRelation, Expr, Lift, Relation, Test, Value
from viewmill.algebra.scalars import can_fail
from viewmill.algebra.schema import anonymous, bottom_up, deltas, inputs, relations, schema, walk
from viewmill.distribute.located import Atom, Owner, is_whole, linked, locate, same_names, variable, widen
from viewmill.distribute.nodes import Anywhere, Buckets, Driver, Everywhere, Here, Mode, Place
from viewmill.distribute.terms import Term, change_atoms, terms_of
from viewmill.program.nodes import Statement, Trigger

ROUND = 100.0
"""What one more block costs."""

LARGE_COPIES = 150.0
"""A large batch in every bucket: worse than a round."""

COPIES, LARGE_TO_DRIVER, SEND, TOGETHER, PYTHON_AT_SOURCE = 3.0, 30.0, 1.0, 20.0, 0.5


@dataclass(frozen=True, slots=True)
class Arrival:
    """A change where it is needed. `change` is a relation of the mill, or something made on the way.

    `copy` tells apart what is sent to one place for each statement anew.
    """

    change: str
    place: Place
    copy: int = 0

    @property
    def name(self) -> str:
        return f"{self.change}@{place_name(self.place)}" + (f" copy {self.copy}" if self.copy else "")


def renamed_place(place: Place, by: Sequence[str], vars_: Sequence[str], columns: Sequence[str]) -> Place:
    """A place in the words of what is sent there: made once for several, it has the names that the first one gave."""
    return Buckets(tuple(columns[vars_.index(var)] for var in by)) if isinstance(place, Buckets) else place


def place_name(place: Place) -> str:
    return ",".join(place.by) if isinstance(place, Buckets) else type(place).__name__.lower()


@dataclass(frozen=True, slots=True)
class Supply:
    """How a change is had at a place: under which name, from what has arrived there, with which `let`s."""

    name: str
    rounds: int
    extra: float
    arrivals: tuple[Arrival, ...]
    lets: tuple[tuple[str, tuple[str, ...], Expr], ...] = ()

    @property
    def cost(self) -> float:
        return ROUND * self.rounds + self.extra


@dataclass(frozen=True, slots=True)
class Part:
    """Terms computed at one place, over what has arrived there. `owner` says whose rows a bucket then has."""

    mode: Mode
    supply: Supply  # of all changes together
    expr: Expr
    owner: Owner | None  # None: every bucket has all of it, or it is on the driver
    keys: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return self.mode == "buckets" and self.owner is None


@dataclass(frozen=True, slots=True)
class Made:
    """A change made on the way, to be sent on."""

    name: str
    keys: tuple[str, ...]
    part: Part


@dataclass(frozen=True, slots=True)
class Route:
    """The last part of a term's computation, and whether its result has yet to be sent to the target."""

    part: Part
    sent: bool
    cost: float


@dataclass(frozen=True, slots=True)
class Target:
    """Where a result is wanted: the place, and the names of the variables that say in which bucket."""

    place: Place
    by: tuple[str, ...] = ()


@dataclass
class Router:
    """The ways of one trigger. `large` are the relations of which no copies should be made."""

    trigger: Trigger
    places: Mapping[str, Place]
    large: frozenset[str]
    thrifty: bool = True  # look for the cheapest way; else take each store by itself, in the order of the text
    sharing: bool = True  # what is equal is made once
    taken: frozenset[str] = frozenset()  # names of others
    made: dict[str, Made] = field(default_factory=dict)
    copying: bool = False  # what came in is sent for each statement anew
    _copies: int = 0
    _supplies: dict[tuple[str, Place], Supply | None] = field(default_factory=dict)
    _forms: dict[object, str] = field(default_factory=dict)
    _homes: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    _routes: dict[tuple[Term, Target], Route | None] = field(default_factory=dict)

    @cached_property
    def lets(self) -> dict[str, Statement]:
        return {s.target: s for s in self.trigger.statements if s.op == "let"}

    def next_statement(self) -> None:
        """What is sent from now on is not what was sent before."""
        if self.copying:
            self._copies += 1
            for known in (self._supplies, self._homes, self._routes):
                known.clear()

    # --- routes

    def route(self, term: Term, target: Target) -> Route | None:
        """The cheapest way to compute a term for its target; None if there is none."""
        key = term, target
        if key not in self._routes:
            self._routes[key] = None
            self._routes[key] = min(self._ways(term, target), key=lambda way: way.cost, default=None)
        return self._routes[key]

    def _ways(self, term: Term, target: Target) -> Iterator[Route]:
        at_once = [way for part in self.parts(term) for way in self._delivered(part, target)]
        if self.thrifty:
            yield from at_once
            if any(way.cost <= 2 * ROUND for way in at_once):
                return  # a second leg would be a second round
            for shorter in self._cut(term):
                if (way := self.route(shorter, target)) is not None:
                    yield way
            return
        several = len([f for f in term.factors if relations(f)]) > 1
        legs = (self.route(shorter, target) for shorter in self._cut(term)) if several else iter(())
        first = next((way for way in legs if way is not None), None)
        yield from (first,) if first is not None else at_once

    def _delivered(self, part: Part, target: Target) -> Iterator[Route]:
        cost = part.supply.cost
        match target.place:
            case Driver():
                if part.mode == "driver":
                    yield Route(part, False, cost)
                elif not part.is_whole:
                    yield Route(part, True, cost + SEND)
            case _ if part.mode == "driver":
                return
            case Everywhere():
                if part.is_whole:
                    yield Route(part, False, cost)
                else:
                    yield Route(part, True, cost + ROUND + COPIES)
            case _:
                here = part.owner is not None and len(part.owner) == len(target.by)
                if here and all(var in names for var, names in zip(target.by, part.owner or (), strict=True)):
                    yield Route(part, False, cost)
                elif not part.is_whole:
                    yield Route(part, True, cost + ROUND + SEND)

    # --- whole terms

    def parts(self, term: Term) -> Iterator[Part]:
        """Every way to compute a term in one place."""
        places = {self.places[name] for name in term.stores}
        if places <= {Driver()}:
            yield from self._part("driver", term, dict.fromkeys(term.changes, Driver()), None)
        if Driver() in places:
            return
        if self._is_linear(term) and places <= {Everywhere()}:
            if places:
                yield from self._part("buckets", term, dict.fromkeys(term.changes, Anywhere()), ())
            else:
                yield from self._part("source", term, dict.fromkeys(term.changes, Here()), ())
        for owner, forms in self._contexts(term):
            here = self._placing(forms)
            found = locate(term.product, owner, here)
            if found.right and found.zero:
                yield from self._part("buckets", term, forms, widen(owner, term.factors))
            elif is_whole(term.product, here):
                yield from self._part("buckets", term, forms, None)

    def _part(self, mode: Mode, term: Term, forms: Mapping[str, Place], owner: Owner | None) -> Iterator[Part]:
        supplies = {change: self.supply(change, forms[change]) for change in term.changes}
        found = [supply for supply in supplies.values() if supply is not None]
        if len(found) < len(supplies):
            return
        names = {change: supply.name for change, supply in supplies.items() if supply is not None}
        together = _together(found)
        if mode == "source" and any(arrival.change != self.trigger.relation for arrival in together.arrivals):
            return
        yield Part(mode, together, _renamed(term.expr, names), owner, term.keys)

    def _placing(self, forms: Mapping[str, Place]) -> _Placing:
        return _Placing(self.places, forms)

    def _is_linear(self, term: Term) -> bool:
        """One change, once, as a factor: it may be in pieces."""
        flat = [f for f in term.factors if isinstance(f, DeltaRelation)]
        return len(flat) == 1 and len(term.changes) == 1 and sum(bool(deltas(f)) for f in term.factors) == 1

    def _contexts(self, term: Term) -> Iterator[tuple[Owner, dict[str, Place]]]:
        """Variables by whose hash a term might be computed, and where its changes then have to be."""
        everywhere: dict[str, Place] = dict.fromkeys(term.changes, Everywhere())
        seen: set[tuple[Owner, tuple[tuple[str, Place], ...]]] = set()
        for names in self._hashes(term):
            owner = tuple(one & set(schema(term.product)) for one in names)
            if not all(owner):
                continue
            for forms in ({change: _form(term, change, names) for change in term.changes}, everywhere):
                key = owner, tuple(sorted(forms.items(), key=lambda item: item[0]))
                if key not in seen:
                    seen.add(key)
                    yield owner, forms
        yield (frozenset(),), everywhere

    def _hashes(self, term: Term) -> Iterator[Owner]:
        """The hashes of the stores, or, if no store is in buckets, of columns of the changes."""
        links = [pair for node in walk(term.product) for pair in same_names(node)]
        found: dict[Owner, None] = {}
        for node in walk(term.product):
            place = self.places.get(node.name) if isinstance(node, Relation) else None
            if isinstance(node, Relation) and isinstance(place, Buckets):
                vars_ = [variable(node, column) for column in place.by]
                if None not in vars_:
                    found[_closed([var for var in vars_ if var], links)] = None
        if not found:
            for node in walk(term.product):
                if isinstance(node, DeltaRelation):
                    found.update(dict.fromkeys(_closed([var], links) for var in node.vars))
        yield from found

    # --- terms in several legs

    def _cut(self, term: Term) -> Iterator[Term]:
        """The term with its first leg computed and sent on: `d_made(...) * what is left`."""
        for owner, forms in self._contexts(term):
            first = self._first_leg(term, owner, forms)
            if first is None:
                continue
            rest = _without(term.factors, first.factors)
            for part in self._part("buckets", first, forms, widen(owner, first.factors)):
                name, columns = self.make(part)
                yield Term(term.keys, (DeltaRelation(name, columns, first.keys), *rest))

    def _first_leg(self, term: Term, owner: Owner, forms: Mapping[str, Place]) -> Term | None:
        """All that reads changes, and as many stores as are at hand there and joined with it."""
        given = frozenset().union(*(schema(f) for f in term.factors if isinstance(f, DeltaRelation)))
        done = [f for f in term.factors if deltas(f) and inputs(f) <= given]
        left = [f for f in term.factors if f not in done]
        here = self._placing(forms)
        stores = 0
        while done:
            bound = frozenset().union(*map(schema, done))
            known = widen(owner, done)
            ready = [f for f in left if inputs(f) <= bound]
            easy = [f for f in ready if not relations(f) and not deltas(f) and not _is_risky(f)]
            if easy:
                done, left = [*done, *easy], [f for f in left if f not in easy]
                continue
            joined = [
                f
                for f in ready
                if relations(f)
                and (not schema(f) or set(schema(f)) & bound or inputs(f))
                and locate(f, known, here).right
                and (self.thrifty or not stores)
            ]
            if not joined:
                break
            stores += 1
            done, left = [*done, joined[0]], list(_without(left, joined[:1]))
        body = Term((), tuple(done))
        found = locate(body.product, owner, here)
        if not stores or not any(relations(f) for f in left) or not (found.right and found.zero):
            return None
        wanted = set(term.keys).union(*map(inputs, left), *map(schema, left))
        return replace(body, keys=tuple(name for name in schema(body.product) if name in wanted))

    def make(self, part: Part) -> tuple[str, tuple[str, ...]]:
        """A name for what a part computes, and its columns in the order of the part's keys."""
        form, names = anonymous(part.expr)
        key = (part.mode, part.supply.arrivals, form, tuple(names.index(k) for k in part.keys))
        if self.sharing and key in self._forms:
            made = self.made[self._forms[key]]
            return made.name, made.keys
        numbered = (f"{self.trigger.relation}#{number}" for number in count(len(self.made) + 1))
        name = next(name for name in numbered if name not in self.made and name not in self.taken)
        self.made[name] = Made(name, part.keys, part)
        self._forms[key] = name
        return name, part.keys

    # --- changes

    def supply(self, change: str, place: Place) -> Supply | None:
        key = change, place
        if key not in self._supplies:
            self._supplies[key] = None
            found = list(self._supplied(change, place))
            self._supplies[key] = min(found, key=lambda one: one.cost, default=None)
        return self._supplies[key]

    def _supplied(self, change: str, place: Place) -> Iterator[Supply]:
        if change in self.lets:
            yield from self._computed(self.lets[change], place)
            yield from self._received(self.lets[change], place)
        elif change in self.made:
            if not isinstance(place, Anywhere | Here):
                yield self._sent(self.made[change], place)
        else:
            yield self._raw(place)

    def _raw(self, place: Place) -> Supply:
        """The batch as it came in."""
        arrival = Arrival(self.trigger.relation, place, 0 if isinstance(place, Here) else self._copies)
        large = self.trigger.relation in self.large
        match place:
            case Driver():
                extra, rounds = (LARGE_TO_DRIVER if large else SEND), 0
            case Here():
                extra, rounds = PYTHON_AT_SOURCE, 0
            case Everywhere():
                extra, rounds = (LARGE_COPIES if large else COPIES), 1
            case _:
                extra, rounds = SEND, 1
        return Supply(arrival.name, rounds, extra, (arrival,))

    def _sent(self, made: Made, place: Place) -> Supply:
        arrival = Arrival(made.name, place)
        rounds = made.part.supply.rounds + (0 if isinstance(place, Driver) else 1)
        extra = made.part.supply.extra + (COPIES if isinstance(place, Everywhere) else SEND)
        return Supply(arrival.name, rounds, extra, (arrival,))

    def _computed(self, let: Statement, place: Place) -> Iterator[Supply]:
        """In its place, from the changes it reads."""
        terms = terms_of(let.expr, let.vars, self.places)
        found: list[Part] = []
        for term in terms:
            part = min(self._computed_term(term, place), key=lambda one: one.supply.cost, default=None)
            if part is None:
                return
            found.append(part)
        together = _together([part.supply for part in found])
        name = f"{let.target}@{place_name(place)}"
        lets = (*together.lets, (name, let.vars, sum_(part.expr for part in found)))
        yield Supply(name, together.rounds, together.extra, together.arrivals, lets)

    def _computed_term(self, term: Term, place: Place) -> Iterator[Part]:
        match place:
            case Driver():
                if {self.places[name] for name in term.stores} <= {Driver()}:
                    yield from self._part("driver", term, dict.fromkeys(term.changes, place), None)
            case Anywhere() | Here():
                if not term.stores and self._is_linear(term):
                    yield from self._part("source", term, dict.fromkeys(term.changes, place), ())
            case Everywhere():
                forms: dict[str, Place] = dict.fromkeys(term.changes, place)
                if is_whole(term.product, self._placing(forms)):
                    yield from self._part("buckets", term, forms, None)
            case Buckets(by):
                links = [pair for node in walk(term.product) for pair in same_names(node)]
                names = _closed(by, links)
                owner: Owner = tuple(one & set(schema(term.product)) for one in names)
                everywhere: dict[str, Place] = dict.fromkeys(term.changes, Everywhere())
                for forms in ({change: _form(term, change, names) for change in term.changes}, everywhere):
                    found = locate(term.product, owner, self._placing(forms))
                    if found.right and found.zero:
                        yield from self._part("buckets", term, forms, owner)
            case _:
                return

    def _received(self, let: Statement, place: Place) -> Iterator[Supply]:
        """Computed elsewhere and sent there."""
        if isinstance(place, Anywhere | Here):
            return
        names = self._home(let)
        if names is None:
            return
        by = place.by if isinstance(place, Buckets) else ()
        supplies = [
            self._sent(self.made[name], renamed_place(place, by, let.vars, self.made[name].keys)) for name in names
        ]
        together = _together(supplies)
        parts = [
            DeltaRelation(supply.name, self.made[name].keys, let.vars)
            for supply, name in zip(supplies, names, strict=True)
        ]
        name = f"{let.target}@{place_name(place)}"
        lets = (*together.lets, (name, let.vars, sum_(parts)))
        yield Supply(name, together.rounds, together.extra + SEND, together.arrivals, lets)

    def _home(self, let: Statement) -> tuple[str, ...] | None:
        """What is made of a `let` where its stores are."""
        if let.target not in self._homes:
            self._homes[let.target] = None
            terms = terms_of(let.expr, let.vars, self.places)
            self._homes[let.target] = self._at_once(terms) or self._one_by_one(terms)
        return self._homes[let.target]

    def _at_once(self, terms: Sequence[Term]) -> tuple[str, ...] | None:
        """All terms in one place, and made as one."""
        options: list[dict[tuple[Mode, tuple[Arrival, ...]], Part]] = []
        for term in terms:
            parts = [part for part in self.parts(term) if part.mode != "driver" and not part.is_whole]
            options.append({(p.mode, p.supply.arrivals): p for p in reversed(parts)})
        common = set(options[0]).intersection(*options[1:]) if options else set()
        if not common:
            return None
        best = min(common, key=lambda key: (sum(o[key].supply.cost for o in options), str(key)))
        parts = [option[best] for option in options]
        return (self.make(joined(parts))[0],)

    def _one_by_one(self, terms: Sequence[Term]) -> tuple[str, ...] | None:
        names = []
        for term in terms:
            way = self.route(term, Target(Buckets(("",)), ("",)))  # nowhere in particular, but not on the driver
            if way is None:
                return None
            names.append(self.make(way.part)[0])
        return tuple(names)


def _without(factors: Sequence[Expr], taken: Sequence[Expr]) -> tuple[Expr, ...]:
    """What is left of a product: of equal factors, as many as were not taken."""
    left = list(factors)
    for factor in taken:
        left.remove(factor)
    return tuple(left)


def joined(parts: Sequence[Part]) -> Part:
    """Parts of one sum that are computed in one place."""
    first = parts[0]
    expr = sum_(part.expr for part in parts)
    return Part(first.mode, _together([part.supply for part in parts]), expr, first.owner, first.keys)


@dataclass(frozen=True, slots=True)
class _Placing:
    stores: Mapping[str, Place]
    changes: Mapping[str, Place]

    def __call__(self, atom: Atom) -> Place:
        return self.stores[atom.name] if isinstance(atom, Relation) else self.changes[atom.name]


def _together(supplies: Sequence[Supply]) -> Supply:
    """Of several changes: all that has to arrive, and all that is computed from it."""
    arrivals = tuple(sorted({a for s in supplies for a in s.arrivals}, key=lambda a: a.name))
    lets = tuple({let[0]: let for s in supplies for let in s.lets}.values())
    extra = sum({s.name: s.extra for s in supplies}.values()) + TOGETHER * max(0, len(arrivals) - 1)
    return Supply("", max((s.rounds for s in supplies), default=0), extra, arrivals, lets)


def _form(term: Term, change: str, names: Owner) -> Place:
    """In buckets by the columns that these names stand for, if they do so wherever the change is read."""
    found = {
        tuple(next((f for f, v in zip(a.fields, a.vars, strict=True) if v in one), "") for one in names)
        for a in change_atoms(term.product, change)
    }
    (fields, *others) = found
    return Everywhere() if others or not all(fields) else Buckets(fields)


def _closed(vars_: Iterable[str], links: Sequence[tuple[str, str]]) -> Owner:
    return linked(tuple(frozenset((var,)) for var in vars_), links)


def _is_risky(factor: Expr) -> bool:
    """What can fail is left for rows that pass everything else."""
    match factor:
        case Test(scalar) | Value(scalar) | Lift(_, Value(scalar)):
            return can_fail(scalar)
        case _:
            return False


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Changes under the names they have where the expression is computed."""

    def step(node: Expr) -> Expr:
        if isinstance(node, DeltaRelation):
            return DeltaRelation(names[node.name], node.fields, node.vars)
        return node

    return bottom_up(step, expr)
