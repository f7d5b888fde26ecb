"""Statements laid side by side: the factors of their products as a tree, with one leaf for each row they write.

    Q(a)  += d_R(a, b) * {b > 3} * M(b) * b           d_R - {b > 3} - M(b) - Q(a), P(a): lanes of one row
    P(a)  += d_R(a, b) * {b > 3} * N(b)                             \\
    S(b)  += d_R(a, b) * {b > 3}                                     S(b)

where M and N are lanes of one pool, and so are Q and P. A branch is taken by every product that has the same factor
there, whatever names it gives to variables: along a path, names are the tree's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from viewmill.algebra import scalars
from viewmill.algebra.build import factors
from viewmill.algebra.nodes import ZERO, AggSum, DeltaRelation, Exists, Expr, Lift, Product, Relation, Sum, Test, Value
from viewmill.algebra.scalars import Call, Scalar, Var
from viewmill.algebra.schema import Names, rename, schema, tidy, unshadowed, variables
from viewmill.algebra.typing import variable_types
from viewmill.engines.local.hoist import is_overlay
from viewmill.engines.local.sources import Atom, Source, Sources
from viewmill.types import Type


@dataclass(frozen=True, slots=True)
class Write:
    """`target(vars) += expr`. `doubles` says which lanes of the target's pool hold doubles."""

    target: Source
    vars: tuple[str, ...]
    expr: Expr
    doubles: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """One weight of a row: the values to multiply, and the source each branch on the way stands for."""

    target: Source
    values: tuple[Scalar, ...]
    sources: dict[int, Source]


@dataclass(slots=True)
class Leaf:
    """A row of one pool, under one key, with some of its lanes."""

    keys: tuple[str, ...]
    doubles: tuple[bool, ...]
    lanes: dict[int, Lane] = field(default_factory=dict)

    @property
    def target(self) -> Source:
        return next(iter(self.lanes.values())).target


@dataclass(slots=True)
class Branch:
    """One factor, and what comes after it."""

    number: int
    factor: Expr | None
    branches: dict[object, Branch] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)


