"""Common sub-expressions: what several statements of a trigger compute from the batch is computed once.

    Q += Exists(Sum[b](Exists(d_S(b, c)) * {c > 3})) * ...
    P += Exists(Sum[x](Exists(d_S(b: x, c)) * {c > 3})) * ...
=>
    let d_S_keys(b) = Exists(Sum[b](Exists(d_S(b, c)) * {c > 3}))
    Q += d_S_keys(b) * ...
    P += d_S_keys(b: x) * ...

Only parts made of pending changes alone are shared: they are as small as the batch. Equal up to names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from viewmill.algebra.nodes import AggSum, DeltaRelation, Exists, Expr
from viewmill.algebra.schema import anonymous, children, deltas, inputs, relations, schema, tidy, walk, with_children
from viewmill.program.nodes import Statement
from viewmill.program.order import order


def share_parts(relation: str, statements: Sequence[Statement]) -> tuple[Statement, ...]:
    done = _reuse(list(statements))
    while (example := _most_shared(done)) is not None:
        name = _free_name(relation, example, done)
        expr = order(tidy(example))  # where it stood, an outer variable may have been known
        form, _ = anonymous(example)
        keys = schema(expr)
        done = [replace(s, expr=_replace(s.expr, form, name, keys)) for s in done]
        done.insert(0, Statement(name, keys, "let", expr, "recursive", "read by several statements"))
    return tuple(done)


def _reuse(statements: list[Statement]) -> list[Statement]:
    """Read what is a `let` already."""
    known = [(s.target, s.vars, anonymous(s.expr)) for s in statements if s.op == "let" and _is_worth_it(s.expr)]
    for target, keys, (form, names) in known:
        if names == keys:
            statements = [
                s if (s.target, s.op) == (target, "let") else replace(s, expr=_replace(s.expr, form, target, keys))
                for s in statements
            ]
    return statements


def _most_shared(statements: Sequence[Statement]) -> Expr | None:
    """The largest part that occurs at least twice."""
    parts = [part for s in statements for part in _candidates(s.expr)]
    forms = [anonymous(part)[0] for part in parts]
    often = Counter(forms)
    shared = [part for part, form in zip(parts, forms, strict=True) if often[form] > 1]
    return max(shared, key=_size, default=None)


def _candidates(expr: Expr) -> Iterator[Expr]:
    return (node for node in walk(expr) if _is_worth_it(node))


def _is_worth_it(node: Expr) -> bool:
    """Closed, made of changes, and more than a look at the batch."""
    if not isinstance(node, Exists | AggSum) or relations(node) or inputs(node) or not schema(node) or not deltas(node):
        return False
    return any(isinstance(part, AggSum) for part in walk(node))


def _size(expr: Expr) -> int:
    return sum(1 for _ in walk(expr))


def _replace(expr: Expr, form: Expr, name: str, keys: tuple[str, ...]) -> Expr:
    if _is_worth_it(expr):
        ours, vars_ = anonymous(expr)
        if ours == form:
            return DeltaRelation(name, keys, vars_)
    return with_children(expr, tuple(_replace(part, form, name, keys) for part in children(expr)))


def _free_name(relation: str, shared: Expr, statements: Sequence[Statement]) -> str:
    stem = f"{relation}_{'keys' if isinstance(shared, Exists) else 'sum'}"
    taken = {s.target for s in statements}
    count, name = 1, stem
    while name in taken:
        count += 1
        name = f"{stem}_{count}"
    return name
