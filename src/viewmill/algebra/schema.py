"""What an expression produces (`schema`), needs (`inputs`) and mentions; renaming.

schema(R(a, b) * {a < c})  ==  (a, b)        inputs(...)  ==  {c}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import assert_never

from viewmill.algebra import scalars
from viewmill.algebra.build import agg_sum, exists, product, sum_, top_k
from viewmill.algebra.nodes import (
    ZERO,
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
from viewmill.algebra.scalars import NULL, Call, Const, Var


@lru_cache(maxsize=100_000)
def schema(expr: Expr) -> tuple[str, ...]:
    """The variables an expression produces, in order of first appearance."""
    match expr:
        case Relation(_, _, vars_) | DeltaRelation(_, _, vars_):
            return tuple(dict.fromkeys(vars_))
        case Value() | Test():
            return ()
        case Lift(var, _) | Extreme(var, _, _, _):
            return (var,)
        case Exists(body) | After(body) | TopK(_, _, _, body):
            return schema(body)
        case Product(factors):
            return tuple(dict.fromkeys(name for factor in factors for name in schema(factor)))
        case Sum(terms):
            common = set(schema(terms[0])).intersection(*map(schema, terms))
            return tuple(name for name in schema(terms[0]) if name in common)
        case AggSum(group, _):
            return group
        case _:
            assert_never(expr)


@lru_cache(maxsize=100_000)
def inputs(expr: Expr) -> frozenset[str]:
    """The variables an expression needs from outside."""
    match expr:
        case Relation() | DeltaRelation():
            return frozenset()
        case Value(scalar) | Test(scalar):
            return scalars.variables(scalar)
        case Lift(_, body) | Exists(body) | After(body) | AggSum(_, body) | TopK(_, _, _, body):
            return inputs(body)
        case Extreme(_, _, of, body):
            return inputs(body) | ({of} - set(schema(body)))
        case Product(factors):
            return frozenset().union(*map(inputs, factors)) - set(schema(expr))
        case Sum(terms):
            return frozenset().union(*map(inputs, terms), *map(schema, terms)) - set(schema(expr))
        case _:
            assert_never(expr)


@lru_cache(maxsize=100_000)
def children(expr: Expr) -> tuple[Expr, ...]:
    """The parts that are expressions of their own. An assignment `(x := value)` is a leaf: its value is no weight."""
    match expr:
        case Relation() | DeltaRelation() | Value() | Test() | Lift(_, Value()):
            return ()
        case Lift(_, body) | Exists(body) | After(body) | AggSum(_, body):
            return (body,)
        case Extreme(_, _, _, body) | TopK(_, _, _, body):
            return (body,)
        case Product(parts) | Sum(parts):
            return parts
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, top down."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def with_children(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The same node over other children, in normal form."""
    match expr:
        case Relation() | DeltaRelation() | Value() | Test() | Lift(_, Value()):
            return expr
        case Lift(var, _):
            return Lift(var, _weight(parts[0]))
        case Extreme(var, kind, of, _):
            # Of no rows at all the least is NULL; and 0 has lost the variable that was compared.
            return Lift(var, Value(NULL)) if parts[0] == ZERO else Extreme(var, kind, of, parts[0])
        case Exists():
            return exists(parts[0])
        case TopK(order, limit, offset, _):
            return top_k(order, limit, offset, parts[0])
        case After():
            return After(parts[0])
        case AggSum(group, _):
            return agg_sum(group, parts[0])
        case Product():
            return product(*parts)
        case Sum():
            return sum_(parts)
        case _:
            assert_never(expr)


def _weight(body: Expr) -> Expr:
    """A body that became a bare value must go on weighing 0 for NULL, now that it reads as an assignment."""
    if isinstance(body, Value) and not isinstance(body.scalar, Const):
        return Value(Call("coalesce", (body.scalar, Const(0))))
    return body


@lru_cache(maxsize=200_000)
def memoised(step: Callable[[Expr], Expr], expr: Expr) -> Expr:
    """`bottom_up` for a step that is a plain function of the node, such as a pass: equal parts are rewritten once."""
    below = children(expr)
    parts = tuple(memoised(step, part) for part in below)
    return step(expr if parts == below else with_children(expr, parts))


