"""Duplicate stores: definitions that are equal up to the names of variables and the order of factors.

    Sum[b](S(b, c) * T(c, d))   and   Sum[x](T(c: y, d: z) * S(b: x, c: y))   have one canonical form

Variables get colours (numbers) from where they stand, refined a few times as in graph isomorphism; factors are sorted
by their coloured text, and variables renamed in order of appearance. Two definitions with one form are equal.
Symmetric self-joins can keep two forms for one meaning; then we keep a store too many, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from viewmill.algebra import scalars
from viewmill.algebra.nodes import (
    AggSum,
    DeltaRelation,
    Expr,
    Extreme,
    Lift,
    Product,
    Relation,
    Sum,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import Scalar, Var
from viewmill.algebra.schema import anonymous, children, inputs, rename, schema, variables, walk, with_children

ROUNDS = 3

Colours = Mapping[str, int]


@lru_cache(maxsize=20_000)
def canonical(expr: Expr) -> tuple[Expr, tuple[str, ...]]:
    """The canonical form, and the variables of `expr` in the order of the form's schema."""
    return anonymous(_arranged(expr, _colours(expr)))


def _colours(expr: Expr) -> Colours:
    visible = set(schema(expr)) | inputs(expr)
    colours = {name: int(name in visible) for name in variables(expr)}
    nodes = list(walk(expr))
    leaves = [node for node in nodes if not children(node)]
    own = {name: [leaf for leaf in leaves if name in variables(leaf)] for name in colours}
    grouped = {name: sum(isinstance(node, AggSum) and name in node.group for node in nodes) for name in colours}
    places = {name: sorted(_place(node, name) for node in nodes if isinstance(node, TopK)) for name in colours}
    fixed = {name: (grouped[name], places[name]) for name in colours}
    for _ in range(ROUNDS):
        standing = {
            name: (colours[name], *fixed[name], sorted(_leaf_text(leaf, {**colours, name: -1}) for leaf in own[name]))
            for name in colours
        }
        ranks = sorted(standing.values())
        colours = {name: ranks.index(place) for name, place in standing.items()}
    return colours


def _place(top: TopK, name: str) -> int:
    """Where a variable stands in an order; -1 if it does not."""
    return next((place for place, key in enumerate(top.order) if key.var == name), -1)


def _arranged(expr: Expr, colours: Colours) -> Expr:
    """Factors, terms and group variables in the order of their coloured text; by their names where that is the same."""
    parts = tuple(_arranged(part, colours) for part in children(expr))
    match expr:
        case Product() | Sum():
            return type(expr)(tuple(sorted(parts, key=lambda part: (_text(part, colours), repr(part)))))
        case AggSum(group, _):
            return AggSum(tuple(sorted(group, key=lambda name: (colours[name], name))), parts[0])
        case _:
            return with_children(expr, parts)


def _text(expr: Expr, colours: Colours) -> str:
    below = children(expr)
    if not below:
        return _leaf_text(expr, colours)
    match expr:
        case Lift(var, _):
            own = f"{colours[var]}"
        case Extreme(var, kind, of, _):
            own = f"{colours[var]} {kind} {colours[of]}"
        case TopK(order, limit, offset, _):
            own = f"{[(colours[key.var], *key[1:]) for key in order]} {limit} {offset}"
        case AggSum(group, _):
            own = f"{[colours[name] for name in group]}"
        case _:
            own = ""
    return f"{type(expr).__name__}[{own}]({', '.join(_text(part, colours) for part in below)})"


def _leaf_text(leaf: Expr, colours: Colours) -> str:
    shape, names = _shape(leaf)
    return f"{shape}{[colours[name] for name in names]}"


@lru_cache(maxsize=20_000)
def _shape(leaf: Expr) -> tuple[str, tuple[str, ...]]:
    """The text of a leaf with its variables left out, and those variables from left to right."""
    return repr(rename(leaf, dict.fromkeys(variables(leaf), "?"))), tuple(_occurrences(leaf))


def _occurrences(leaf: Expr) -> Iterator[str]:
    match leaf:
        case Relation(_, _, vars_) | DeltaRelation(_, _, vars_):
            yield from vars_
        case Value(scalar) | Test(scalar):
            yield from _scalar_occurrences(scalar)
        case Lift(var, Value(scalar)):
            yield var
            yield from _scalar_occurrences(scalar)


def _scalar_occurrences(scalar: Scalar) -> Iterator[str]:
    if isinstance(scalar, Var):
        yield scalar.name
    for arg in scalars.children(scalar):
        yield from _scalar_occurrences(arg)
