"""Cut an expression into stores (Hot Dog section 2.2; DBToaster section 3.1).

    Sum[b](d_R(a, b) * S(b, c) * T(c, d))   =>   Sum[b](d_R(a, b) * M_ST(b))      M_ST = Sum[b](S(b, c) * T(c, d))
    Sum[b](R(a, b) * d_S(b, c) * T(c, d))   =>   Sum[b](M_R(b) * d_S(b, c) * M_T(c))

The relations of a product fall into parts that share no variable except those the batch gives. Each part becomes a
store, with the tests and values that concern it alone, keyed by what the rest needs of it. Parts are
never multiplied with each other: that is factorisation, and it is why no cross product is ever stored.

Bodies of nested aggregates are kept whole where possible: they are cut only between parts that share nothing at all,
so that `(x := Sum[](S(b2, c) * (b2 := b)))` becomes one look-up, `(x := M_S(b))`.

What a TopK picks from all rows there are is a store of its own for whoever joins it with other rows: it is sorted when
its rows change, and not whenever a partner does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from viewmill.algebra.build import agg_sum, factors, product, sum_
from viewmill.algebra.nodes import (
    After,
    AggSum,
    DeltaRelation,
    Exists,
    Expr,
    Extreme,
    Lift,
    Relation,
    Sum,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import can_fail
from viewmill.algebra.schema import deltas, inputs, relations, schema, walk

StoreFor = Callable[[Expr], Expr]
"""Gives a reader `M(vars)` for a definition, making the store if there is none yet."""

Apart = Callable[[list[Relation]], list[list[Relation]]]
"""Which of the relations that are joined may be joined in one store."""


def cut(expr: Expr, store_for: StoreFor, apart: Apart | None = None, *, whole: bool = False) -> Expr:
    """`expr` over stores. It must be expanded: no sums inside products."""
    match expr:
        case Sum(terms):
            return sum_(cut(term, store_for, apart, whole=whole) for term in terms)
        case After(body):
            return After(cut(body, store_for, apart, whole=whole))
        case AggSum(group, body):
            inner = _cut_product(factors(body), frozenset(group), store_for, whole, apart)
            return inner if set(schema(inner)) == set(group) else agg_sum(group, inner)
        case _:
            return _cut_product(factors(expr), frozenset(schema(expr)), store_for, whole, apart)


def is_unrestricted(term: Expr) -> bool:
    """No factor is as small as the batch, and some factor is large: running this means running over a whole store."""
    parts = factors(term.body if isinstance(term, AggSum) else term)
    large = any(relations(part) and schema(part) and not isinstance(part, Lift | Extreme) for part in parts)
    return large and not any(_is_small(part) for part in parts)


def _is_small(part: Expr) -> bool:
    """A set of rows as small as the batch."""
    return not relations(part) and isinstance(part, DeltaRelation | Exists | AggSum | Sum)


@dataclass(slots=True)
class _Part:
    """Factors that will be one store."""

    factors: list[Expr]
    vars: set[str]


def _cut_product(
    parts: tuple[Expr, ...], needed: frozenset[str], store_for: StoreFor, whole: bool, apart: Apart | None = None
) -> Expr:
    given = _given(parts)
    rows, rest = _split(parts, whole)
    stores = _connect(rows, rest, given, whole)
    if apart is not None and not whole:
        stores = [piece for store in stores for piece in _pieces(store, apart)]
    rest = [f for f in rest if not any(f in store.factors for store in stores)]
    rest = _attach(rest, stores, given, whole)
    done: list[Expr] = [
        store_for(factor) if _is_shared(factor, parts) else _cut_nested(factor, store_for) for factor in rest
    ]
    for i, part in enumerate(stores):
        others = [f for j, other in enumerate(stores) if j != i for f in other.factors]
        read = needed.union(given, *(set(schema(f)) | inputs(f) for f in (*rest, *others)))
        keys = tuple(name for name in schema(product(*part.factors)) if name in read)
        done.append(store_for(agg_sum(keys, product(*part.factors))))
    return product(*done)


def _is_shared(factor: Expr, parts: tuple[Expr, ...]) -> bool:
    """A TopK for which nothing need be known, next to other rows. (Alone, it may be the very store to be filled.)"""
    if not isinstance(factor, TopK) or inputs(factor) or any(isinstance(node, After) for node in walk(factor)):
        return False
    return any(part is not factor and (relations(part) or deltas(part)) for part in parts)


def _given(parts: Iterable[Expr]) -> frozenset[str]:
    """Variables that are known before any store is read: from outside, from the batch, and what follows from these."""
    parts = tuple(parts)
    names = set(inputs(product(*parts))).union(*(schema(part) for part in parts if _is_small(part)))
    while True:
        more = {
            p.var for p in parts if isinstance(p, Lift) and isinstance(p.body, Value) and inputs(p) <= names
        } - names
        if not more:
            return frozenset(names)
        names |= more


def _split(parts: tuple[Expr, ...], whole: bool) -> tuple[list[Expr], list[Expr]]:
    """Factors that bring rows of relations, and the rest. Kept whole, closed nested sets bring rows too."""
    kinds = (Relation, Exists, TopK) if whole else (Relation,)
    rows: list[Expr] = [part for part in parts if isinstance(part, kinds) and relations(part) and not inputs(part)]
    return rows, [part for part in parts if part not in rows]


def _connect(rows: list[Expr], rest: list[Expr], given: frozenset[str], whole: bool) -> list[_Part]:
    """Group factors that share a variable which is not given.

    Assignments join like columns. Kept whole, given variables join as well, and so does everything else
    that needs several rows at once and nothing from outside.
    """
    outside = inputs(product(*rows, *rest))
    apart = outside if whole else given
    stores: list[_Part] = []
    for row in rows:
        stores = _joined(stores, set(schema(row)), apart, row)
    closed = [f for f in rest if whole and isinstance(f, Lift | Extreme) and not inputs(f)]
    for value in closed:  # a value of its own, which tests may tie to rows
        stores = _joined(stores, set(schema(value)), apart, value)
    edges = [
        f for f in rest if (whole and not inputs(f) & outside) or (isinstance(f, Lift) and isinstance(f.body, Value))
    ]
    # What may fail is computed last, and ties nothing together, but for tests of sums that are evaluated anew anyway.
    edges = [edge for edge in edges if not _is_risky(edge) or (whole and _tests_a_range(edge, rows, rest, stores))]
    while edge := next((f for f in edges if _can_join(f, stores, apart)), None):
        edges.remove(edge)
        stores = _joined(stores, set(schema(edge)) | inputs(edge), apart)
    # What ties the rows together is not in the store yet: only the variables of its rows are.
    return [
        _Part(store.factors, set().union(*map(schema, store.factors)))
        for store in stores
        if any(f in rows for f in store.factors)
    ]


def _tests_a_range(edge: Expr, rows: list[Expr], rest: list[Expr], stores: list[_Part]) -> bool:
    """It compares closed values with sums over what is above or below each row (VWAP), and rows have no other partner.

    Any change moves all those sums, so the rows are gone through again in any case: better with the test, after which
    little is left to keep. Closed values are one row each, so that every row has its partner.
    """
    lone = sum(any(f in rows for f in store.factors) for store in stores) == 1
    nested = {f.var: f for f in rest if isinstance(f, Lift) and relations(f)}
    tested = [nested[name] for name in inputs(edge) if name in nested]
    ranges = [lift for lift in tested if inputs(lift) and not any(isinstance(node, Lift) for node in walk(lift.body))]
    return (
        lone
        and bool(ranges)
        and len(tested) == len(inputs(edge))
        and all(lift in ranges or not inputs(lift) for lift in tested)
    )


def _pieces(store: _Part, apart: Apart) -> list[_Part]:
    """The part, or smaller ones that the statement joins on the spot."""
    atoms = [factor for factor in store.factors if isinstance(factor, Relation)]
    if len(atoms) < len(store.factors):
        return [store]
    groups: list[list[Expr]] = [list(group) for group in apart(atoms)]
    return [_Part(group, set().union(*map(schema, group))) for group in groups]


def _is_risky(factor: Expr) -> bool:
    match factor:
        case Test(scalar) | Value(scalar) | Lift(_, Value(scalar)):
            return can_fail(scalar)
        case _:
            return False


def _can_join(edge: Expr, stores: list[_Part], apart: frozenset[str]) -> bool:
    """What it needs is in the parts that it touches, and not all of it is known before."""
    names = set(schema(edge)) | inputs(edge)
    touched = set().union(*(store.vars for store in stores if (store.vars & names) - apart))
    return bool(inputs(edge)) and inputs(edge) <= touched


def _joined(stores: list[_Part], names: set[str], apart: frozenset[str], row: Expr | None = None) -> list[_Part]:
    """The parts, with those merged that share one of `names`."""
    touched = [store for store in stores if (store.vars & names) - apart]
    members = [f for store in touched for f in store.factors] + ([row] if row is not None else [])
    return [s for s in stores if s not in touched] + [_Part(members, names.union(*(s.vars for s in touched)))]


def _attach(rest: list[Expr], stores: list[_Part], given: frozenset[str], whole: bool) -> list[Expr]:
    """Give each store the factors that concern it alone; return what is left."""
    alone = len(stores) == 1 and not any(_is_small(factor) for factor in rest)
    moved = True
    while moved:
        moved = False
        for i, factor in enumerate(rest):
            home = _home(factor, stores, given, whole, alone)
            if home is not None:
                home.factors.append(factor)
                home.vars |= set(schema(factor))
                rest = [*rest[:i], *rest[i + 1 :]]  # only this one: in `a * a` both factors are the same object
                moved = True
                break
    return rest


def _home(factor: Expr, stores: list[_Part], given: frozenset[str], whole: bool, alone: bool) -> _Part | None:
    used = inputs(factor)
    if not used or (used <= given and not whole):
        return None
    match factor:
        case _ if _is_risky(factor) and not alone:
            return None  # a row may have no partner, and then SQL would not compute it
        case Test() | Value() | Lift(_, Value()):
            pass
        case Lift() | Extreme() | Exists() | TopK() if whole:
            pass
        case _:
            return None
    return next((store for store in stores if used <= store.vars), None)


def _cut_nested(factor: Expr, store_for: StoreFor) -> Expr:
    if not relations(factor):
        return factor
    match factor:
        case Lift(var, body):
            return Lift(var, cut(body, store_for, whole=True))
        case Extreme(var, kind, of, After(body)):
            return Extreme(var, kind, of, After(_cut_keeping(body, of, store_for)))
        case Extreme(var, kind, of, body):
            return Extreme(var, kind, of, _cut_keeping(body, of, store_for))
        case Exists(body):
            return Exists(cut(body, store_for, whole=True))
        case TopK(order, limit, offset, body):
            return TopK(order, limit, offset, cut(body, store_for, whole=True))
        case _:
            return cut(factor, store_for, whole=True)


def _cut_keeping(body: Expr, of: str, store_for: StoreFor) -> Expr:
    """The rows of an Extreme need only the variable that is compared, and what correlates them."""
    if isinstance(body, Sum):
        return sum_(_cut_keeping(term, of, store_for) for term in body.terms)
    inner = body.body if isinstance(body, AggSum) else body
    rows = _cut_product(factors(inner), frozenset((of,)), store_for, True)
    return rows if schema(rows) == (of,) else agg_sum((of,), rows)