def bottom_up(step: Callable[[Expr], Expr], expr: Expr) -> Expr:
    """Apply `step` to every node, children first."""
    below = children(expr)
    parts = tuple(bottom_up(step, part) for part in below)
    return step(expr if parts == below else with_children(expr, parts))


@lru_cache(maxsize=100_000)
def relations(expr: Expr) -> frozenset[str]:
    """Names of the relations read (not of pending batches)."""
    if isinstance(expr, Relation):
        return frozenset((expr.name,))
    return frozenset().union(*map(relations, children(expr)))


@lru_cache(maxsize=100_000)
def deltas(expr: Expr) -> frozenset[str]:
    """Names of the relations whose pending batch is read."""
    if isinstance(expr, DeltaRelation):
        return frozenset((expr.name,))
    return frozenset().union(*map(deltas, children(expr)))


@lru_cache(maxsize=100_000)
def variables(expr: Expr) -> frozenset[str]:
    """Every variable mentioned anywhere, local ones too."""
    match expr:
        case Relation(_, _, vars_) | DeltaRelation(_, _, vars_):
            return frozenset(vars_)
        case Value(scalar) | Test(scalar):
            return scalars.variables(scalar)
        case Lift(var, body):
            return variables(body) | {var}
        case Extreme(var, _, of, body):
            return variables(body) | {var, of}
        case Exists() | After() | Product() | Sum() | AggSum() | TopK():
            return frozenset().union(*map(variables, children(expr)))
        case _:
            assert_never(expr)


