"""The stores of a program under construction, and the worklist that completes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

from viewmill.algebra.build import factors, product, sum_
from viewmill.algebra.nodes import After, DeltaRelation, Expr, Relation, Test
from viewmill.algebra.schema import bottom_up, relations, rename, schema, tidy, walk
from viewmill.algebra.typing import variable_types, weight_type
from viewmill.catalog import Catalog
from viewmill.delta.derive import delta
from viewmill.materialize.canonical import canonical
from viewmill.materialize.choose import Plan, StoreLimit
from viewmill.materialize.cost import records_found
from viewmill.materialize.first_order import first_order
from viewmill.materialize.narrow import narrow
from viewmill.materialize.reevaluate import ASKED_FOR, reevaluate
from viewmill.materialize.strategy import Change, obstacle
from viewmill.program.keys import bounded_parts
from viewmill.program.nodes import Program, Statement, Store, Trigger
from viewmill.program.order import order
from viewmill.program.schedule import schedule
from viewmill.program.share_parts import share_parts
from viewmill.rewrite.drop_null_guards import Facts
from viewmill.rewrite.pipeline import expand, simplify
from viewmill.types import Type


class Stores:
    """Readers for definitions; every definition asked for becomes a store, once."""

    def __init__(
        self, program: Program, catalog: Catalog, plan: Plan, view: str, definition: Expr, sizes: Mapping[str, int]
    ) -> None:
        self._before = program
        self._catalog = catalog
        self._plan = plan
        self._sizes = sizes
        self._view = view
        self._used = _columns(definition)
        self._stores = dict(program.stores)
        self._by_form = {canonical(store.definition)[0]: store for store in self._shareable()}
        self._changes: dict[tuple[str, str], Change] = {}
        self._new: list[Store] = []

    def _shareable(self) -> list[Store]:
        """Stores of the mill that this view may read as well: not those that another view asked to re-evaluate."""
        statements = (s for trigger in self._before.triggers.values() for s in trigger.statements)
        private = {s.target for s in statements if s.op == ":=" and s.reason == ASKED_FOR}
        if self._plan.default is reevaluate:
            private = set()
        return [store for name, store in self._before.stores.items() if name not in private]

    @cached_property
    def facts(self) -> Facts:
        infos = self._catalog.relations.values()
        return Facts(frozenset((i.name, c.name) for i in infos for c in i.columns if not c.nullable))

    def follows(self, definition: Expr) -> bool:
        """Whether a store of this could follow every change without going through all it has."""
        expanded = expand(simplify(definition, self.facts), self.facts)
        return not any(obstacle(_delta(expanded, name, self.facts), name) for name in relations(expanded))

    # --- what strategies ask for

    def reader(self, definition: Expr) -> Expr:
        definition = simplify(definition, self.facts)
        if not relations(definition):
            return definition
        form, vars_ = canonical(definition)
        store = self._by_form.get(form)
        if store is None:
            named = tidy(definition)
            store = self._add(self._name(definition), schema(named), named)
        ours, theirs = vars_, canonical(store.definition)[1]
        by_key = dict(zip(theirs, ours, strict=True))
        return Relation(store.name, store.keys, tuple(by_key[key] for key in store.keys))

    def base(self, relation: Relation, tests: Sequence[Test]) -> Expr:
        """Of a relation, the columns that the view looks at are kept, and the rows that pass."""
        info = self._catalog.relations[relation.name]
        used = self._used.get(info.name, set()).union(relation.fields, info.primary_key if relation.fields else ())
        columns = tuple(name for name in info.names if name in used)
        field_of = dict(zip(reversed(relation.vars), reversed(relation.fields), strict=True))
        kept = product(Relation(info.name, columns, columns), *(rename(test, field_of) for test in tests))
        form, ours = canonical(kept)
        # Only a store of all rows may have the relation's name: `d_R` is the whole batch, not the change of some.
        name = f"M_{info.name}" if tests else info.name
        store = self._by_form.get(form) or self._add(name, columns, kept)
        key_of = dict(zip(ours, canonical(store.definition)[1], strict=True))
        return Relation(store.name, tuple(key_of[f] for f in relation.fields), relation.vars)

    def apart(self, atoms: list[Relation]) -> list[list[Relation]]:
        return bounded_parts(atoms, self._catalog)

    def definition(self, store: Store) -> Expr:
        return expand(store.definition, self.facts)

    def delta(self, store: Store, relation: str) -> Expr:
        return _delta(self.definition(store), relation, self.facts)

    # --- the worklist

    def compile(self) -> None:
        while self._new:
            store = self._new.pop(0)
            for relation in sorted(relations(store.definition)):
                self.change(store, relation)

    def change(self, store: Store, relation: str) -> Change:
        """How `store` follows `relation`; computed once."""
        key = store.name, relation
        if key not in self._changes:
            strategy = self._plan.strategy(relation)
            if strategy is reevaluate and _is_kept(store.definition):
                strategy = first_order  # rows of a relation are what there is to evaluate from
            self._changes[key] = self._settled(strategy(self, store, relation), store, relation)
        return self._changes[key]

    def _settled(self, change: Change, store: Store, relation: str) -> Change:
        """With `After(E)` spelled out as stores plus their own changes; these must then be incremental too."""
        for name in sorted(_after_stores(change.expr)):
            inner = self._stores[name]
            if relation in relations(inner.definition) and self._how(inner, relation) == "reevaluate":
                reason = f'it reads store "{name}", which is re-evaluated'
                again = reevaluate(self, store, relation)
                return Change(again.op, again.expr, again.how, reason)
        moving = {name for name, s in self._stores.items() if relation in relations(s.definition)}
        return Change(change.op, spell_out(narrow(change.expr, moving), moving), change.how, change.reason)

    def _how(self, store: Store, relation: str) -> str:
        trigger = self._before.triggers.get(relation)
        old = [s.how for s in trigger.statements if s.target == store.name and s.op != "let"] if trigger else []
        return old[0] if old else self.change(store, relation).how

    def program(self) -> Program:
        statements: dict[str, list[Statement]] = {
            name: list(trigger.statements) for name, trigger in self._before.triggers.items()
        }
        found = records_found(self._stores, self._catalog, self._sizes)
        for (target, relation), change in self._changes.items():
            store = self._stores[target]
            expr = order(tidy(change.expr, {key: key for key in store.keys}), found=found)
            statements.setdefault(relation, []).append(
                Statement(target, store.keys, change.op, expr, change.how, change.reason)
            )
        triggers = {
            relation: Trigger(relation, schedule(relation, share_parts(relation, parts)))
            for relation, parts in statements.items()
        }
        return Program(self._stores, triggers, self._before.views, self._fields())

    def _fields(self) -> dict[str, tuple[str, ...]]:
        read = set().union(*(relations(store.definition) for store in self._stores.values()))
        return {name: info.names for name, info in self._catalog.relations.items() if name in read}

    def _add(self, name: str, keys: tuple[str, ...], definition: Expr) -> Store:
        types = variable_types(definition, self._field_type)
        weight = weight_type(definition, self._field_type)
        store = Store(self._free(name), keys, definition, tuple(types[key] for key in keys), weight)
        self._stores[store.name] = store
        self._by_form[canonical(definition)[0]] = store
        self._new.append(store)
        if len(self._stores) - len(self._before.stores) > self._plan.limit:
            raise StoreLimit
        return store

    def _field_type(self, relation: str, field: str) -> Type:
        column = self._catalog.relations[relation].column(field)
        assert column is not None
        return column.type

    def _name(self, definition: Expr) -> str:
        names = sorted(relations(definition))
        if not self._new and len(self._stores) == len(self._before.stores):
            return self._view
        return "M_" + ("" if all(len(name) == 1 for name in names) else "_").join(names)

    def _free(self, name: str) -> str:
        taken = set(self._stores) | (set(self._catalog.relations) - {name})
        count, free = 1, name
        while free in taken:
            count += 1
            free = f"{name}_{count}"
        return free


@lru_cache(maxsize=2_000)
def _delta(definition: Expr, relation: str, facts: Facts) -> Expr:
    """Kept, because `auto` compiles a view several times."""
    return expand(delta(definition, frozenset((relation,))), facts)


def _is_kept(definition: Expr) -> bool:
    """Rows of one relation as they are, those that pass some tests."""
    first, *rest = sorted(factors(definition), key=lambda factor: isinstance(factor, Test))
    return isinstance(first, Relation) and all(isinstance(factor, Test) for factor in rest)


def _columns(definition: Expr) -> dict[str, set[str]]:
    """The columns of each relation that a definition looks at."""
    found: dict[str, set[str]] = {}
    for atom in walk(definition):
        if isinstance(atom, Relation):
            found.setdefault(atom.name, set()).update(atom.fields)
    return found


def _after_stores(expr: Expr) -> set[str]:
    return {name for node in walk(expr) if isinstance(node, After) for name in relations(node.body)}


def spell_out(expr: Expr, moving: set[str]) -> Expr:
    """`After(M(b))  =>  M(b) + d_M(b)` for stores that change, `After(M(b))  =>  M(b)` for others."""

    def step(node: Expr) -> Expr:
        if isinstance(node, Relation) and node.name in moving:
            return sum_((node, DeltaRelation(node.name, node.fields, node.vars)))
        return node

    return bottom_up(lambda node: bottom_up(step, node.body) if isinstance(node, After) else node, expr)
