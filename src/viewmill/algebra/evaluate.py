"""The reference evaluator: slow and obvious, the truth that everything else is checked against.

    evaluate(Sum[b](R(a, b)), {"R": Contents(("a", "b"), {(1, 2): 3, (4, 2): 1})})  ==  {(2,): 4}

It follows the table in `nodes.py` line by line: no indexes, no plans; it shares with others only the scalar functions.
Rows are tuples in the order of `schema(expr)`, and rows of weight 0 are absent. Since a row that is absent takes
no part in a product, a factor of weight 0 ends the matter: what stands behind it is not computed and cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, cmp_to_key
from typing import Any, TypeAlias, assert_never

from viewmill.algebra.functions import NAN, Number, add, evaluate_scalar, greatest, least, mul
from viewmill.algebra.functions.logic import is_nan
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
from viewmill.algebra.scalars import Call, Const, Var
from viewmill.algebra.schema import inputs, schema
from viewmill.algebra.text import show
from viewmill.errors import InternalError

Row: TypeAlias = tuple[object, ...]
Rows: TypeAlias = dict[Row, Number]
Env: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a relation holds: rows over `fields`, with their weights."""

    fields: tuple[str, ...]
    rows: Rows


Database: TypeAlias = Mapping[str, Contents]


def evaluate(expr: Expr, db: Database, batch: Database | None = None, env: Env | None = None) -> Rows:
    """The rows of `expr` where `db` holds the relations, `batch` their pending changes and `env` the inputs.

    A relation without a pending change has no rows in `batch`. A relation that `db` does not know is an error.
    """
    return _Reference(db, batch or {}).rows(expr, env or {})


def add_rows(a: Rows, b: Rows) -> Rows:
    return collect((*a.items(), *b.items()))


def add_contents(a: Contents, b: Contents) -> Contents:
    """`a + b`, for the fields in any order."""
    moved = {_pick(row, b.fields, a.fields): weight for row, weight in b.rows.items()}
    return Contents(a.fields, add_rows(a.rows, moved))


def add_databases(db: Database, batch: Database) -> dict[str, Contents]:
    """`D + d`: every relation with its pending changes applied."""
    changed = {name: add_contents(db[name], change) for name, change in batch.items() if name in db}
    return {**batch, **db, **changed}


def collect(weighted: Iterable[tuple[Row, Number]]) -> Rows:
    """Add up the weights of equal rows; drop those that come to 0."""
    total: Rows = {}
    for row, weight in weighted:
        total[row] = add(total[row], weight) if row in total else weight
    return {row: weight for row, weight in total.items() if weight != 0}


def _pick(row: Row, names: tuple[str, ...], wanted: Iterable[str]) -> Row:
    values = dict(zip(names, row, strict=True))
    return tuple(values[name] for name in wanted)


def _key(value: object) -> object:
    """Values join by identity, which for NaN takes one object."""
    return NAN if is_nan(value) else value


def _same(a: object, b: object) -> bool:
    return a is b or a == b


