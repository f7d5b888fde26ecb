"""Expressions as functions from known variables to rows.

Products run from left to right, as the program orders them; a relation is read through a dictionary of the variables
already known. Everything else follows the table in `algebra/nodes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, assert_never

from viewmill.algebra.functions import NAN, greatest, least
from viewmill.algebra.nodes import (
    After,
    AggSum,
    DeltaRelation,
    Exists,
    Expr,
    Extreme,
    Lift,
    Product,
    Relation,
    SortBy,
    Sum,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.schema import inputs, schema
from viewmill.engines.interpreter.scalars import Env, compile_scalar
from viewmill.engines.interpreter.tables import Number, Row, Rows, State
from viewmill.errors import InternalError

Run: TypeAlias = Callable[[State, Env], Iterator[tuple[Env, Number]]]


def compile_expr(expr: Expr, bound: frozenset[str] = frozenset()) -> Run:
    match expr:
        case Relation() | DeltaRelation():
            return _atom(expr, bound)
        case Value(scalar):
            value = compile_scalar(scalar)
            return lambda state, env: _weighted(env, value(env))
        case Test(scalar):
            holds = compile_scalar(scalar)
            return lambda state, env: iter(((env, 1),)) if holds(env) is True else iter(())
        case Lift(var, Value(scalar)):
            assigned = compile_scalar(scalar)
            return _binding(var, bound, lambda state, env: assigned(env))
        case Lift(var, body):
            total = compile_expr(body, bound)
            return _binding(var, bound, lambda state, env: sum(weight for _, weight in total(state, env)))
        case Extreme(var, kind, of, body):
            pick = least if kind == "min" else greatest
            rows = _grouped(body, schema(body), bound - set(schema(body)))
            place = schema(body).index(of)
            return _binding(var, bound, lambda state, env: _extreme(pick, [row[place] for row in rows(state, env)]))
        case Exists(body):
            return _listed(schema(body), bound, _grouped(body, schema(body), bound), one=True)
        case TopK():
            return _top(expr, bound)
        case AggSum(group, body):
            inner = bound - (set(schema(body)) - set(group))
            return _listed(group, bound, _grouped(body, group, inner))
        case Sum(terms):
            return _union(terms, bound)
        case Product(factors):
            return _product(factors, bound)
        case After():
            raise InternalError("a program has no After left in it")
        case _:
            assert_never(expr)


def _weighted(env: Env, value: object) -> Iterator[tuple[Env, Number]]:
    if value is not None and value != 0:
        yield env, value


def _binding(var: str, bound: frozenset[str], value: Callable[[State, Env], object]) -> Run:
    """One row: the variable takes the value, or must have it already."""
    if var in bound:
        return lambda state, env: iter(((env, 1),)) if _same(env[var], value(state, env)) else iter(())
    return lambda state, env: iter((({**env, var: _key(value(state, env))}, 1),))


def _key(value: object) -> object:
    """There is one NaN: as a key it must be equal to itself, which only the same object is."""
    return NAN if isinstance(value, float) and value != value else value


def _same(left: object, right: object) -> bool:
    return left == right or left is _key(right)


def _extreme(pick: Callable[..., object], values: list[object]) -> object:
    known = [value for value in values if value is not None]
    return pick(*known) if len(known) > 1 else known[0] if known else None


def _atom(atom: Relation | DeltaRelation, bound: frozenset[str]) -> Run:
    pairs = list(zip(atom.fields, atom.vars, strict=True))
    given = [(field, var) for field, var in pairs if var in bound]
    free = [(field, var) for field, var in pairs if var not in bound]
    repeated = len({var for _, var in free}) < len(free)
    places: dict[tuple[str, ...], tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def run(state: State, env: Env) -> Iterator[tuple[Env, Number]]:
        table = (state.changes if isinstance(atom, DeltaRelation) else state.tables).get(atom.name)
        if table is None:
            return
        if table.fields not in places:
            at = {field: i for i, field in enumerate(table.fields)}
            places[table.fields] = tuple(at[f] for f, _ in given), tuple(at[f] for f, _ in free)
        look, read = places[table.fields]
        for row, weight in table.find(look, tuple(env[var] for _, var in given)):
            new = dict(env)
            for (_, var), i in zip(free, read, strict=True):
                new[var] = row[i]
            if repeated and any(new[var] != row[i] for (_, var), i in zip(free, read, strict=True)):
                continue
            yield new, weight

    return run


def _product(factors: tuple[Expr, ...], bound: frozenset[str]) -> Run:
    steps: list[Run] = []
    for factor in factors:
        steps.append(compile_expr(factor, bound))
        bound |= set(schema(factor))

    def run(state: State, env: Env, depth: int = 0, weight: Number = 1) -> Iterator[tuple[Env, Number]]:
        if depth == len(steps):
            yield env, weight
            return
        for new, more in steps[depth](state, env):
            yield from run(state, new, depth + 1, weight * more)

    return run


def _grouped(body: Expr, group: tuple[str, ...], bound: frozenset[str]) -> Callable[[State, Env], Rows]:
    """Rows of `body` over `group`, weights added up, those of weight 0 left out."""
    run = compile_expr(body, bound)

    def rows(state: State, env: Env) -> Rows:
        total: Rows = {}
        for new, weight in run(state, env):
            row = tuple(new[name] for name in group)
            total[row] = total.get(row, 0) + weight
        return {row: weight for row, weight in total.items() if weight != 0}

    return rows


def _listed(
    names: tuple[str, ...], bound: frozenset[str], rows: Callable[[State, Env], Rows], *, one: bool = False
) -> Run:
    def run(state: State, env: Env) -> Iterator[tuple[Env, Number]]:
        for row, weight in rows(state, env).items():
            yield {**env, **dict(zip(names, row, strict=True))}, 1 if one else weight

    return run


def _top(top: TopK, bound: frozenset[str]) -> Run:
    """Pick from all rows for the inputs at hand; of those picked, the ones that agree with what is known."""
    names = schema(top.body)
    rows = _grouped(top.body, names, bound - set(names))
    known = [(place, name) for place, name in enumerate(names) if name in bound]
    passes = [(names.index(key.var), key) for key in reversed(top.order)]

    def pick(state: State, env: Env) -> list[tuple[Row, Number]]:
        found = [pair for pair in rows(state, env).items() if pair[1] > 0]
        for place, key in passes:  # sorting is stable: the last pass, by the first key, decides
            found.sort(key=lambda pair: _rank(pair[0][place], key), reverse=key.descending)
        return list(_cut_off(found, top.limit, top.offset))

    def pick_once(state: State, env: Env) -> list[tuple[Row, Number]]:
        if top not in state.picked:
            state.picked[top] = pick(state, env)
        return state.picked[top]

    picked = pick if inputs(top) else pick_once  # without inputs it is the same for every row outside

    def run(state: State, env: Env) -> Iterator[tuple[Env, Number]]:
        for row, weight in picked(state, env):
            if all(_same(env[name], row[place]) for place, name in known):
                yield {**env, **dict(zip(names, row, strict=True))}, weight

    return run


def _rank(value: object, key: SortBy) -> tuple[object, ...]:
    """Something to sort by: NaN is above all numbers, NULLs are at the end that the key says."""
    if value is None:
        return (0,) if key.nulls_first != key.descending else (3,)
    return (2,) if value != value else (1, value)


def _cut_off(rows: list[tuple[Row, Number]], limit: int | None, offset: int) -> Iterator[tuple[Row, Number]]:
    skip, left = offset, limit
    for row, weight in rows:
        skipped = min(skip, weight)
        taken = weight - skipped if left is None else min(weight - skipped, left)
        skip -= skipped
        left = None if left is None else left - taken
        if taken:
            yield row, taken


def _union(terms: tuple[Expr, ...], bound: frozenset[str]) -> Run:
    """Weights of equal rows are added before anyone sees them: `M + d_M` is the store after the batch, row by row."""
    names = schema(terms[0])
    parts = [compile_expr(term, bound) for term in terms]

    def rows(state: State, env: Env) -> Rows:
        total: Rows = {}
        for part in parts:
            for new, weight in part(state, env):
                row = tuple(new[name] for name in names)
                total[row] = total.get(row, 0) + weight
        return {row: weight for row, weight in total.items() if weight != 0}

    return _listed(names, bound, rows)
