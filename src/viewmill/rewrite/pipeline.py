"""The passes, in order, and the one runner.

A pass rewrites one node and states its law; the runner walks, repeats, checks and reports.

    simplify    after every other step: small, equal, and in the normal form the next step expects
    expand      a sum of flat products ("monomials"), which is what materialisation works on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from viewmill.algebra.nodes import Expr
from viewmill.algebra.schema import inputs, memoised, schema
from viewmill.errors import InternalError
from viewmill.rewrite.absorb_exists import absorb_exists
from viewmill.rewrite.cancel_terms import cancel_terms
from viewmill.rewrite.distribute import distribute
from viewmill.rewrite.drop_null_guards import NO_FACTS, Facts, drop_null_guards
from viewmill.rewrite.factor_products import factor_products
from viewmill.rewrite.flatten_aggregates import flatten_aggregates
from viewmill.rewrite.fold_constants import fold_constants
from viewmill.rewrite.merge_tests import merge_tests
from viewmill.rewrite.name_join_keys import name_join_keys
from viewmill.rewrite.prune_assignments import prune_assignments
from viewmill.rewrite.push_exists import push_exists
from viewmill.rewrite.split_or import split_or
from viewmill.rewrite.split_values import split_values
from viewmill.rewrite.unify import unify


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step; `whole` steps see the whole expression once, the others every node, children first."""

    name: str
    step: Callable[[Expr], Expr]
    whole: bool = False


Observer = Callable[[str, Expr, Expr], None]


def ignore(_name: str, _before: Expr, _after: Expr) -> None:
    pass


SIMPLIFY = (
    Pass("fold_constants", fold_constants),  # first: turns tests into 0 and 1, which everything below drops
    Pass("flatten_aggregates", flatten_aggregates),  # before unify: equalities of inner and outer meet in one product
    Pass("unify", unify),
    Pass("name_join_keys", name_join_keys),  # after unify, which does better with plain variables
    Pass("prune_assignments", prune_assignments),  # after unify, which leaves assignments nobody reads
    Pass("merge_tests", merge_tests),
    Pass("push_exists", push_exists),
    Pass("absorb_exists", absorb_exists),
    Pass("cancel_terms", cancel_terms),  # last: terms are equal only once they are simple
)

EXPAND = (
    Pass("split_values", split_values),
    Pass("split_or", split_or),
    Pass("distribute", distribute),
)

FACTOR = (Pass("factor_products", factor_products),)  # once, where a view is peeled: the opposite of flattening

PASSES = {p.name: p for p in (*SIMPLIFY, *EXPAND, *FACTOR)}


def run(expr: Expr, passes: tuple[Pass, ...], *, observe: Observer = ignore) -> Expr:
    """Apply `passes` in order, round after round, until a round changes nothing."""
    seen = {expr}
    while True:
        start = expr
        for p in passes:
            before, expr = expr, p.step(expr) if p.whole else memoised(p.step, expr)
            if expr is not before:
                _check(before, expr, p)
            observe(p.name, before, expr)
        if expr == start:
            return expr
        if expr in seen:
            raise InternalError(f"rewrite passes do not converge: {expr} came back after a full round")
        seen.add(expr)


def _check(before: Expr, after: Expr, p: Pass) -> None:
    """A pass may not change what an expression produces, nor need more than it did. (0 has no schema left.)"""
    if schema(after) and set(schema(before)) != set(schema(after)):
        raise InternalError(f"pass {p.name} changed the schema {schema(before)} to {schema(after)}\n{before}\n{after}")
    if not inputs(after) <= inputs(before):
        raise InternalError(f"pass {p.name} made up inputs {inputs(after) - inputs(before)}\n{before}\n{after}")


@lru_cache(maxsize=2_000)
def simplify(expr: Expr, facts: Facts = NO_FACTS) -> Expr:
    return run(expr, _with_facts(SIMPLIFY, facts))


@lru_cache(maxsize=2_000)
def expand(expr: Expr, facts: Facts = NO_FACTS) -> Expr:
    """A sum of products without sums in them (but for those inside non-linear nodes, which are expanded alike)."""
    return run(expr, _with_facts((*SIMPLIFY, *EXPAND), facts))


@lru_cache(maxsize=100)
def _with_facts(passes: tuple[Pass, ...], facts: Facts) -> tuple[Pass, ...]:
    return (*passes, Pass("drop_null_guards", lambda expr: drop_null_guards(expr, facts), whole=True))