@dataclass(frozen=True)
class _Reference:
    db: Database
    batch: Database

    @cached_property
    def after(self) -> _Reference:
        """The state that includes the batch, and nothing pending."""
        return _Reference(add_databases(self.db, self.batch), {})

    def rows(self, expr: Expr, env: Env) -> Rows:
        match expr:
            case Relation(name, _, _):
                if name not in self.db:
                    raise InternalError(f"no relation {name} to read in {show(expr)}")
                return _read(expr, self.db[name])
            case DeltaRelation(name, _, _):
                return _read(expr, self.batch[name]) if name in self.batch else {}
            case Value(scalar):
                weight = evaluate_scalar(scalar, env)
                return {} if weight is None or weight == 0 else {(): _number(weight, expr)}
            case Test(scalar):
                return {(): 1} if evaluate_scalar(scalar, env) is True else {}
            case Lift(_, Value(scalar)):
                return {(_key(evaluate_scalar(scalar, env)),): 1}
            case Lift(_, body):
                return {(_key(self.weight(body, env)),): 1}
            case Extreme():
                return {(self.extreme(expr, env),): 1}
            case Exists(body):
                return dict.fromkeys(self.rows(body, env), 1)
            case TopK():
                return self.top(expr, env)
            case Product(factors):
                return self.product(expr, factors, env)
            case Sum(terms):
                return collect(pair for term in terms for pair in self.term(term, schema(expr), env))
            case AggSum(group, body):
                return collect(self.group(body, group, env))
            case After(body):
                return self.after.rows(body, env)
            case _:
                assert_never(expr)

    def group(self, body: Expr, wanted: tuple[str, ...], env: Env) -> Iterator[tuple[Row, Number]]:
        """The rows of `body` cut down to the variables `wanted`, in that order."""
        names = schema(body)
        rows = self.rows(body, env)
        if rows and not set(wanted) <= set(names):
            raise InternalError(f"{show(body)} does not produce all of {', '.join(wanted)}")
        return ((_pick(row, names, wanted), weight) for row, weight in rows.items())

    def term(self, term: Expr, wanted: tuple[str, ...], env: Env) -> Iterator[tuple[Row, Number]]:
        """The rows of one term of a sum. What it produces and other terms do not is given from outside."""
        names = schema(term)
        if missing := sorted(set(names) - set(wanted) - env.keys()):
            raise InternalError(
                f"{show(term)} alone in its sum produces {', '.join(missing)}, which has no value outside"
            )
        given = [(i, env[name]) for i, name in enumerate(names) if name not in wanted]
        for row, weight in self.rows(term, env).items():
            if all(_same(row[i], value) for i, value in given):
                yield _pick(row, names, wanted), weight

    def weight(self, body: Expr, env: Env) -> Number:
        if schema(body):
            raise InternalError(f"the value of {show(body)} depends on {', '.join(schema(body))}")
        return self.rows(body, env).get((), 0)

    def extreme(self, expr: Extreme, env: Env) -> object:
        names = schema(expr.body)
        envs = ({**env, **dict(zip(names, row, strict=True))} for row in self.rows(expr.body, env))
        found = [evaluate_scalar(Var(expr.of), inner) for inner in envs]
        return least(*found) if expr.kind == "min" else greatest(*found)

    def top(self, expr: TopK, env: Env) -> Rows:
        names = schema(expr.body)
        if sorted(key.var for key in expr.order) != sorted(names):
            raise InternalError(f"the order of {show(expr)} does not name all of {', '.join(sorted(names))} once")
        rows = {row: weight for row, weight in self.rows(expr.body, env).items() if weight > 0}
        found: Rows = {}
        place: Number = 0  # of the last copy so far
        for row in sorted(rows, key=_by(names, expr.order)):
            start, place = place, add(place, rows[row])
            first = max(start, expr.offset)
            last = place if expr.limit is None else min(place, expr.offset + expr.limit)
            if first < last:
                found[row] = add(last, mul(-1, first))
        return found

    def product(self, expr: Product, factors: tuple[Expr, ...], env: Env) -> Rows:
        """Join factor after factor, each time the first whose inputs have values.

        What the product itself produces is not taken from outside, even if a variable there has the same name.
        """
        produced = schema(expr)
        outside = {name: value for name, value in env.items() if name not in produced}
        names: tuple[str, ...] = ()
        rows: Rows = {(): 1}
        pending = list(factors)
        while pending:
            factor = next((f for f in pending if inputs(f) <= outside.keys() | set(names)), None)
            if factor is None:
                raise InternalError(f"{show(pending[0])} needs variables that nothing in {show(expr)} gives a value")
            pending.remove(factor)
            rows = collect(self.join(rows, names, factor, outside))
            names = tuple(dict.fromkeys((*names, *schema(factor))))
        return {_pick(row, names, produced): weight for row, weight in rows.items()}

    def join(self, rows: Rows, names: tuple[str, ...], factor: Expr, outside: Env) -> Iterator[tuple[Row, Number]]:
        produced = schema(factor)
        # A factor without inputs is the same for every row: computed once, if at all.
        fixed = self.rows(factor, {}) if rows and not inputs(factor) else None
        for row, weight in rows.items():
            bound = dict(zip(names, row, strict=True))
            others = self.rows(factor, {**outside, **bound}) if fixed is None else fixed
            for other, other_weight in others.items():
                found = dict(zip(produced, other, strict=True))
                if all(_same(bound[name], value) for name, value in found.items() if name in bound):
                    yield tuple({**bound, **found}.values()), mul(weight, other_weight)


def _read(expr: Relation | DeltaRelation, contents: Contents) -> Rows:
    """Fields by name, those not named added away; a variable that stands for two fields makes them equal."""

    def matching() -> Iterator[tuple[Row, Number]]:
        for row, weight in contents.rows.items():
            found: dict[str, object] = {}
            values = map(_key, _pick(row, contents.fields, expr.fields))
            if all(_same(found.setdefault(var, value), value) for var, value in zip(expr.vars, values, strict=True)):
                yield tuple(found.values()), weight

    return collect(matching())


def _by(names: tuple[str, ...], order: tuple[SortBy, ...]) -> Callable[[Row], Any]:
    """To sort rows over `names` by."""

    def compare(a: Row, b: Row) -> int:
        """-1 where a comes before b, 1 where it comes after."""
        for key in order:
            left, right = a[names.index(key.var)], b[names.index(key.var)]
            if _same(left, right):
                continue
            if left is None or right is None:
                return -1 if (left is None) == key.nulls_first else 1
            is_less = evaluate_scalar(Call("<", (Const(left), Const(right))), {})
            return -1 if is_less != key.descending else 1
        return 0

    return cmp_to_key(compare)


def _number(weight: object, expr: Expr) -> Number:
    if not isinstance(weight, Number):
        raise InternalError(f"{weight!r} in {show(expr)} is not a weight")
    return weight