def rename(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Rename variables everywhere, local ones too. The caller keeps new names apart from old ones."""

    names = {old: new for old, new in names.items() if old != new}
    if not names:
        return expr

    def new(name: str) -> str:
        return names.get(name, name)

    values = {old: Var(name) for old, name in names.items()}

    def step(node: Expr) -> Expr:
        match node:
            case Relation(name, fields, vars_):
                return Relation(name, fields, tuple(map(new, vars_)))
            case DeltaRelation(name, fields, vars_):
                return DeltaRelation(name, fields, tuple(map(new, vars_)))
            case Value(scalar):
                return Value(scalars.substitute(scalar, values))
            case Test(scalar):
                return Test(scalars.substitute(scalar, values))
            case Lift(var, Value(scalar)):
                return Lift(new(var), Value(scalars.substitute(scalar, values)))
            case Lift(var, body):
                return Lift(new(var), body)
            case Extreme(var, kind, of, body):
                return Extreme(new(var), kind, new(of), body)
            case AggSum(group, body):
                return AggSum(tuple(map(new, group)), body)
            case TopK():
                return _reordered(node, names, node.body)
            case Exists() | After() | Product() | Sum():
                return node
            case _:
                assert_never(node)

    return bottom_up(step, expr)


def rename_free(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Rename the variables that `expr` produces or needs, leaving local ones alone and out of the way."""
    names = {old: new for old, new in names.items() if old != new and old in variables(expr)}
    if not names:
        return expr
    match expr:
        case AggSum(group, body):
            body, names = _guard_locals(body, set(schema(body)) - set(group), names)
            return agg_sum((names.get(name, name) for name in group), rename_free(body, names))
        case Extreme(var, kind, of, body):
            outer = names.get(var, var)
            inner, names = _guard_locals(Product((body, Value(Var(of)))), set(schema(body)), names)
            assert isinstance(inner, Product) and isinstance(inner.factors[-1], Value)
            inner = rename_free(inner, names)
            assert isinstance(inner, Product)
            *parts, value = inner.factors
            assert isinstance(value, Value) and isinstance(value.scalar, Var)
            return Extreme(outer, kind, value.scalar.name, product(*parts))
        case Lift(var, body):
            return Lift(names.get(var, var), rename_free(body, names))
        case TopK():
            return _reordered(expr, names, rename_free(expr.body, names))
        case Exists() | After() | Product() | Sum():
            return with_children(expr, tuple(rename_free(part, names) for part in children(expr)))
        case Relation() | DeltaRelation() | Value() | Test():
            return rename(expr, names)
        case _:
            assert_never(expr)


def _reordered(top: TopK, names: Mapping[str, str], body: Expr) -> Expr:
    """The same places in the order, under other names."""
    order = (key._replace(var=names.get(key.var, key.var)) for key in top.order)
    return top_k(order, top.limit, top.offset, body)


def captures(expr: Expr, old: str, new: str) -> bool:
    """Whether calling `old` by the name `new` could change what some TopK in `expr` picks from.

    For all other nodes a variable from outside and a produced one may become the same, since that is a join. TopK
    would join before it picks.
    """
    tops = [node for node in walk(expr) if isinstance(node, TopK)]
    return any({old, new} <= inputs(top).union(schema(top)) and {old, new} & set(schema(top)) for top in tops)


def _guard_locals(body: Expr, local: set[str], names: Mapping[str, str]) -> tuple[Expr, dict[str, str]]:
    """Drop renamings of locals, and rename locals that a new name would capture."""
    names = {old: new for old, new in names.items() if old not in local}
    captured = local & set(names.values())
    if captured:
        fresh = Names(variables(body) | set(names.values()) | set(names))
        body = rename_free(body, {name: fresh.fresh(name) for name in sorted(captured)})
    return body, names


def tidy(expr: Expr, keep: Mapping[str, str] | None = None) -> Expr:
    """The same expression with plain names: `b_7` is `b` again, or `b_2` where there are two.

    `keep` gives names that are not up for choice. Expressions that differ only in the numbers on their local variables
    become equal, if their parts stand in the same order.
    """
    names = dict(keep or {})
    fresh = Names(frozenset(names.values()) | frozenset(name for name in _mentions(expr) if name in names))
    for name in _mentions(expr):
        if name not in names:
            names[name] = fresh.fresh(name)
    return rename(expr, names)


def unshadowed(expr: Expr, names: Names | None = None) -> Expr:
    """The same expression, no variable of which is local to two scopes, or to one and known outside it."""
    names = names or Names(frozenset(schema(expr)) | inputs(expr))
    match expr:
        case AggSum(group, body):
            inner = {name: names.fresh(name) for name in schema(body) if name not in group}
            return agg_sum(group, unshadowed(rename_free(body, inner), names))
        case Extreme(var, kind, of, body):
            inner = {name: names.fresh(name) for name in schema(body)}
            return Extreme(var, kind, inner.get(of, of), unshadowed(rename_free(body, inner), names))
        case _:
            return with_children(expr, tuple(unshadowed(part, names) for part in children(expr)))


def anonymous(expr: Expr) -> tuple[Expr, tuple[str, ...]]:
    """The expression with numbers for names, and its own names for the schema of that form."""
    names = {name: f"v{i}" for i, name in enumerate(dict.fromkeys(_mentions(expr)))}
    form = rename(expr, names)
    old = {new: name for name, new in names.items()}
    return form, tuple(old[name] for name in schema(form))


def _mentions(expr: Expr) -> Iterator[str]:
    """Variables in order of appearance: those a node produces, then those below it."""
    for node in walk(expr):
        yield from schema(node)
        if not children(node):
            yield from sorted(inputs(node))
        elif isinstance(node, Extreme):
            yield node.of


class Names:
    """Fresh variable names: `fresh("b")` is `b`, then `b_2`, `b_3` and so on."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken)

    def fresh(self, base: str) -> str:
        stem, _, suffix = base.rpartition("_")
        if not (stem and suffix.isdigit()):
            stem = base
        name, count = stem, 1
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name

    def take(self, names: frozenset[str]) -> None:
        self._taken |= names

    def apart(self, expr: Expr, keep: frozenset[str] = frozenset()) -> tuple[Expr, dict[str, str]]:
        """A copy of `expr` whose variables, but for its inputs and those in `keep`, are fresh; and the names given."""
        bound = sorted(variables(expr) - inputs(expr) - keep)
        names = {name: self.fresh(name) for name in bound}
        return rename(expr, names), names