class Tree:
    def __init__(self, sources: Sources) -> None:
        self.root = Branch(0, None)
        self.types: dict[str, Type] = {}
        self.not_null: set[str] = set()
        self._sources = sources
        self._names = Names()
        self._count = 0

    def add(self, write: Write) -> None:
        for term in _products(unshadowed(write.expr)):
            if ZERO not in factors(term):
                self._add_term(write, term)

    def _add_term(self, write: Write, term: Expr) -> None:
        here, known = self.root, dict[str, str]()
        values: list[Scalar] = []
        sources: dict[int, Source] = {}
        for factor in self._spelled_out(term):
            if isinstance(factor, Value):
                values.append(factor.scalar)
                continue
            here = self._follow(here, factor, known)
            if isinstance(factor, Relation | DeltaRelation):
                sources[here.number] = self._sources(factor)
        keys = tuple(known[var] for var in write.vars)
        renamed = {var: Var(name) for var, name in known.items()}
        lane = Lane(write.target, tuple(scalars.substitute(value, renamed) for value in values), sources)
        for leaf in here.leaves:
            if leaf.keys == keys and leaf.target.pool == lane.target.pool and lane.target.lane not in leaf.lanes:
                leaf.lanes[lane.target.lane] = lane
                return
        here.leaves.append(Leaf(keys, write.doubles, {lane.target.lane: lane}))

    def _spelled_out(self, term: Expr) -> Iterator[Expr]:
        """Factors in order. A batch is scanned: what its columns must agree with becomes a test."""
        known: set[str] = set()
        for factor in flat_factors(term):
            atom = factor.body if isinstance(factor, Exists) else factor
            if isinstance(atom, DeltaRelation) and self._sources(atom).kind == "batch":
                fresh = Names(variables(term))
                new = [fresh.fresh(v) if v in known or v in atom.vars[:i] else v for i, v in enumerate(atom.vars)]
                apart = DeltaRelation(atom.name, atom.fields, tuple(new))
                yield Exists(apart) if isinstance(factor, Exists) else apart
                for old, name in zip(atom.vars, new, strict=True):
                    if old != name:
                        yield Test(Call("<=>", (Var(old), Var(name))))
            else:
                yield factor
            known |= set(_produced(factor))

    def _follow(self, here: Branch, factor: Expr, known: dict[str, str]) -> Branch:
        """The branch for a factor; `known` gains the names of what it produces."""
        free = [var for var in dict.fromkeys(_produced(factor)) if var not in known]
        key = self._key(factor, free, known)
        if key not in here.branches:
            self._count += 1
            here.branches[key] = Branch(self._count, self._named(factor, free, known))
        branch = here.branches[key]
        assert branch.factor is not None
        known.update(zip(free, self._own(branch.factor, factor, free), strict=True))
        return branch

    def _own(self, named: Expr, factor: Expr, free: list[str]) -> list[str]:
        """The branch's names for the free variables of the same factor elsewhere."""
        if isinstance(named, Relation | DeltaRelation) and isinstance(factor, Relation | DeltaRelation):
            # Stores that share a pool may have other names for its keys.
            own, its = self._sources(named).keys, self._sources(factor).keys
            at = {own.index(f): var for f, var in zip(named.fields, named.vars, strict=True)}
            place = {var: its.index(f) for f, var in zip(factor.fields, factor.vars, strict=True)}
            return [at[place[var]] for var in free]
        produced, new = _produced(factor), _produced(named)
        return [new[produced.index(var)] for var in free]

    def _key(self, factor: Expr, free: list[str], known: dict[str, str]) -> object:
        places = {**known, **{var: f"?{i}" for i, var in enumerate(free)}}
        if isinstance(factor, Relation | DeltaRelation):
            source = self._sources(factor)
            if source.kind == "batch":
                return "batch"
            pairs = [(source.keys.index(f), places[v]) for f, v in zip(factor.fields, factor.vars, strict=True)]
            return source.pool, tuple(sorted(pairs))
        return tidy(rename(factor, _all_apart(factor, places)), {name: name for name in places.values()})

    def _named(self, factor: Expr, free: list[str], known: dict[str, str]) -> Expr:
        """The factor with names that nothing else on the path has, and with its types noted."""
        if isinstance(factor, Relation | DeltaRelation) and self._sources(factor).kind == "batch":
            return self._whole_batch(factor)
        # In one order: the same program is the same source in every process, which finds it compiled.
        names = {var: known.get(var) or self._names.fresh(var) for var in sorted(variables(factor))}
        named = rename(factor, names)
        self._note(named, {names[var] for var in free})
        return named

    def _whole_batch(self, atom: Atom) -> Expr:
        """A statement reads some columns of the batch; the branch has them all, by their own names."""
        source = self._sources(atom)
        named = DeltaRelation(source.name, source.keys, tuple(self._names.fresh(key) for key in source.keys))
        self._note(named, set(named.vars))
        return named

    def _note(self, factor: Expr, free: set[str]) -> None:
        found = variable_types(factor, self._field_type, self.types, lambda atom: self._sources(atom).weight)
        for name, type_ in found.items():
            self.types.setdefault(name, type_)
        match factor:
            case Relation(_, fields, vars_) | DeltaRelation(_, fields, vars_) | Exists(DeltaRelation(_, fields, vars_)):
                nullable = self._sources(_atom(factor)).nullable
                self.not_null |= {v for f, v in zip(fields, vars_, strict=True) if v in free and f not in nullable}
            case Lift(var, body) if var in free and not isinstance(body, Value):
                self.not_null.add(var)
            case _:
                pass

    def _field_type(self, name: str, field_: str) -> Type:
        for atom in (Relation(name, (), ()), DeltaRelation(name, (), ())):
            try:
                source = self._sources(atom)
            except KeyError:
                continue
            if field_ in source.keys:
                return source.types[source.keys.index(field_)]
        raise KeyError(name)


def _products(expr: Expr) -> Iterator[Expr]:
    """The products whose sum an expression is, group by group."""
    match expr:
        case AggSum(_, body):
            yield from _products(body)
        case Sum(parts) if not is_overlay(parts):
            for part in parts:
                yield from _products(part)
        case _:
            yield expr


def flat_factors(expr: Expr) -> Iterator[Expr]:
    """Factors in order, those of sums over products among them: adding up is left to the target."""
    match expr:
        case Product(factors):
            for factor in factors:
                yield from flat_factors(factor)
        case AggSum(_, Product() | Relation() | DeltaRelation() | AggSum() as body):
            yield from flat_factors(body)
        case _:
            yield expr


def _atom(factor: Expr) -> Atom:
    atom = factor.body if isinstance(factor, Exists) else factor
    assert isinstance(atom, Relation | DeltaRelation)
    return atom


def _produced(factor: Expr) -> tuple[str, ...]:
    return factor.vars if isinstance(factor, Relation | DeltaRelation) else schema(factor)


def _all_apart(factor: Expr, places: dict[str, str]) -> dict[str, str]:
    """Local names that a visible one would capture get out of the way first."""
    taken = set(places.values())
    return {var: places.get(var, f"{var}'" if var in taken else var) for var in variables(factor)}
