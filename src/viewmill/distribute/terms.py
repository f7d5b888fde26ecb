"""A statement as a sum of products: what can be computed apart, and added up anywhere.

    Q(a) += Sum[a](d_R(a, b) * M(b) + d_R(a, b) * N(b))   =>   Sum[a](d_R(a, b) * M(b)),  Sum[a](d_R(a, b) * N(b))

A term is linear in each of its factors. So a store that it reads without naming the column that says in which bucket a
record is, is read with it: the column is added away with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from viewmill.algebra.build import agg_sum, product
from viewmill.algebra.build import factors as factors_of
from viewmill.algebra.nodes import AggSum, DeltaRelation, Expr, Relation, Sum
from viewmill.algebra.schema import Names, deltas, relations, schema, variables, walk
from viewmill.distribute.nodes import Buckets, Place


@dataclass(frozen=True, slots=True)
class Term:
    """`Sum[keys](factor * factor ...)`"""

    keys: tuple[str, ...]
    factors: tuple[Expr, ...]

    @property
    def product(self) -> Expr:
        return product(*self.factors)

    @property
    def expr(self) -> Expr:
        """Without the Sum where it adds nothing away."""
        body = self.product
        return body if set(schema(body)) == set(self.keys) else agg_sum(self.keys, body)

    @property
    def stores(self) -> frozenset[str]:
        return frozenset().union(*map(relations, self.factors))

    @property
    def changes(self) -> frozenset[str]:
        return frozenset().union(*map(deltas, self.factors))


def terms_of(expr: Expr, keys: tuple[str, ...], places: Mapping[str, Place]) -> tuple[Term, ...]:
    return tuple(_named(Term(keys, factors_of(body)), places) for body in _bodies(expr))


def _bodies(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Sum(parts):
            for part in parts:
                yield from _bodies(part)
        case AggSum(_, AggSum() as body) | AggSum(_, Sum() as body):
            yield from _bodies(body)
        case AggSum(_, body):
            yield body
        case _:
            yield expr


def _named(term: Term, places: Mapping[str, Place]) -> Term:
    names = Names(variables(term.product) | set(term.keys))
    return replace(term, factors=tuple(_with_hashed(factor, places, names) for factor in term.factors))


def _with_hashed(factor: Expr, places: Mapping[str, Place], names: Names) -> Expr:
    place = places.get(factor.name) if isinstance(factor, Relation) else None
    if not isinstance(factor, Relation) or not isinstance(place, Buckets):
        return factor
    missing = tuple(column for column in place.by if column not in factor.fields)
    fresh = tuple(names.fresh(column) for column in missing)
    return Relation(factor.name, factor.fields + missing, factor.vars + fresh)


def change_atoms(expr: Expr, change: str) -> tuple[DeltaRelation, ...]:
    return tuple(node for node in walk(expr) if isinstance(node, DeltaRelation) and node.name == change)
