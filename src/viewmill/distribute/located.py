"""Where the value of an expression is, if it is computed in every bucket over what that bucket has (Hot Dog, 4.2).

For a variable x, a bucket *owns* the rows (and the bindings from outside) whose x hashes to it. An expression is

    right for x    if a bucket that owns a row gives it the weight it has over all data
    zero for x     if a bucket gives no weight to rows it does not own

A store in buckets by the column that x names is both. What is in every bucket is right for any x, or for none at all.

    product        right if all factors are, zero if one of them is as well
    sum            right if all terms are, zero if all are
    Sum[g](E)      as E, if x is in g or comes from outside
    Exists(E)      as E
    (y := E)       right if E is, and never zero: an empty bucket has a value for y, and it is the wrong one

If E is both for x, adding up what the buckets have gives E. If E is right for no variable in particular, every bucket
has all of it. Two variables that `(x := y)` makes equal are one. So are tuples of variables for tuples of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

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
    Sum,
    Test,
    TopK,
    Value,
)
from viewmill.algebra.scalars import Var
from viewmill.algebra.schema import schema
from viewmill.distribute.nodes import Buckets, Everywhere, Place
from viewmill.errors import InternalError

Atom: TypeAlias = Relation | DeltaRelation
PlaceOf: TypeAlias = Callable[[Atom], Place]

Owner: TypeAlias = tuple[frozenset[str], ...]
"""For each column of a hash, the names of the variable that stands for it."""


@dataclass(frozen=True, slots=True)
class Located:
    right: bool
    zero: bool


def locate(expr: Expr, owner: Owner, place_of: PlaceOf) -> Located:
    match expr:
        case Relation() | DeltaRelation():
            return _atom(expr, owner, place_of(expr))
        case Value() | Test() | Lift(_, Value()):
            return Located(True, False)
        case Lift(_, body):
            return Located(locate(body, owner, place_of).right, False)
        case Extreme(_, _, _, body):
            return Located(locate(body, _without(owner, schema(body)), place_of).right, False)
        case TopK(_, _, _, body):
            return locate(body, _without(owner, schema(body)), place_of)
        case Exists(body):
            return locate(body, owner, place_of)
        case AggSum(group, body):
            return locate(body, _without(owner, set(schema(body)) - set(group)), place_of)
        case Product(parts):
            known = widen(owner, parts)
            found = [locate(part, known, place_of) for part in parts]
            return Located(all(one.right for one in found), any(one.zero for one in found))
        case Sum(terms):
            found = [locate(term, owner, place_of) for term in terms]
            return Located(all(one.right for one in found), all(one.zero for one in found))
        case After():
            raise InternalError("a program has no After left in it")
        case _:
            assert_never(expr)


def is_whole(expr: Expr, place_of: PlaceOf) -> bool:
    """Every bucket has all of it."""
    return locate(expr, (frozenset(),), place_of).right


def widen(owner: Owner, parts: Iterable[Expr]) -> Owner:
    """The names, and those that assignments among the parts make equal to them."""
    return linked(owner, [pair for part in parts for pair in same_names(part)])


def linked(owner: Owner, links: Sequence[tuple[str, str]]) -> Owner:
    found = [set(names) for names in owner]
    for names in found:
        while more := {new for x, y in links for new in (x, y) if {x, y} & names} - names:
            names |= more
    return tuple(map(frozenset, found))


def same_names(part: Expr) -> tuple[tuple[str, str], ...]:
    match part:
        case Lift(x, Value(Var(y))):
            return ((x, y),)
        case _:
            return ()


def _atom(atom: Atom, owner: Owner, place: Place) -> Located:
    match place:
        case Everywhere():
            return Located(True, False)
        case Buckets(by):
            mine = len(by) == len(owner) and all(
                variable(atom, column) in names for column, names in zip(by, owner, strict=True)
            )
            return Located(mine, mine)
        case _:
            return Located(False, False)


def variable(atom: Atom, field: str) -> str | None:
    """The variable that an atom gives to a field."""
    return next((var for name, var in zip(atom.fields, atom.vars, strict=True) if name == field), None)


def _without(owner: Owner, local: Collection[str]) -> Owner:
    return tuple(names - set(local) for names in owner)
