"""The trigger of one relation as functions to compile: what is computed first, what is emitted, what is evaluated anew.

    let d_M(k) = ...        merged into a pool of its own at once, for those who read it
    Q(k) += ...             emitted; all targets are merged when every statement has read the state before the batch
    T(k) := ...             after that, each by itself

Statements are cut into functions of limited length, because the time to compile a function grows faster than its
length. A statement for which there is no code is left to the interpreter, with the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from viewmill.algebra.nodes import DeltaRelation, Exists, Expr, Relation
from viewmill.algebra.schema import deltas, tidy
from viewmill.algebra.typing import variable_types, weight_type
from viewmill.catalog import RelationInfo
from viewmill.engines.local.hoist import hoist, hoist_batches
from viewmill.engines.local.lower import lower
from viewmill.engines.local.lowered import Lowered, Step
from viewmill.engines.local.paths import Write
from viewmill.engines.local.placement import doubles
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.sources import Atom, Source
from viewmill.program.nodes import Program, Statement, ViewPlan
from viewmill.program.order import order
from viewmill.types import BIGINT, VOID, Type

LONG = 14
"""So many writes at most in one function."""


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A statement without compiled code, and why."""

    statement: Statement
    reason: str


@dataclass(slots=True)
class TriggerPlan:
    relation: str
    columns: tuple[str, ...]
    lets: dict[str, Source] = field(default_factory=dict)
    functions: list[Lowered] = field(default_factory=list)
    assigned: dict[str, list[Lowered]] = field(default_factory=dict)  # by store
    interpreted: list[Interpreted] = field(default_factory=list)
    output: str = ""  # the `let` with the rows of a view
    declared: dict[str, Source] = field(default_factory=dict)  # what is known of every `let` of the program

    @property
    def lowered(self) -> list[Lowered]:
        return [*self.functions, *(f for functions in self.assigned.values() for f in functions)]

    @property
    def writes(self) -> tuple[str, ...]:
        """Pools to merge once all functions have run."""
        own = {source.pool for source in self.lets.values()}
        return tuple(dict.fromkeys(pool for f in self.functions for pool in f.writes if pool not in own))


def plan_trigger(
    program: Program, info: RelationInfo, placed: Mapping[str, Source], *, exact: bool = False
) -> TriggerPlan:
    """`exact`: sets of the batch are without rows that cancel (see `hoist.py`)."""
    plan = TriggerPlan(info.name, info.names)
    _Planner(plan, placed, info, exact=exact).add_all(program.triggers[info.name].statements)
    return plan


def interpreted_trigger(program: Program, info: RelationInfo, placed: Mapping[str, Source], reason: str) -> TriggerPlan:
    """The plan that leaves every statement to the interpreter. What may be sent has its types."""
    statements = program.triggers[info.name].statements
    plan = TriggerPlan(info.name, info.names, interpreted=[Interpreted(s, reason) for s in statements])
    planner = _Planner(plan, placed, info)
    for statement in statements:
        if statement.op == "let":
            planner.declare(statement)
    return plan


def plan_reading(name: str, expr: Expr, columns: tuple[str, ...], placed: Mapping[str, Source]) -> TriggerPlan:
    """Functions that emit the rows of an expression over stores, as those of the `let` that is called `output`."""
    plan = TriggerPlan(f"{name}/output", ())
    _Planner(plan, placed, None).emit(columns, expr)
    return plan


def plan_changes(view: ViewPlan, placed: Mapping[str, Source]) -> TriggerPlan:
    """The same for the restricted output of a view: the keys that changed in a store are a `let` of its name."""
    plan = TriggerPlan(f"{view.name}/changes", ())
    for name in sorted(deltas(view.restricted)):
        store = placed[name]
        pool = f"{plan.relation}/{name}"
        plan.lets[name] = Source(name, "let", store.keys, store.types, BIGINT, pool, nullable=store.nullable)
    _Planner(plan, placed, None).emit(view.columns, view.restricted)
    return plan


