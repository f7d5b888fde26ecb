"""Sums over rows that pass a threshold which all rows move (VWAP): what passes are ranges, so find where they end.

    Sum[](M(p) * (x := Sum[](N(q) * {q > p})) * {c > x})

Law. If no weight of N is negative, x falls as p rises. A test of x whose truth can change only once as x grows, from
true to false or the other way, therefore changes only once as p rises: the rows that pass are those of M up to some p,
or from some p on. That p is found by going down the ordered index of M: at each node x is a sum over a range, and the
test says which way to go. What passes is then one sum over a range, too. With n different p, that is log(n) sums and
not n; and where M and N are in one index, as they are where a query compares a table with itself, it is one sum that is
carried along, of all that the way down has left on the side of the greater p (or of the smaller). Whether a weight is
negative is known to the index, when the code runs; if one is, the rows are looped over.

SQL's sums are NULL where there is nothing to add up: `case when n = 0 then null else x end`, with n a sum over the same
kind of range. A test of that changes where n becomes 0, and on either side of it once more: the rows fall into two
*pieces*, one where n = 0 is true and one where it is false, and in each piece the test has no such case in it.

A value is *rising* if it never falls as the sums rise, and *falling* if it never rises; whether it is NULL depends on
known values alone. A comparison of a rising value with a constant one is a test that changes once.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from viewmill.algebra import scalars
from viewmill.algebra.nodes import AggSum, Expr, Lift, Product, Relation, Test, Value
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.schema import inputs
from viewmill.algebra.typing import scalar_type
from viewmill.engines.local.ranges import Place, Range, find_range, free_variables, place_of, plain_variable
from viewmill.engines.local.sources import Sources
from viewmill.types import Type

Trend = Literal["same", "rising", "falling"]

MOST_CASES = 2
"""Sums that may be tested for being 0: each doubles the number of pieces."""

_OPPOSITE: dict[Trend, Trend] = {"same": "same", "rising": "falling", "falling": "rising"}
_ZERO = (Const(0), Const(Decimal(0)))


@dataclass(frozen=True, slots=True)
class Cut:
    """A test that the sums change once, or not at all."""

    test: Scalar
    trend: Trend


@dataclass(frozen=True, slots=True)
class Threshold:
    """`place.atom * lifts * tests`, as `pieces` of which each is where all its cuts are true; no row is in two.

    `falls`: the sums fall as the key rises. `others` are the factors that concern known variables only.
    """

    place: Place
    lifts: tuple[Lift, ...]
    ranges: tuple[Range, ...]
    falls: bool
    tests: tuple[Test, ...]
    pieces: tuple[tuple[Cut, ...], ...]
    others: tuple[Expr, ...]


def find_threshold(
    first: Expr, rest: tuple[Expr, ...], known: Collection[str], sources: Sources, types: Mapping[str, Type]
) -> Threshold | None:
    """The sum over `first * rest` as one over rows that pass a threshold, if it is one."""
    if not isinstance(first, Relation):
        return None
    free = set(free_variables(first, known))
    lifts: list[Lift] = []
    tests: list[Test] = []
    others: list[Expr] = []
    for factor in rest:
        mine = inputs(factor) & (free | {lift.var for lift in lifts})
        if not mine and isinstance(factor, Test | Value | Lift):
            others.append(factor)
        elif isinstance(factor, Lift) and mine <= free:
            lifts.append(factor)
        elif isinstance(factor, Test) and not mine & free:
            tests.append(factor)
        else:
            return None
    known = {*known, *(factor.var for factor in others if isinstance(factor, Lift))}
    keys = set().union(*(inputs(lift) & free for lift in lifts))
    if len(keys) != 1 or not tests:
        return None
    place = place_of(first, keys.pop(), known, sources)
    ranges = [_range(lift, place, known, sources, types) for lift in lifts] if place is not None else []
    directions = {found.bounds[0].op in (">", ">=") for found in ranges if found is not None}
    if place is None or None in ranges or len(directions) != 1:
        return None
    pieces = _pieces(tests, {lift.var for lift in lifts}, types)
    if pieces is None:
        return None
    found = tuple(one for one in ranges if one is not None)
    return Threshold(place, tuple(lifts), found, directions.pop(), tuple(tests), pieces, tuple(others))


def _range(
    lift: Lift, place: Place, known: Collection[str], sources: Sources, types: Mapping[str, Type]
) -> Range | None:
    """The one range that a nested sum is over: it ends at the key and is open on the other side."""
    body = lift.body
    while isinstance(body, AggSum):
        body = body.body
    factors = body.factors if isinstance(body, Product) else (body,)
    rows = [factor for factor in factors if not isinstance(factor, Test)]
    if len(rows) != 1:
        return None
    tests = tuple(factor for factor in factors if isinstance(factor, Test))
    found = find_range(rows[0], tests, {*known, place.var}, sources, types)
    if found is None or found.change is not None or len(found.bounds) != 1:
        return None
    if plain_variable(found.bounds[0].limit, types) != place.var:
        return None
    if any(place.var in inputs(other) for other in found.others) or place.var in {var for _, var in found.place.given}:
        return None
    return found


def _pieces(tests: list[Test], sums: set[str], types: Mapping[str, Type]) -> tuple[tuple[Cut, ...], ...] | None:
    conditions = [part for test in tests for part in _conjuncts(test.scalar)]
    cases = sorted({var for condition in conditions for var in _tested_for_zero(condition, sums)})
    if len(cases) > MOST_CASES:
        return None
    pieces: list[tuple[Cut, ...]] = []
    for choice in itertools.product((True, False), repeat=len(cases)):
        zero = dict(zip(cases, choice, strict=True))
        cuts = [Cut(Call("<=" if zero[var] else ">", (Var(var), Const(0))), _case(zero[var])) for var in cases]
        for condition in conditions:
            assumed = assume(condition, zero)
            if assumed in (scalars.NULL, scalars.FALSE):
                break  # nothing passes in this piece
            if assumed == scalars.TRUE:
                continue
            way = trend(assumed, sums, types)
            if way is None:
                return None
            cuts.append(Cut(assumed, way))
        else:
            pieces.append(tuple(cuts))
    return tuple(pieces)


def _case(zero: bool) -> Trend:
    """Sums that are never negative are 0 first, if they grow."""
    return "falling" if zero else "rising"


def _conjuncts(scalar: Scalar) -> Iterator[Scalar]:
    if isinstance(scalar, Call) and scalar.op == "and":
        for part in scalar.args:
            yield from _conjuncts(part)
    else:
        yield scalar


def _tested_for_zero(scalar: Scalar, sums: set[str]) -> Iterator[str]:
    match scalar:
        case Call("=", (Var(name), zero)) if name in sums and zero in _ZERO:
            yield name
        case _:
            for part in scalars.children(scalar):
                yield from _tested_for_zero(part, sums)


def assume(scalar: Scalar, zero: Mapping[str, bool]) -> Scalar:
    """The scalar where it is known of some variables whether they are 0."""
    match scalar:
        case Call("=", (Var(name), number)) if name in zero and number in _ZERO:
            return Const(zero[name])
    scalar = scalars.with_children(scalar, tuple(assume(part, zero) for part in scalars.children(scalar)))
    match scalar:
        case Call("case", args):
            return _decided(args)
        case Call("coalesce", args):
            left = tuple(arg for arg in args if arg != scalars.NULL)
            return Call("coalesce", left) if len(left) > 1 else left[0] if left else scalars.NULL
        case Call("not", (Const(bool(value)),)):
            return Const(not value)
        case Cast(Const(None), _):
            return scalars.NULL
        case Call("+" | "-" | "*" | "/" | "neg" | "<" | "<=" | ">" | ">=" | "=" | "<>" | "not", args):
            return scalars.NULL if scalars.NULL in args else scalar
        case _:
            return scalar


def _decided(args: tuple[Scalar, ...]) -> Scalar:
    *pairs, otherwise = args
    left: list[Scalar] = []
    for when, then in zip(pairs[::2], pairs[1::2], strict=True):
        if when == scalars.TRUE:
            otherwise = then
            break
        if when not in (scalars.FALSE, scalars.NULL):
            left += (when, then)
    return Call("case", (*left, otherwise)) if left else otherwise


def trend(scalar: Scalar, sums: Collection[str], types: Mapping[str, Type]) -> Trend | None:
    """Which way a value goes as the sums rise, or a condition, where true is above false. None if that is not known."""
    if not scalars.variables(scalar) & set(sums):
        return "same"
    match scalar:
        case Var():
            return "rising"
        case Cast(arg, target) if target.is_numeric and scalar_type(arg, types).is_numeric:
            return trend(arg, sums, types)  # rounding keeps the order
        case Call("+" | "and" | "or" | "coalesce", args):
            return _together([trend(arg, sums, types) for arg in args])
        case Call("-", (left, right)):
            return _together([trend(left, sums, types), _turned(trend(right, sums, types))])
        case Call("neg" | "not", (arg,)):
            return _turned(trend(arg, sums, types))
        case Call("*", (arg, Const(number))) | Call("*", (Const(number), arg)) | Call("/", (arg, Const(number))):
            return _times(trend(arg, sums, types), number)
        case Call(">" | ">=", (left, right)):
            return _together([trend(left, sums, types), _turned(trend(right, sums, types))])
        case Call("<" | "<=", (left, right)):
            return _together([_turned(trend(left, sums, types)), trend(right, sums, types)])
        case _:
            return None


def _together(trends: list[Trend | None]) -> Trend | None:
    moving = {each for each in trends if each != "same"}
    return moving.pop() if len(moving) == 1 else None if moving else "same"


def _turned(way: Trend | None) -> Trend | None:
    return None if way is None else _OPPOSITE[way]


def _times(way: Trend | None, number: object) -> Trend | None:
    if not isinstance(number, int | float | Decimal) or number != number or number == 0:
        return None
    return way if number > 0 else _turned(way)
