"""A program is checked before an engine sees it.

every store that is read is kept, and maintained on every relation of its definition
every variable is bound where it is used, from left to right, and statements produce their target's keys
`+=` and `let` read no store that an earlier statement of the trigger has changed
no store is defined as a cross product
"""

from __future__ import annotations

from viewmill.algebra.build import factors, terms
from viewmill.algebra.nodes import ZERO, AggSum, Expr, Extreme, Product, Relation, TopK
from viewmill.algebra.schema import children, deltas, inputs, relations, schema, walk
from viewmill.errors import InternalError
from viewmill.program.nodes import Program, Statement, Store, Trigger


def check(program: Program) -> None:
    for store in program.stores.values():
        _check_store(program, store)
    for trigger in program.triggers.values():
        _check_trigger(program, trigger)
    for view in program.views.values():
        for expr in (view.output, view.restricted):
            _check_reads(program, expr, f'view "{view.name}"')
            check_bound(expr, f'view "{view.name}"')
        if view.output != ZERO and set(schema(view.output)) != set(view.columns):
            raise InternalError(f'view "{view.name}" produces {schema(view.output)}, not {view.columns}')


def _check_store(program: Program, store: Store) -> None:
    if set(schema(store.definition)) != set(store.keys) or inputs(store.definition):
        raise InternalError(f'store "{store.name}" is not a closed expression over its keys')
    for relation in relations(store.definition):
        trigger = program.triggers.get(relation)
        if trigger is None or not any(s.target == store.name and s.op != "let" for s in trigger.statements):
            raise InternalError(f'store "{store.name}" is not maintained when "{relation}" changes')
    for term in terms(store.definition):
        _check_connected(store, factors(term.body if isinstance(term, AggSum) else term))


def _check_connected(store: Store, parts: tuple[Expr, ...]) -> None:
    """Every two relations of a product are linked by shared variables, or by assignments and tests between them."""
    groups: list[set[str]] = []
    rows = [part for part in parts if isinstance(part, Relation)]
    for part in parts:
        names = set(schema(part)) | inputs(part)
        joined = [group for group in groups if group & names]
        groups = [group for group in groups if group not in joined] + [names.union(*joined)]
    if len([group for group in groups if any(set(row.vars) & group for row in rows)]) > 1:
        raise InternalError(f'store "{store.name}" is defined as a cross product')


def _check_trigger(program: Program, trigger: Trigger) -> None:
    changed: set[str] = set()
    lets = {trigger.relation}
    for s in trigger.statements:
        where = f'the statement for "{s.target}" on "{trigger.relation}"'
        _check_reads(program, s.expr, where)
        check_bound(s.expr, where)
        if s.expr != ZERO and set(schema(s.expr)) != set(s.vars):
            raise InternalError(f"{where} produces {schema(s.expr)}, not {s.vars}")
        if not deltas(s.expr) <= lets:
            raise InternalError(f"{where} reads a change that is not computed yet: {deltas(s.expr) - lets}")
        if s.op != ":=" and relations(s.expr) & changed:
            raise InternalError(f"{where} reads {relations(s.expr) & changed}, which changed before it")
        _record(s, changed, lets)


def _record(s: Statement, changed: set[str], lets: set[str]) -> None:
    if s.op == "let":
        lets.add(s.target)
    elif s.op == "+=":
        changed.add(s.target)


def _check_reads(program: Program, expr: Expr, where: str) -> None:
    for node in walk(expr):
        if isinstance(node, Relation):
            store = program.stores.get(node.name)
            if store is None:
                raise InternalError(f'{where} reads "{node.name}", which is not kept')
            if not set(node.fields) <= set(store.keys):
                raise InternalError(f'{where} reads keys {node.fields} of "{node.name}", which has {store.keys}')


def check_bound(expr: Expr, where: str, bound: frozenset[str] = frozenset()) -> None:
    """Every input is bound, walking products from left to right."""
    missing = inputs(expr) - bound
    if missing:
        raise InternalError(f"{where} uses {', '.join(sorted(missing))}, which nothing binds")
    match expr:
        case Product(parts):
            known = bound
            for part in parts:
                check_bound(part, where, known)
                known |= set(schema(part))
        case AggSum(_, body) | Extreme(_, _, _, body):
            check_bound(body, where, bound)
        case TopK(order, _, _, body):
            if sorted(key.var for key in order) != sorted(schema(body)):
                raise InternalError(f"{where} has a TopK whose order does not name all of {schema(body)} once")
            check_bound(body, where, bound - set(schema(body)))
        case _:
            for part in children(expr):
                check_bound(part, where, bound)