class _Planner:
    def __init__(
        self, plan: TriggerPlan, placed: Mapping[str, Source], info: RelationInfo | None, *, exact: bool = False
    ) -> None:
        self._plan = plan
        self._placed = placed
        self._info = info
        self._exact = exact
        self._sets: dict[object, str] = {}

    def add_all(self, statements: Iterable[Statement]) -> None:
        first: list[Step] = []  # values of this trigger only
        later: list[Write] = []
        for s in statements:
            sets, lets = dict(self._sets), dict(self._plan.lets)
            if s.op == "let":
                self.declare(s)
            if s.op == ":=":
                self._sets = {}  # it runs by itself, on stores that have changed since others made theirs
            try:
                steps, write = self._prepared(s)
                lower((*steps, Step((write,))), self._sources, self._plan.columns)
            except CannotLower as reason:
                self._plan.interpreted.append(Interpreted(s, str(reason)))
                self._sets, self._plan.lets = sets, lets
                continue
            if s.op == ":=":
                self._plan.assigned[s.target] = [self._lowered((*steps, Step((write,), "put")))]
                self._sets = sets
            elif s.op == "let" and (same := self._named_set(write, steps)) is not None:
                first += [*steps[:-1], replace(steps[-1], then="set")]
                self._plan.lets[s.target] = same
            elif s.op == "let":
                first += [*steps, Step((write,), "merge")]
                self._plan.lets[s.target] = write.target
            else:
                first += steps
                later.append(write)
        self._cut(first, later)

    def declare(self, s: Statement) -> None:
        try:
            self._plan.declared[s.target] = self._let(s.target, s.vars, s.expr, self._placed.get(s.target))
        except CannotLower:
            pass  # it reads what is not known either

    def emit(self, columns: tuple[str, ...], expr: Expr) -> None:
        steps, body = self._without_sets(expr, anew=True)
        self._plan.output = self._new_name("rows")
        target = self._let(self._plan.output, columns, body, None)
        self._plan.functions.append(self._lowered((*steps, Step((Write(target, columns, body, (False,)),)))))
        self._plan.lets[self._plan.output] = target

    def _cut(self, first: list[Step], later: list[Write]) -> None:
        while len(first) + len(later) > LONG and first:
            self._plan.functions.append(self._lowered(tuple(first[:LONG])))
            first = first[LONG:]
        while later or first:
            room = LONG - len(first)
            together = Step(tuple(later[:room]))
            self._plan.functions.append(self._lowered((*first, together)))
            first, later = [], later[room:]

    def _lowered(self, steps: tuple[Step, ...]) -> Lowered:
        return lower(steps, self._sources, self._plan.columns)

    # --- one statement

    def _prepared(self, s: Statement) -> tuple[list[Step], Write]:
        unknown = deltas(s.expr) - set(self._plan.lets) - {self._plan.relation}
        if unknown:
            raise CannotLower(f"what it reads: {', '.join(sorted(unknown))} is interpreted")
        steps, expr = self._without_sets(s.expr, anew=s.op == ":=")
        if s.op == "let":
            store = self._placed.get(s.target)
            target = self._let(s.target, s.vars, expr, store)
            return steps, Write(target, s.vars, expr, (target.weight.is_floating,))
        target = self._placed[s.target]
        return steps, Write(target, s.vars, expr, doubles(self._placed, target.pool))

    def _without_sets(self, expr: Expr, *, anew: bool) -> tuple[list[Step], Expr]:
        """The expression, and the sets that are computed before it."""
        steps: list[Step] = []

        def new_set(keys: tuple[str, ...], body: Expr) -> tuple[str, tuple[str, ...]]:
            form = tidy(body, {key: f"key {i}" for i, key in enumerate(keys)}), len(keys)
            if form not in self._sets:
                body = self._ordered(hoist_batches(self._ordered(body), self._sources, new_set))
                name = self._new_name("set")
                target = self._let(name, keys, body, None)
                steps.append(Step((Write(target, keys, body, (target.weight.is_floating,)),), "merge"))
                self._plan.lets[name] = target
                self._sets[form] = name
            name = self._sets[form]
            return name, self._plan.lets[name].keys

        # The program has put the factors in order; a set stands where its body stood.
        hoisted = hoist(expr, self._sources, new_set, anew=anew)
        return steps, hoist_batches(hoisted, self._sources, new_set)

    def _named_set(self, write: Write, steps: list[Step]) -> Source | None:
        """`let d_K(k) = Exists(d_set(k))`, where the set was made for this: it is another name of the set."""
        match write.expr:
            case Exists(DeltaRelation(name, fields, vars_)) if steps and set(vars_) == set(write.vars):
                made = steps[-1].writes[0].target
                if made.name != name or set(fields) != set(made.keys) or made.weight.is_floating:
                    return None
                keys = dict(zip(fields, vars_, strict=True))
                return replace(made, name=write.target.name, keys=tuple(keys[key] for key in made.keys))
            case _:
                return None

    def _new_name(self, stem: str) -> str:
        """A name for rows of this plan that nothing else has."""
        taken = {*self._placed, *self._plan.lets, self._plan.relation}
        return next(name for name in map(f"{stem}_{{}}".format, itertools.count(1)) if name not in taken)

    def _ordered(self, expr: Expr) -> Expr:
        """A part that stood where more was known is put in order anew."""
        return order(expr, found=self._found)

    def _found(self, name: str, given: frozenset[str]) -> float:
        source = self._placed[name]
        if any(key <= given for key in (frozenset(source.keys), *source.single)):
            return 1
        return 2 + len(source.keys) - len(given)

    def _let(self, name: str, keys: tuple[str, ...], expr: Expr, store: Source | None) -> Source:
        pool = f"{self._plan.relation}/{name}"
        if store is not None:
            return Source(name, "let", keys, store.types, store.weight, pool, nullable=frozenset(keys))
        types = variable_types(expr, self._field_type, None, self._weight)
        weight = weight_type(expr, self._field_type, None, self._weight)
        known = tuple(types.get(key, VOID) for key in keys)
        return Source(name, "let", keys, known, weight, pool, nullable=frozenset(keys))

    # --- what statements read

    def _sources(self, atom: Atom) -> Source:
        if isinstance(atom, Relation):
            return self._placed[atom.name]
        if atom.name in self._plan.lets:
            return self._plan.lets[atom.name]
        if atom.name in self._plan.declared:
            return self._plan.declared[atom.name]
        if self._info is None or atom.name != self._plan.relation:
            raise KeyError(atom.name)
        nullable = frozenset(column.name for column in self._info.columns if column.nullable)
        types = tuple(column.type for column in self._info.columns)
        return Source(atom.name, "batch", self._info.names, types, BIGINT, "", nullable=nullable, exact=self._exact)

    def _weight(self, atom: Atom) -> Type:
        return self._sources(atom).weight

    def _field_type(self, name: str, field_: str) -> Type:
        for atom in (DeltaRelation(name, (), ()), Relation(name, (), ())):
            try:
                source = self._sources(atom)
            except KeyError:
                continue
            if field_ in source.keys:
                return source.types[source.keys.index(field_)]
        raise CannotLower(f"the unknown source {name}")
