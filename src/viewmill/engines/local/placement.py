"""Which stores share a pool: those that differ only in what they add up.

    store N(k) = Sum[k](R(k, x, y) * {x > 3})
    store S(k) = Sum[k](R(k, x, y) * {x > 3} * y)        one pool, keys (k), lanes N and S

They have the same rows, change together, and are read together. A store that is evaluated anew has a pool to itself,
because its rows are replaced whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from viewmill.algebra.build import agg_sum, factors, product
from viewmill.algebra.nodes import AggSum, Expr, Product, Relation, Sum, Test, Value
from viewmill.algebra.scalars import Call, Const, Var
from viewmill.algebra.scalars import variables as scalar_variables
from viewmill.algebra.schema import inputs, schema, tidy, variables
from viewmill.catalog import Catalog
from viewmill.engines.local.sources import Source
from viewmill.program.keys import candidate_keys
from viewmill.program.nodes import Program, Store

MOST_LANES = 16


def place(program: Program, stores: Iterable[str], catalog: Catalog, taken: Collection[str] = ()) -> dict[str, Source]:
    """Pools for these stores of the program, by names that are not taken."""
    groups: dict[object, list[Store]] = {}
    alone = {s.target for trigger in program.triggers.values() for s in trigger.statements if s.op == ":="}
    for name in stores:
        store = program.stores[name]
        form = None if name in alone else _form(store)
        groups.setdefault(name if form is None else form, []).append(store)
    placed: dict[str, Source] = {}
    for together in groups.values():
        for start in range(0, len(together), MOST_LANES):
            placed |= _pool(together[start : start + MOST_LANES], catalog, taken)
    return placed


def _pool(stores: list[Store], catalog: Catalog, taken: Collection[str]) -> dict[str, Source]:
    # A pool has the name of its first store, and keeps it for others when that store is no more.
    name = stores[0].name
    while name in taken:
        name += "'"
    return {store.name: source_of(store, catalog, name, lane, len(stores)) for lane, store in enumerate(stores)}


def source_of(store: Store, catalog: Catalog, pool: str, lane: int, lanes: int) -> Source:
    """A store in a lane of a pool."""
    return Source(
        store.name,
        "store",
        store.keys,
        store.types,
        store.weight,
        pool=pool,
        lane=lane,
        lanes=lanes,
        nullable=frozenset(store.keys) - not_null(store.definition, catalog),
        counts=_counts(store.definition),
        single=candidate_keys(store.definition, store.keys, catalog),
    )


def _counts(expr: Expr) -> bool:
    """Nothing but rows is added up, and nothing is taken away."""
    match expr:
        case Value(scalar):
            return scalar == Const(1)
        case AggSum(_, body):
            return _counts(body)
        case Product(parts) | Sum(parts):
            return all(map(_counts, parts))
        case _:
            return True  # a relation, or something that is 0 or 1


def doubles(placed: Mapping[str, Source], pool: str) -> tuple[bool, ...]:
    """Which lanes of a pool hold doubles. A lane whose store is no more is written by nobody."""
    lanes = {source.lane: source for source in placed.values() if source.pool == pool}
    count = next(iter(lanes.values())).lanes
    return tuple(lane in lanes and lanes[lane].weight.is_floating for lane in range(count))


def _form(store: Store) -> object | None:
    """The definition without its values, in names of no meaning: equal for stores that belong together."""
    body = store.definition.body if isinstance(store.definition, AggSum) else store.definition
    if isinstance(body, Sum):
        return None
    kept = [factor for factor in factors(body) if not isinstance(factor, Value)]
    uses = Counter(name for factor in kept for name in _mentions(factor))
    pruned = [_needed(factor, uses, frozenset(store.keys)) for factor in kept]
    expr = agg_sum(store.keys, product(*pruned))
    if set(store.keys) - set(schema(expr)):
        return None
    return tidy(expr, {key: f"key{i}" for i, key in enumerate(store.keys)} | _kept_apart(expr, store.keys)), store.types


def _kept_apart(expr: Expr, keys: tuple[str, ...]) -> dict[str, str]:
    """What only looks like a name we give to a key is called something else."""
    given = {f"key{i}" for i in range(len(keys))}
    return {name: f"{name}'" for name in variables(expr) if name in given and name not in keys}


def _mentions(factor: Expr) -> Iterable[str]:
    if isinstance(factor, Relation):
        return factor.vars
    return {*variables(factor), *inputs(factor)}


def _needed(factor: Expr, uses: Counter[str], keys: frozenset[str]) -> Expr:
    """An atom without the fields that nobody else looks at."""
    if not isinstance(factor, Relation):
        return factor
    pairs = [(f, v) for f, v in zip(factor.fields, factor.vars, strict=True) if uses[v] > 1 or v in keys]
    return Relation(factor.name, tuple(f for f, _ in pairs), tuple(v for _, v in pairs))


def not_null(definition: Expr, catalog: Catalog) -> frozenset[str]:
    """Variables that are NULL in no row: columns that cannot be, and what a comparison has let pass."""
    body = definition.body if isinstance(definition, AggSum) else definition
    found: set[str] = set()
    for factor in factors(body):
        match factor:
            case Relation(name, fields, vars_) if name in catalog.relations:
                info = catalog.relations[name]
                columns = {column.name: column for column in info.columns}
                found |= {v for f, v in zip(fields, vars_, strict=True) if f in columns and not columns[f].nullable}
            case Test(Call("=" | "<" | "<=" | ">" | ">=" | "<>", args)):
                found |= {name for arg in args if isinstance(arg, Var) for name in scalar_variables(arg)}
            case _:
                pass
    return frozenset(found)
