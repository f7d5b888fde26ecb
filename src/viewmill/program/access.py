"""How each store is read: the access patterns that an engine builds indexes for (Hot Dog section 5).

get     all keys are given               slice   some are
scan    none is                          range   none or some, and a comparison with a known value bounds one more
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from viewmill.algebra import scalars
from viewmill.algebra.nodes import AggSum, Expr, Extreme, Product, Relation, Test, TopK
from viewmill.algebra.scalars import Call
from viewmill.algebra.schema import children, schema
from viewmill.program.nodes import Access, Program, Store

_ORDERED = ("<", "<=", ">", ">=")


def accesses(program: Program) -> dict[str, tuple[Access, ...]]:
    """For every store the ways statements and views read it, in order of first use."""
    exprs = [s.expr for trigger in program.triggers.values() for s in trigger.statements]
    exprs += [view.output for view in program.views.values()] + [view.restricted for view in program.views.values()]
    return ways(exprs, program.stores)


def ways(exprs: Iterable[Expr], stores: Mapping[str, Store]) -> dict[str, tuple[Access, ...]]:
    """For every store the ways in which these expressions, ordered to be run, read it."""
    found: dict[str, dict[Access, None]] = {name: {} for name in stores}
    for expr in exprs:
        for atom, bound, later in _reads(expr, frozenset(), ()):
            found[atom.name][_access(atom, stores[atom.name].keys, bound, later)] = None
    return {name: tuple(kinds) for name, kinds in found.items()}


Read = tuple[Relation, frozenset[str], tuple[Expr, ...]]
"""A store that is read, the variables known by then, and the factors that come after it."""


def _reads(expr: Expr, bound: frozenset[str], later: tuple[Expr, ...]) -> Iterator[Read]:
    match expr:
        case Relation():
            yield expr, bound, later
        case Product(parts):
            known = bound
            for i, part in enumerate(parts):
                yield from _reads(part, known, parts[i + 1 :])
                known |= set(schema(part))
        case AggSum(group, body):
            yield from _reads(body, bound - (set(schema(body)) - set(group)), later)
        case Extreme(_, _, _, body) | TopK(_, _, _, body):
            yield from _reads(body, bound - set(schema(body)), ())
        case _:
            for part in children(expr):
                yield from _reads(part, bound, later)


def _access(atom: Relation, keys: tuple[str, ...], bound: frozenset[str], later: tuple[Expr, ...]) -> Access:
    """A key that is not read is not given either: adding it away runs over a slice, or over all."""
    field_of = dict(zip(atom.vars, atom.fields, strict=True))
    given = tuple(field for var, field in field_of.items() if var in bound)
    if set(keys) <= set(given):
        return Access("get", given)
    for part in later:
        match part:
            case Test(Call(op, (left, right))) if op in _ORDERED:
                for side, other in ((left, right), (right, left)):
                    mine = scalars.variables(side)
                    if len(mine) == 1 and mine <= set(field_of) - bound and scalars.variables(other) <= bound:
                        return Access("range", (*given, field_of[next(iter(mine))]))
    return Access("slice" if given else "scan", given)
