"""Drop `{x is not null}` where x cannot be NULL.

    R(a, b) * {a is not null}   =>  R(a, b)        where the catalog says so of R.a
    {a < b} * {a is not null}   =>  {a < b}        (this one is `merge_tests`)

Works on the whole expression from the outside in, because what is known of a variable is known to the nested
queries that use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from viewmill.algebra.build import factors, product
from viewmill.algebra.nodes import (
    ONE,
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
from viewmill.algebra.scalars import Call, Cast, Const, Scalar, Var
from viewmill.algebra.schema import children, schema, with_children


@dataclass(frozen=True, slots=True)
class Facts:
    """What the catalog promises: fields (relation, field) that are never NULL."""

    not_null: frozenset[tuple[str, str]] = frozenset()


NO_FACTS = Facts()

# Operations that give a value whenever all arguments have one.
_STRICT = frozenset(
    "+ - * neg = <> < <= > >= like length upper lower substring abs year month day date_add concat".split()
)


def drop_null_guards(expr: Expr, facts: Facts, known: frozenset[str] = frozenset()) -> Expr:
    if not _has_guards(expr):
        return expr
    match expr:
        case Test(Call("not", (Call("is_null", (arg,)),))) if never_null(arg, known):
            return ONE
        case Product(parts):
            inner = _closure(parts, facts, known)
            return product(*(drop_null_guards(part, facts, inner) for part in parts))
        case AggSum(group, body):
            # What is known outside is not known of a local variable with the same name.
            inner = _closure(factors(body), facts, known - (set(schema(body)) - set(group)))
            return with_children(expr, (drop_null_guards(body, facts, inner),))
        case Extreme(_, _, _, body) | TopK(_, _, _, body):
            # Nor of a produced one: rows that TopK should not see must be gone before it picks.
            inner = _closure(factors(body), facts, known - set(schema(body)))
            return with_children(expr, (drop_null_guards(body, facts, inner),))
        case Exists(body):
            inner = _closure(factors(body), facts, known)
            return with_children(expr, (drop_null_guards(body, facts, inner),))
        case _:
            return with_children(expr, tuple(drop_null_guards(part, facts, known) for part in children(expr)))


@lru_cache(maxsize=100_000)
def _has_guards(expr: Expr) -> bool:
    """There is something to drop; most expressions have no guard left after the first time."""
    match expr:
        case Test(Call("not", (Call("is_null", _),))):
            return True
        case _:
            return any(map(_has_guards, children(expr)))


def _closure(parts: Iterable[Expr], facts: Facts, known: frozenset[str]) -> frozenset[str]:
    """The variables that a product of `parts` makes certain not to be NULL."""
    names = set(known)
    parts = tuple(parts)
    while True:
        before = len(names)
        for part in parts:
            match part:
                case Relation(name, fields, vars_) | DeltaRelation(name, fields, vars_):
                    names.update(v for f, v in zip(fields, vars_, strict=True) if (name, f) in facts.not_null)
                case Lift(var, Value(scalar)):
                    if never_null(scalar, frozenset(names)):
                        names.add(var)
                case Lift(var, _):
                    names.add(var)  # a weight is a number
                case Exists(body) | AggSum(_, body) | TopK(_, _, _, body):
                    names |= _closure(factors(body), facts, frozenset()) & set(schema(part))
        if len(names) == before:
            return frozenset(names)


def never_null(scalar: Scalar, known: frozenset[str]) -> bool:
    match scalar:
        case Var(name):
            return name in known
        case Const(value):
            return value is not None
        case Cast(arg, _):
            return never_null(arg, known)
        case Call(op, args) if op in _STRICT:
            return all(never_null(arg, known) for arg in args)
        case Call("coalesce", args):
            return any(never_null(arg, known) for arg in args)
        case _:
            return False
