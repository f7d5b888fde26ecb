"""What a translated query promises to the passes that follow.

- It is closed and its schema is the query's columns, in order.
- The terms of a sum have the same variables, and a lift assigns something without a schema.
- A variable is local to one place at most. So no pass that moves a factor can let it meet a stranger of the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from viewmill.algebra.nodes import AggSum, Expr, Extreme, Lift, Sum
from viewmill.algebra.schema import inputs, schema, walk
from viewmill.errors import InternalError


def check(expr: Expr, columns: tuple[str, ...]) -> None:
    for node in walk(expr):
        match node:
            case Sum(terms) if len({frozenset(schema(term)) for term in terms}) > 1:
                raise InternalError(f"the terms of a sum differ: {' and '.join(_list(schema(term)) for term in terms)}")
            case Lift(var, body) if schema(body):
                raise InternalError(f"{var} is assigned an expression with the variables {_list(schema(body))}")
            case _:
                pass
    if inputs(expr):
        raise InternalError(f"a translated query needs the variables {_list(inputs(expr))}")
    if schema(expr) != columns:
        raise InternalError(f"a translated query has the variables {schema(expr)}, and its columns are {columns}")
    uses = Counter(_local(expr))
    uses.update(columns)
    if shared := [name for name, count in uses.items() if count > 1]:
        raise InternalError(f"these variables are local to several places: {_list(shared)}")


def _local(expr: Expr) -> Iterator[str]:
    """The variables that each node hides, one by one."""
    for node in walk(expr):
        match node:
            case AggSum(group, body):
                yield from set(schema(body)) - set(group)
            case Extreme(_, _, _, body):
                yield from schema(body)
            case _:
                pass


def _list(names: frozenset[str] | tuple[str, ...] | list[str]) -> str:
    return ", ".join(sorted(names)) or "none"
