"""Duplicate stores: definitions that are equal up to the names of variables and the order of factors.

    Sum[b](S(b, c) * T(c, d))   and   Sum[x](T(c: y, d: z) * S(b: x, c: y))   have one canonical form

Variables get colours from where they stand, refined a few times as in graph isomorphism; factors are sorted by
their coloured text, and variables renamed in order of appearance. Two definitions with the same form are equal.
Symmetric self-joins can keep two forms for one meaning; then we keep a store too many, never a wrong one.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from viewmill.algebra.nodes import AggSum, Expr, Product, Sum
from viewmill.algebra.schema import anonymous, children, inputs, rename, schema, variables, walk, with_children

ROUNDS = 3


@lru_cache(maxsize=20_000)
def canonical(expr: Expr) -> tuple[Expr, tuple[str, ...]]:
    """The canonical form, and the variables of `expr` in the order of the form's schema."""
    return anonymous(_arranged(expr, _colours(expr)))


def _colours(expr: Expr) -> dict[str, str]:
    visible = set(schema(expr)) | inputs(expr)
    colours = {name: "visible" if name in visible else "local" for name in variables(expr)}
    leaves = [node for node in walk(expr) if not children(node)]
    groups = [node for node in walk(expr) if isinstance(node, AggSum)]
    for _ in range(ROUNDS):
        colours = {
            name: _digest(
                colours[name],
                *sorted(repr(rename(leaf, {**colours, name: "*"})) for leaf in leaves if name in variables(leaf)),
                str(sum(name in node.group for node in groups)),
            )
            for name in colours
        }
    return colours


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _arranged(expr: Expr, colours: dict[str, str]) -> Expr:
    """Factors, terms and group variables in the order of their coloured text."""
    parts = tuple(_arranged(part, colours) for part in children(expr))
    match expr:
        case Product() | Sum():
            return type(expr)(tuple(sorted(parts, key=lambda part: (repr(rename(part, colours)), repr(part)))))
        case AggSum(group, _):
            return AggSum(tuple(sorted(group, key=lambda name: (colours[name], name))), parts[0])
        case _:
            return with_children(expr, parts)
