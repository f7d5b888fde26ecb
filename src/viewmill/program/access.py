"""How each store is read: the access patterns that an engine builds indexes for (Hot Dog section 5).

get     all keys are given               slice   some are
scan    none is                          range   none or some, and a comparison with a known value bounds one more
"""

from __future__ import annotations

from collections.abc import Iterator

from viewmill.algebra import scalars
from viewmill.algebra.nodes import AggSum, Expr, Extreme, Product, Relation, Test
from viewmill.algebra.scalars import Call
from viewmill.algebra.schema import children, schema
from viewmill.program.nodes import Access, Program

_ORDERED = ("<", "<=", ">", ">=")


def accesses(program: Program) -> dict[str, tuple[Access, ...]]:
    """For every store the ways statements and views read it, in order of first use."""
    found: dict[str, dict[Access, None]] = {name: {} for name in program.stores}
    exprs = [s.expr for trigger in program.triggers.values() for s in trigger.statements]
    exprs += [view.output for view in program.views.values()] + [view.restricted for view in program.views.values()]
    for expr in exprs:
        for name, access in _reads(expr, frozenset(), ()):
            found[name][access] = None
    return {name: tuple(kinds) for name, kinds in found.items()}


def _reads(expr: Expr, bound: frozenset[str], later: tuple[Expr, ...]) -> Iterator[tuple[str, Access]]:
    match expr:
        case Relation(name, fields, vars_):
            given = tuple(f for f, v in zip(fields, vars_, strict=True) if v in bound)
            yield name, _kind(fields, vars_, given, bound, later)
        case Product(parts):
            known = bound
            for i, part in enumerate(parts):
                yield from _reads(part, known, parts[i + 1 :])
                known |= set(schema(part))
        case AggSum(group, body):
            yield from _reads(body, bound - (set(schema(body)) - set(group)), later)
        case Extreme(_, _, _, body):
            yield from _reads(body, bound - set(schema(body)), ())
        case _:
            for part in children(expr):
                yield from _reads(part, bound, later)


def _kind(
    fields: tuple[str, ...],
    vars_: tuple[str, ...],
    given: tuple[str, ...],
    bound: frozenset[str],
    later: tuple[Expr, ...],
) -> Access:
    if len(given) == len(fields):
        return Access("get", given)
    free = dict(zip(vars_, fields, strict=True))
    for part in later:
        match part:
            case Test(Call(op, (left, right))) if op in _ORDERED:
                for side, other in ((left, right), (right, left)):
                    mine = scalars.variables(side)
                    if len(mine) == 1 and mine <= set(free) - bound and scalars.variables(other) <= bound:
                        return Access("range", (*given, free[next(iter(mine))]))
    return Access("slice" if given else "scan", given)
