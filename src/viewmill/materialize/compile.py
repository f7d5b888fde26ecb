"""WHAT is kept: from a view's algebra to stores, triggers and an output (Hot Dog section 2.2).

A view is peeled first: where its outermost operators are non-linear (AVG = sum / count, HAVING, DISTINCT) and read no
relation themselves, they are computed when the view is read, and only the linear bodies below become stores. So is a
comparison of all rows with one value that moves with them (`compared.py`). Then, for every store and every relation in
its definition, a strategy gives the statement that follows the change. Statements may ask for more stores; these are
compiled in turn until none is missing (DBToaster's worklist). Equal definitions share one store, across relations and
across all views of a mill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from viewmill.algebra.build import agg_sum, factors, product, sum_
from viewmill.algebra.nodes import AggSum, Exists, Expr, Extreme, Lift, Product, Relation, Sum, TopK
from viewmill.algebra.schema import relations, tidy, walk
from viewmill.catalog import Catalog
from viewmill.delta.derive import reach
from viewmill.errors import UnsupportedError
from viewmill.materialize.choose import Plan, StoreLimit, plan
from viewmill.materialize.compared import compared
from viewmill.materialize.count import count_stores
from viewmill.materialize.cut import cut
from viewmill.materialize.workshop import Stores
from viewmill.program.check import check
from viewmill.program.dead_stores import drop_dead_stores
from viewmill.program.nodes import EMPTY, Maintenance, Program, ViewPlan
from viewmill.program.order import order
from viewmill.rewrite.factor_products import factor_products, is_connected, unconnected
from viewmill.rewrite.pipeline import simplify


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A view to compile: its algebra, its output variables, and the way of maintenance asked for."""

    name: str
    expr: Expr
    columns: tuple[str, ...]
    maintain: str = "auto"


def add_view(program: Program, spec: ViewSpec, catalog: Catalog, sizes: Mapping[str, int]) -> Program:
    """The program that also maintains `spec`. Refuses what cannot be maintained the way asked."""
    read = relations(spec.expr)
    chosen = plan(spec.maintain, read, lambda trial: _compile(EMPTY, spec, catalog, trial, sizes), catalog, sizes)
    try:
        compiled = _compile(program, spec, catalog, chosen, sizes)
    except StoreLimit:
        raise _too_many_stores(spec, chosen) from None
    check(compiled)
    _keep_promise(spec, compiled.views[spec.name])
    return compiled


def drop_view(program: Program, name: str) -> Program:
    """The program without the view and the stores that only it needed."""
    views = {key: view for key, view in program.views.items() if key != name}
    return drop_dead_stores(replace(program, views=views))


def _keep_promise(spec: ViewSpec, view: ViewPlan) -> None:
    broken = [m for m in view.maintenance if m.how == "reevaluate"]
    if spec.maintain == "incremental" and broken:
        which = "; ".join(f'a change of "{m.relation}" would re-evaluate it, because {m.reason}' for m in broken)
        raise UnsupportedError(
            f'cannot maintain view "{spec.name}" incrementally: {which}',
            hint="use maintain = 'auto' to allow it, or correlate the subquery by an equality",
        )


def _too_many_stores(spec: ViewSpec, chosen: Plan) -> UnsupportedError:
    needed = count_stores(simplify(spec.expr))
    return UnsupportedError(
        f'cannot maintain view "{spec.name}" recursively: it would need {needed}'
        f" stores, and the limit is {chosen.limit}",
        hint="use maintain = 'auto' or 'first_order', or split the view into views over views",
    )


def _compile(program: Program, spec: ViewSpec, catalog: Catalog, chosen: Plan, sizes: Mapping[str, int]) -> Program:
    stores = Stores(program, catalog, chosen, spec.name, spec.expr, sizes)
    definition = simplify(spec.expr, stores.facts)
    output = tidy(peel(definition, stores), {name: name for name in spec.columns})
    tops = tuple(sorted(relations(output)))
    stores.compile()
    compiled = stores.program()
    view = ViewPlan(
        name=spec.name,
        columns=spec.columns,
        definition=definition,
        output=order(output),
        restricted=order(restrict(output)),
        maintenance=_maintenance(compiled, tops, definition),
    )
    return drop_dead_stores(replace(compiled, views={**compiled.views, spec.name: view}))


def peel(expr: Expr, stores: Stores) -> Expr:
    """The view over stores: non-linear operators that read no relation themselves stay for the reader."""
    match expr:
        case Sum(terms) if _is_nonlinear(expr) or not all(map(is_connected, terms)):
            return sum_(peel(term, stores) for term in terms)
        case AggSum(group, body) if not _reads(body) and not _only_counts(body):
            return agg_sum(group, cut(body, stores.reader, whole=False))
        case AggSum() if not is_connected(expr):
            parts = factors(factor_products(expr))
            return product(*(peel(simplify(part, stores.facts), stores) for part in parts))
        case Product(parts) if _reads(expr) and not is_connected(expr):
            return product(*(peel(part, stores) for part in unconnected(parts)))
        case _ if not _reads(expr):
            return cut(expr, stores.reader, whole=False)
        case _ if (apart := compared(expr)) is not None and stores.follows(apart.rows):
            rows = stores.reader(apart.rows)
            return agg_sum(apart.group, product(rows, cut(apart.values, stores.reader), *apart.tests))
        case _:
            return stores.reader(expr)


def _is_nonlinear(expr: Expr) -> bool:
    return any(isinstance(node, Lift | Extreme | Exists | TopK) and relations(node) for node in walk(expr))


def _reads(expr: Expr) -> bool:
    """Some factor is a relation, a sum of things that may be, or picked from all rows, which is no work for readers."""
    return any(isinstance(factor, Relation | AggSum | Sum | TopK) for factor in factors(expr))


def _only_counts(body: Expr) -> bool:
    """Adding up a set, as in COUNT(DISTINCT x): a reader would run over the whole set for one number."""
    return not any(isinstance(factor, Lift | Extreme) and relations(factor) for factor in factors(body))


def restrict(output: Expr) -> Expr:
    """The output for those keys only that a change of the stores can reach; the batch is that of the stores."""
    match output:
        case Sum(terms):
            return sum_(restrict(term) for term in terms)
        case AggSum(group, body):
            return agg_sum(group, _restricted(body))
        case _:
            return _restricted(output)


def _restricted(body: Expr) -> Expr:
    keys = reach(body, relations(body))
    return body if keys is None else product(simplify(keys), body)


def _maintenance(program: Program, tops: tuple[str, ...], definition: Expr) -> tuple[Maintenance, ...]:
    """For each relation the worst that happens to a store of the view: one re-evaluated store makes it `reevaluate`."""
    rank = ("recursive", "first_order", "reevaluate")
    found = []
    for relation in sorted(relations(definition)):
        trigger = program.triggers.get(relation)
        statements = [s for s in trigger.statements if s.target in tops and s.op != "let"] if trigger else []
        if statements:
            worst = max(statements, key=lambda s: rank.index(s.how))
            found.append(Maintenance(relation, worst.how, worst.reason))
    return tuple(found)
