"""Dead code: what nobody looks at does not travel (Hot Dog, section 4.3.2).

Columns that no statement reads are left out, and so are rows that no statement counts:

    Sum[k](d_R(k, a, b) * {a > 3} * ...)  and  Sum[](d_R(a, b) * {a > 3} * {b = 1})    =>    {a > 3}
    ... * {a > 3} ...                     and  ... * {b = 1} ...                       =>    {a > 3 or b = 1}

It is tested again where the row arrives, so that it need not be exact; but it must not be false for a row that counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from viewmill.algebra.build import factors
from viewmill.algebra.nodes import DeltaRelation, Exists, Expr, Product, Test
from viewmill.algebra.scalars import Call, Scalar, Var, can_fail, substitute, variables
from viewmill.algebra.schema import children, walk
from viewmill.distribute.units import PUT_DOWN, Unit

MOST = 8
"""More alternatives than this are not worth testing."""


def columns_read(units: Iterable[Unit]) -> dict[str, set[str]]:
    """By change, the columns that anybody reads."""
    found: dict[str, set[str]] = {}
    for expr in (expr for unit in units for expr in unit.exprs):
        for node in walk(expr):
            if isinstance(node, DeltaRelation):
                found.setdefault(node.name, set()).update(node.fields)
    return found


def rows_read(change: str, units: Sequence[Unit]) -> tuple[Expr, ...]:
    """Conditions that hold for all rows of a change that anybody counts.

    A change that waits for others is put down whole, and counted by whoever it waits for.
    """
    takers = [u for u in units if u.turn != PUT_DOWN and any(arrival.name == change for arrival in u.takes)]
    return common_condition(change, (expr for unit in takers for expr in unit.exprs))


def common_condition(change: str, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
    """Conditions over the columns of a change, of which all hold for every row that one of `exprs` looks at."""
    uses = [use for expr in exprs for use in _uses(expr, change)]
    if not uses:
        return ()
    shared = frozenset.intersection(*uses)
    found = [Test(scalar) for scalar in sorted(shared, key=str)]
    rest = {use - shared for use in uses}
    if all(rest) and 1 < len(rest) <= MOST:
        found.append(Test(_any(_all(use) for use in sorted(rest, key=lambda one: sorted(map(str, one))))))
    return tuple(found)


def _uses(expr: Expr, change: str) -> Iterator[frozenset[Scalar]]:
    """For every place where the change is read, the tests that stand beside it, over its columns."""
    match expr:
        case DeltaRelation(name, _, _) if name == change:
            yield frozenset()
        case Product():
            parts = factors(expr)
            for part in parts:
                atom = _read(part, change)
                if atom is not None:
                    yield frozenset(_over_columns(atom, parts))
                else:
                    yield from _uses(part, change)
        case _:
            for child in children(expr):
                yield from _uses(child, change)


def _read(part: Expr, change: str) -> DeltaRelation | None:
    """The change itself, or which of its rows there are."""
    inner = part.body if isinstance(part, Exists) else part
    return inner if isinstance(inner, DeltaRelation) and inner.name == change else None


def _over_columns(atom: DeltaRelation, parts: tuple[Expr, ...]) -> Iterator[Scalar]:
    columns = {var: Var(field) for field, var in zip(reversed(atom.fields), reversed(atom.vars), strict=True)}
    for part in parts:
        if isinstance(part, Test) and variables(part.scalar) <= set(columns) and not can_fail(part.scalar):
            if variables(part.scalar):
                yield substitute(part.scalar, dict(columns))


def _all(scalars: Iterable[Scalar]) -> Scalar:
    first, *rest = sorted(scalars, key=str)
    for scalar in rest:
        first = Call("and", (first, scalar))
    return first


def _any(scalars: Iterable[Scalar]) -> Scalar:
    first, *rest = scalars
    for scalar in rest:
        first = Call("or", (first, scalar))
    return first
