"""Stores that have to meet and do not: what is read together is brought together.

A statement that cannot be cut in legs (a nested aggregate, EXISTS, MIN, a limit, `:=`) and the output of a view need
all their stores in one place. If they are not, a store that has another key is hashed by that, one that may be copied
is put everywhere, and otherwise all of them go to the driver, with the store that depends on them: the driver sends
nothing to buckets. Each step is taken once at most for a store, so this ends; with everything on the driver it works.

A store that is put everywhere may have `company`: where all changes of a relation have to go to every bucket, the other
stores over it may be there as well, and need no second round. But then every bucket does the work of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from viewmill.algebra.nodes import Expr, Relation
from viewmill.algebra.schema import relations, schema, walk
from viewmill.distribute.located import Owner, linked, locate, same_names
from viewmill.distribute.nodes import Buckets, Driver, Everywhere, Place
from viewmill.distribute.places import Placing
from viewmill.program.nodes import Program, Store


@dataclass
class Repair:
    program: Program
    placing: Placing
    places: dict[str, Place]
    asked_for: frozenset[str] = frozenset()
    company: bool = False
    reasons: dict[str, str] = field(default_factory=dict)
    _hashed_anew: set[str] = field(default_factory=set)
    _copied: set[str] = field(default_factory=set)

    def pin(self, names: frozenset[str], reason: str) -> None:
        for name in names:
            self._move(name, Driver(), reason)
            self._copied.add(name)
            self._hashed_anew.add(name)

    def meet(self, expr: Expr, target: str | None, reason: str, works: Callable[[Mapping[str, Place]], bool]) -> None:
        """Move the stores that `expr` reads so that it can be computed for `target`, as `works` has to confirm."""
        for moves in sorted(self._gatherings(expr), key=self._copies):
            if works({**self.places, **moves}):
                for name, place in moves.items():
                    self._move(name, place, reason)
                    if isinstance(place, Everywhere) and self.company:
                        self._copy_company(self.program.stores[name])
                return
        self.pin(relations(expr) | ({target} if target is not None else frozenset()), reason)

    def _move(self, name: str, place: Place, reason: str) -> None:
        if self.places[name] == place:
            return
        self.places[name] = place
        self.reasons[name] = reason
        (self._copied if isinstance(place, Everywhere) else self._hashed_anew).add(name)

    def _copy_company(self, copied: Store) -> None:
        there = relations(copied.definition) | self.placing.small
        for name, store in self.program.stores.items():
            if relations(store.definition) <= there and isinstance(self.places[name], Buckets):
                if name not in self.asked_for | self._copied and self.placing.may_be_copied(store):
                    self._move(name, Everywhere(), f'"{copied.name}" is everywhere')

    @property
    def has_copied(self) -> bool:
        """Whether something is everywhere that was elsewhere."""
        return any(isinstance(self.places[name], Everywhere) for name in self._copied)

    def _copies(self, moves: Mapping[str, Place]) -> tuple[float, int]:
        """What a change of places costs: rows copied, then stores moved."""
        copied = [self.program.stores[name] for name, place in moves.items() if isinstance(place, Everywhere)]
        return sum(map(self.placing.store_rows, copied)), len(moves)

    def _gatherings(self, expr: Expr) -> Iterator[dict[str, Place]]:
        """Ways to bring the stores together in buckets, as the moves it takes."""
        for owner in self._owners(expr):
            if moves := self._moves(expr, owner):
                yield moves

    def _owners(self, expr: Expr) -> Iterator[Owner]:
        links = [pair for node in walk(expr) for pair in same_names(node)]
        seen = set()
        for node in walk(expr):
            if isinstance(node, Relation):
                for var in node.vars:
                    owner = linked((frozenset((var,)),), links)
                    if owner not in seen:
                        seen.add(owner)
                        yield owner

    def _moves(self, expr: Expr, owner: Owner) -> dict[str, Place] | None:
        """What has to move for every store to be at hand; None if one cannot."""
        moves: dict[str, Place] = {}
        for node in walk(expr):
            if not isinstance(node, Relation):
                continue
            place = moves.get(node.name, self.places[node.name])
            if isinstance(place, Everywhere) or locate(node, owner, lambda _, here=place: here).right:  # type: ignore[misc]
                continue
            move = self._movable(node, owner)
            if move is None or (node.name in moves and moves[node.name] != move):
                return None
            moves[node.name] = move
        return moves

    def _movable(self, atom: Relation, owner: Owner) -> Place | None:
        store = self.program.stores[atom.name]
        if atom.name not in self._hashed_anew and isinstance(self.places[atom.name], Buckets):
            for key in self.placing.candidates(store):
                if any(f == key and v in owner[0] for f, v in zip(atom.fields, atom.vars, strict=True)):
                    return Buckets((key,))
        if atom.name not in self._copied and self.placing.may_be_copied(store):
            return Everywhere()
        return None


def view_place(output: Expr, places: Mapping[str, Place]) -> Place | None:
    """Where a view is read: on the driver, in buckets by one of its columns, or in every bucket; None if nowhere."""
    here = {places[name] for name in relations(output)}
    if here <= {Driver()}:
        return Driver()
    if Driver() in here:
        return None
    if here == {Everywhere()}:
        return Everywhere()
    columns = set(schema(output))
    by = sorted({place.by for place in here if isinstance(place, Buckets)}, key=len)
    for node in walk(output):
        if not isinstance(node, Relation):
            continue
        for hashed in by:
            vars_ = [v for column in hashed for f, v in zip(node.fields, node.vars, strict=True) if f == column]
            if len(vars_) == len(hashed) and set(vars_) <= columns:
                found = locate(output, tuple(frozenset((var,)) for var in vars_), lambda atom: places[atom.name])
                if found.right and found.zero:
                    return Buckets(tuple(vars_))
    return None
