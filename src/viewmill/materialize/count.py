"""How many stores higher-order maintenance of an expression would need, without building them.

Each store of a flat product is a set of its relations that stays connected when the others have been taken out one by
one, each giving its variables away. We walk over these sets; for a chain of n there are n (n + 1) / 2, for a star
about 2^(n-1).
"""

from __future__ import annotations

from viewmill.algebra.build import factors, terms
from viewmill.algebra.nodes import AggSum, Expr, Lift, Product, Relation, Value
from viewmill.algebra.schema import inputs, schema, walk

ENOUGH = 10_000
"""Counting stops here."""


def count_stores(expr: Expr) -> str:
    """The number of stores as text; nested queries may share some."""
    count = sum(_count(product) for product in _products(expr))
    return f"more than {ENOUGH:,}" if count >= ENOUGH else f"about {count:,}"


def _products(expr: Expr) -> set[frozenset[frozenset[str]]]:
    """The flat products in an expression, each as the variable sets of its relations."""
    found = set()
    for node in walk(expr):
        if not isinstance(node, AggSum | Product):
            continue
        for term in terms(node):
            parts = factors(term.body if isinstance(term, AggSum) else term)
            rows = [set(part.vars) for part in parts if isinstance(part, Relation)]
            for part in parts:  # computed columns join like columns
                if isinstance(part, Lift) and isinstance(part.body, Value):
                    rows = [r | set(schema(part)) if inputs(part) <= r else r for r in rows]
            if rows:
                found.add(frozenset(frozenset((*r, f"#{i}")) for i, r in enumerate(rows)))
    return {p for p in found if not any(p < other for other in found)}


def _count(product: frozenset[frozenset[str]]) -> int:
    seen: set[frozenset[frozenset[str]]] = set()
    todo = [product]
    while todo and len(seen) < ENOUGH:
        rows = todo.pop()
        if rows in seen:
            continue
        seen.add(rows)
        for taken in rows:
            todo += [part for part in _connected(rows - {taken}, taken) if part not in seen]
    return len(seen)


def _connected(rows: frozenset[frozenset[str]], given: frozenset[str]) -> list[frozenset[frozenset[str]]]:
    groups: list[tuple[set[str], set[frozenset[str]]]] = []
    for row in rows:
        open_vars = set(row) - given
        joined = [group for group in groups if group[0] & open_vars]
        merged = open_vars.union(*(g[0] for g in joined)), {row}.union(*(g[1] for g in joined))
        groups = [group for group in groups if group not in joined] + [merged]
    return [frozenset(members) for _, members in groups]
