"""Programs on record pools: the compiled twin of the interpreter, statement for statement.

`install` lowers every statement to a kernel and compiles it on first use; `apply` encodes the batch, runs the kernels
and merges what they emit. A batch is atomic through the pools' journals. What the lowering has no code for is refused
when the program is installed, with the store and the reason.

This engine is not what `viewmill.connect()` uses yet. It maintains stores of programs over base relations; it does not
compute views, follow views over views, or hold weights and keys of more than 64 bits, which it refuses or rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewmill.algebra.functions import evaluate_scalar
from viewmill.algebra.nodes import DeltaRelation, Expr, Relation
from viewmill.algebra.scalars import Scalar
from viewmill.algebra.schema import bottom_up, relations
from viewmill.algebra.typing import variable_types, weight_type
from viewmill.catalog import Catalog
from viewmill.engines.local.codecache import compiled
from viewmill.engines.local.hoist import hoist
from viewmill.engines.local.lower import Kernel, SourceInfo, lower
from viewmill.engines.local.pools import Kind, Pool
from viewmill.engines.local.scalars import CannotLower
from viewmill.engines.local.values import Dictionary, decode, decode_weight, encode
from viewmill.errors import DataError, UnsupportedError
from viewmill.program.nodes import EMPTY, Program, Store
from viewmill.program.order import order
from viewmill.types import BIGINT, Type

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """One kernel, what it fills, and how: a `let` for this unit only, or a store."""

    target: str
    op: str
    kernel: Kernel
    run: Callable[..., tuple[Any, Any]]

    @property
    def kind(self) -> Kind:
        return "float" if self.kernel.weight.is_floating else "int"


@dataclass(frozen=True, slots=True)
class _Unit:
    """Steps that run one after the other, and the slice indexes their changes need."""

    steps: tuple[_Step, ...]
    slices: dict[SourceInfo, tuple[tuple[int, ...], ...]]


class LocalEngine:
    """The interface of the interpreter: `install`, `apply`, `store`."""

    def __init__(self, catalog: Catalog) -> None:
        self.program: Program = EMPTY
        self.dictionary = Dictionary()
        self._catalog = catalog
        self._pools: dict[str, Pool] = {}
        self._triggers: dict[str, _Unit] = {}
        self._functions: dict[tuple[object, Type], list[int]] = {}

    # --- programs

    def install(self, program: Program, tables: Mapping[str, Mapping[Row, int]]) -> None:
        """Compile the program and fill its stores from base tables."""
        triggers = {name: _trigger_unit(program, self._catalog, name) for name in program.triggers}
        loads = {name: _load_unit(program, self._catalog, name) for name in program.stores}
        self.program = program
        self._triggers = triggers
        slices = _slices(step.kernel for unit in triggers.values() for step in unit.steps)
        self._pools = {
            name: Pool(len(store.keys), _kind(store.weight), slices.get(_store_info(store), ()))
            for name, store in program.stores.items()
        }
        for unit in loads.values():
            read = {info.name for step in unit.steps for info in step.kernel.pools if info.name in program.fields}
            changes = {name: self._pending(name, tables.get(name, {}), unit) for name in read}
            self._run(unit, changes)
        for pool in self._pools.values():
            pool.begin()

    def store(self, name: str) -> dict[Row, Any]:
        store = self.program.stores[name]
        keys, weights = self._pools[name].rows()
        return {
            tuple(decode(int(c), t, self.dictionary) for c, t in zip(key, store.types, strict=True)): decode_weight(
                weight.item(), store.weight
            )
            for key, weight in zip(keys, weights, strict=True)
        }

    @property
    def nbytes(self) -> int:
        return sum(pool.nbytes for pool in self._pools.values())

    # --- batches

    def apply(self, batch: Mapping[str, Mapping[Row, int]]) -> None:
        """Take a batch of base relations, all or nothing."""
        for pool in self._pools.values():
            pool.begin()
        try:
            for name, rows in batch.items():
                if name in self._triggers and rows:
                    unit = self._triggers[name]
                    self._run(unit, {name: self._pending(name, rows, unit)})
        except (OverflowError, ZeroDivisionError) as error:
            self._rollback()
            raise DataError(str(error)) from None
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        for pool in self._pools.values():
            pool.rollback()

    def _run(self, unit: _Unit, changes: dict[str, Pool]) -> None:
        for step in unit.steps:
            keys, weights = self._emit(step, changes)
            if step.op == "let":
                info = SourceInfo(step.target, True, step.kernel.keys, step.kernel.types, step.kernel.weight)
                changes[step.target] = pool = Pool(len(info.keys), step.kind, unit.slices.get(info, ()))
                pool.begin()
                pool.merge(keys, weights)
            elif step.op == ":=":
                self._pools[step.target].set_all(keys, weights)
            else:
                self._pools[step.target].merge(keys, weights)

    def _emit(self, step: _Step, changes: Mapping[str, Pool]) -> tuple[Any, Any]:
        def pool_of(info: SourceInfo) -> Pool:
            return changes[info.name] if info.change else self._pools[info.name]

        kernel = step.kernel
        args: list[Any] = [pool_of(info).arrays for info in kernel.pools]
        args += [pool_of(info).slice_arrays(columns) for info, columns in kernel.slices]
        texts = np.array([self.dictionary.code(text) for text in kernel.texts], np.int64)
        return step.run(*args, texts, *(self._table(function, type_) for function, type_ in kernel.functions))

    def _table(self, function: Scalar, type_: Type) -> Any:
        """The function for NULL and for every string so far."""
        values = self._functions.setdefault((function, type_), [])
        if not values:
            values.append(encode(evaluate_scalar(function, {"text": None}), type_, self.dictionary))
        # The function may make new strings; those get a value as well, in a later round.
        while len(values) <= len(self.dictionary):
            text = self.dictionary.values[len(values) - 1]
            values.append(encode(evaluate_scalar(function, {"text": text}), type_, self.dictionary))
        return np.array(values, np.int64)

    def _pending(self, name: str, rows: Mapping[Row, int], unit: _Unit) -> Pool:
        info = _relation_info(self._catalog, name)
        pool = Pool(len(info.keys), "int", unit.slices.get(info, ()))
        codes = [[encode(v, t, self.dictionary) for v, t in zip(row, info.types, strict=True)] for row in rows]
        keys = np.array(codes, np.int64).reshape(len(codes), len(info.keys))
        pool.begin()
        pool.merge(keys, np.fromiter(rows.values(), np.int64, len(rows)))
        return pool


# --- lowering statements


def _trigger_unit(program: Program, catalog: Catalog, relation: str) -> _Unit:
    changes = {relation: _relation_info(catalog, relation)}
    steps: list[_Step] = []
    for s in program.triggers[relation].statements:
        store = program.stores.get(s.target)
        target = _store_info(store) if store is not None else None
        steps += _steps(s.expr, s.vars, s.op, s.target, target, changes, program.stores)
    return _Unit(tuple(steps), _slices(step.kernel for step in steps))


def _load_unit(program: Program, catalog: Catalog, name: str) -> _Unit:
    """A store's definition over base relations, which here are all pending."""
    store = program.stores[name]
    changes = {relation: _relation_info(catalog, relation) for relation in relations(store.definition)}
    definition = bottom_up(_as_change, order(store.definition))
    steps = _steps(definition, store.keys, ":=", name, _store_info(store), changes, {})
    return _Unit(tuple(steps), _slices(step.kernel for step in steps))


