"""Use one variable where two must be equal, so that joins are natural joins.

    R(a, b) * S(x, c) * {b = x}   =>  R(a, b) * S(b, c) * {b is not null} * (x := b)
    S(x, c) * {b = x}             =>  S(x, c) * (x := b) * {b is not null}        where b comes from outside
    R(a) * S(x) * (x := a)        =>  R(a) * S(a) * (x := a)
    (x := a) * {x < 3}            =>  (x := a) * {a < 3}                          also for constants and expressions

Variables join by identity and NULL is identical to NULL, while `=` is never true of NULL: hence the guards. The
assignments left behind give the old name to whoever still wants it; `prune_assignments` drops the rest. A variable from
outside never takes the place of a produced one: `Sum[](S(b, c))` would no longer be correlated. Nor do two variables
of a TopK become one: it would pick from fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from viewmill.algebra import scalars
from viewmill.algebra.build import agg_sum, assign, product
from viewmill.algebra.nodes import (
    AggSum,
    DeltaRelation,
    Exists,
    Expr,
    Extreme,
    Lift,
    Product,
    Relation,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import Call, Scalar, Var
from viewmill.algebra.schema import captures, inputs, rename_free, schema
from viewmill.rewrite.split_values import is_known


def unify(expr: Expr) -> Expr:
    match expr:
        case AggSum(group, Product(factors)):
            changed = _step(list(factors), frozenset(group))
            return expr if changed is None else agg_sum(group, product(*changed))
        case Product(factors):
            changed = _step(list(factors), frozenset(schema(expr)))
            return expr if changed is None else product(*changed)
        case _:
            return expr


def _step(factors: list[Expr], group: frozenset[str]) -> list[Expr] | None:
    """The first rule that applies, or None. The runner comes back until none does."""
    for rule in (_equal_columns, _equal_outside, _copied, _substituted):
        for changed in rule(factors, group):
            return changed
    return None


def _producers(factors: list[Expr], name: str) -> list[int]:
    return [i for i, factor in enumerate(factors) if name in schema(factor)]


def _is_plain(factor: Expr) -> bool:
    """Produces its variables by rows or by assignment, not by a nested aggregate."""
    return isinstance(factor, Relation | DeltaRelation | Exists | TopK) or (
        isinstance(factor, Lift) and isinstance(factor.body, Value)
    )


def _equal_columns(factors: list[Expr], group: frozenset[str]) -> Iterator[list[Expr]]:
    """`{x = y}` of two produced variables."""
    for i, factor in enumerate(factors):
        match factor:
            case Test(Call("=", (Var(x), Var(y)))) if x != y:
                both = _producers(factors, x), _producers(factors, y)
                if not all(made and all(_is_plain(factors[j]) for j in made) for made in both):
                    continue
                if set(both[0]) & set(both[1]):
                    continue  # two columns of one row: nothing to join
                keep, drop = (x, y) if x in group or y not in group else (y, x)
                if any(captures(f, drop, keep) for f in factors):
                    continue
                rest = [rename_free(f, {drop: keep}) for j, f in enumerate(factors) if j != i]
                yield [*rest, is_known(Var(keep)), *([assign(drop, Var(keep))] if drop in group else [])]


def _equal_outside(factors: list[Expr], group: frozenset[str]) -> Iterator[list[Expr]]:
    """`{b = x}` of a variable from outside and one produced by rows."""
    for i, factor in enumerate(factors):
        match factor:
            case Test(Call("=", (Var(left), Var(right)))):
                for outer, inner in ((left, right), (right, left)):
                    made = _producers(factors, inner)
                    if _producers(factors, outer) or not made:
                        continue
                    if all(isinstance(factors[j], Relation | DeltaRelation | Exists | TopK) for j in made):
                        yield [*factors[:i], assign(inner, Var(outer)), is_known(Var(outer)), *factors[i + 1 :]]


def _copied(factors: list[Expr], group: frozenset[str]) -> Iterator[list[Expr]]:
    """`(x := y)` where y is produced here: one of the two names is enough."""
    for i, factor in enumerate(factors):
        match factor:
            case Lift(x, Value(Var(y))) if x != y:
                rest = [*factors[:i], *factors[i + 1 :]]
                made_x, made_y = _producers(rest, x), _producers(rest, y)
                joins = all(_is_plain(rest[j]) for j in (*made_x, *made_y))
                if not made_y or (made_x and not joins) or any(captures(f, x, y) for f in rest):
                    continue
                if x in group and y not in group:
                    yield [rename_free(f, {y: x}) for f in rest]
                elif made_x:
                    yield [*(rename_free(f, {x: y}) for f in rest), *([factor] if x in group else [])]


def _substituted(factors: list[Expr], group: frozenset[str]) -> Iterator[list[Expr]]:
    """`(x := value)`: use the value for x in tests, values, other assignments, and (for variables) nested inputs."""
    for i, factor in enumerate(factors):
        match factor:
            case Lift(x, Value(scalar)) if len(_producers(factors, x)) == 1 and x not in scalars.variables(scalar):
                changed = [f if j == i else _replace(f, x, scalar) for j, f in enumerate(factors)]
                if changed != factors:
                    yield changed


def _replace(factor: Expr, x: str, scalar: Scalar) -> Expr:
    if x not in inputs(factor):
        return factor
    match factor:
        case Test(condition):
            return Test(scalars.substitute(condition, {x: scalar}))
        case Value(value):
            return Value(scalars.substitute(value, {x: scalar}))
        case Lift(var, Value(value)):
            return Lift(var, Value(scalars.substitute(value, {x: scalar})))
        case Lift() | Extreme() | Exists() | TopK() if isinstance(scalar, Var) and not captures(factor, x, scalar.name):
            return rename_free(factor, {x: scalar.name})
        case _:
            return factor