def _as_change(node: Expr) -> Expr:
    return DeltaRelation(node.name, node.fields, node.vars) if isinstance(node, Relation) else node


def _steps(
    expr: Expr,
    keys: tuple[str, ...],
    op: str,
    name: str,
    target: SourceInfo | None,
    changes: dict[str, SourceInfo],
    stores: Mapping[str, Store],
) -> list[_Step]:
    """The statement with its sets in front of it. What a `let` or a set gives is known to the steps after it."""

    def source(name: str, change: bool) -> SourceInfo:
        return changes[name] if change else _store_info(stores[name])

    def keys_of(atom: Relation | DeltaRelation) -> tuple[str, ...]:
        return source(atom.name, isinstance(atom, DeltaRelation)).keys

    def field_type(name: str, field: str) -> Type:
        info = changes[name] if name in changes else _store_info(stores[name])
        return info.types[info.keys.index(field)]

    def source_weight(atom: Relation | DeltaRelation) -> Type:
        return source(atom.name, isinstance(atom, DeltaRelation)).weight

    def typed(name: str, keys: tuple[str, ...], expr: Expr) -> SourceInfo:
        types = variable_types(expr, field_type, None, source_weight)
        weight = weight_type(expr, field_type, None, source_weight)
        return SourceInfo(name, True, keys, tuple(types[key] for key in keys), weight)

    hoisted = hoist(expr, keys_of, anew=op == ":=")
    renamed = {set_name: f"{name}_{set_name}" for set_name, _, _ in hoisted.sets}
    steps: list[_Step] = []

    def step(target_name: str, op: str, info: SourceInfo, expr: Expr) -> None:
        try:
            kernel = lower(order(expr), info.keys, info.types, info.weight, source)
        except CannotLower as reason:
            raise UnsupportedError(
                f'the compiled engine cannot maintain store "{name}": it has no code for {reason}',
                hint="use the interpreter for this view",
            ) from None
        steps.append(_Step(target_name, op, kernel, compiled(kernel.source)))

    for set_name, set_keys, set_expr in hoisted.sets:
        own = _renamed_changes(set_expr, renamed)
        info = typed(renamed[set_name], set_keys, own)
        step(info.name, "let", info, own)
        changes[info.name] = info
    body = _renamed_changes(hoisted.expr, renamed)
    info = typed(name, keys, body) if target is None or op == "let" else target
    if op == "let" and target is not None:
        info = SourceInfo(name, True, keys, target.types, target.weight)
    step(name, op, info, body)
    if op == "let":
        changes[name] = info
    return steps


def _renamed_changes(expr: Expr, names: Mapping[str, str]) -> Expr:
    def rename(node: Expr) -> Expr:
        if isinstance(node, DeltaRelation) and node.name in names:
            return DeltaRelation(names[node.name], node.fields, node.vars)
        return node

    return bottom_up(rename, expr)


def _store_info(store: Store) -> SourceInfo:
    return SourceInfo(store.name, False, store.keys, store.types, store.weight)


def _relation_info(catalog: Catalog, name: str) -> SourceInfo:
    info = catalog.relations[name]
    return SourceInfo(name, True, info.names, tuple(column.type for column in info.columns), BIGINT)


def _kind(weight: Type) -> Kind:
    return "float" if weight.is_floating else "int"


def _slices(lowered: Iterable[Kernel]) -> dict[SourceInfo, tuple[tuple[int, ...], ...]]:
    found: dict[SourceInfo, dict[tuple[int, ...], None]] = {}
    for kernel in lowered:
        for info, columns in kernel.slices:
            found.setdefault(info, {})[columns] = None
    return {info: tuple(columns) for info, columns in found.items()}
