"""One SELECT block: its clauses in the order in which SQL gives them meaning.

FROM, WHERE, the select list, GROUP BY, HAVING, ORDER BY; then, if there are groups, everything after WHERE is said
again in terms of them (`grouping.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from viewmill.sql.aggregates import Aggregates
from viewmill.sql.bound import BoundExpr, GroupKey, Literal, Output, Select, SortKey
from viewmill.sql.expressions import Expressions
from viewmill.sql.grouping import Regroup, form
from viewmill.sql.output_names import output_name
from viewmill.sql.refusals import check_clauses, check_grouping
from viewmill.sql.scope import Context, Env, Scope, Visible, lookup
from viewmill.sql.sources import bind_from
from viewmill.sql.walk import has_query, used


@dataclass(frozen=True, slots=True)
class OrderedQuery:
    """A query whose last `hidden` columns are there to sort by."""

    query: Select
    hidden: int
    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """An item of the select list; `node` is None for a column that `*` stands for."""

    name: str
    expr: BoundExpr
    node: exp.Expr | None


def bind_select(context: Context, tree: exp.Select, env: Env, *, ordered: bool) -> OrderedQuery:
    """`ordered` False drops ORDER BY: in a subquery it means nothing."""
    check_clauses(context, tree)
    if not tree.expressions:
        raise context.text.bind_error(tree, "SELECT has no columns", "write SELECT * for all of them")
    source, scope = bind_from(context, tree, env)
    block = _Block(context, tree, scope, env)
    where = tree.args.get("where")
    condition = Expressions(context, scope, env, "WHERE").condition(where.this) if where is not None else None
    group = block.group_keys()
    having = block.having(group)
    sorts = block.sort_expressions() if ordered else []
    if group is None and (len(block.aggregates) or tree.args.get("having") is not None):
        group = ()
    if group is not None:
        regroup = block.regroup(group)
        block.projections = [replace(p, expr=regroup(p.expr, p.node)) for p in block.projections]
        having = regroup(having, tree.args["having"].this) if having is not None else None
        sorts = [(expr if isinstance(expr, int) else regroup(expr, node), node) for expr, node in sorts]
    outputs, order = block.outputs(sorts)
    query = Select(source, condition, group, tuple(block.aggregates), having, outputs, block.distinct)
    return OrderedQuery(query, len(outputs) - len(block.projections), order)


class _Block:
    """The clauses after WHERE, which share the select list and the aggregates."""

    def __init__(self, context: Context, tree: exp.Select, scope: Scope, env: Env) -> None:
        self.context = context
        self.tree = tree
        self.scope = scope
        self.aggregates = Aggregates()
        self.distinct = tree.args.get("distinct") is not None
        self._expressions = Expressions(context, scope, env, "the select list", self.aggregates, alias=self._alias)
        self.projections: list[Projection] = []
        for node in tree.expressions:
            self.projections.extend(self._projection(node))

    # --- the select list

    def _projection(self, node: exp.Expr) -> Iterator[Projection]:
        star = node.this if isinstance(node, exp.Column) else node
        if not isinstance(star, exp.Star):
            yield Projection(output_name(self.context.text, node), self._expressions.bind(node), node)
            return
        if star.args.get("replace") or star.args.get("rename"):
            raise self.context.text.unsupported(node, "* with REPLACE or RENAME is not supported")
        excluded = {column.name for column in star.args.get("except_") or ()}
        for column in self._starred(node):
            if column.name not in excluded:
                yield Projection(column.name, column.expr, None)

    def _starred(self, node: exp.Expr) -> list[Visible]:
        table = node.table if isinstance(node, exp.Column) else ""
        if not self.scope.tables and not self.scope.columns:
            raise self.context.text.bind_error(node, "* needs a FROM clause")
        if table and table not in self.scope.tables:
            hint = f"tables here: {', '.join(self.scope.tables)}"
            raise self.context.text.bind_error(node, f'unknown table "{table}"', hint)
        if table:
            return [column for column in self.scope.columns if column.table == table]
        return [column for column in self.scope.columns if not column.hidden]

    def _alias(self, name: str) -> exp.Expr | BoundExpr | None:
        """The select list's column of that name. One with a subquery is bound again, for variables of its own."""
        found = next((p for p in self.projections if p.name == name and isinstance(p.node, exp.Alias)), None)
        if found is None:
            return None
        return found.node if has_query(found.expr) else found.expr

    # --- GROUP BY and HAVING

    def group_keys(self) -> tuple[GroupKey, ...] | None:
        group = self.tree.args.get("group")
        if group is None:
            return None
        check_grouping(self.context, group)
        if group.args.get("all"):
            plain = [p for p in self.projections if not used(p.expr) & self.aggregates.variables]
            keys = [(p.expr, p.name) for p in plain]
        else:
            keys = [self._group_key(node) for item in group.expressions for node in _flat(item)]
        found = {form(expr): GroupKey(self.context.var(name), expr) for expr, name in reversed(keys)}
        return tuple(found[expr] for expr in dict.fromkeys(form(expr) for expr, _ in keys))

    def _group_key(self, node: exp.Expr) -> tuple[BoundExpr, str]:
        position = _ordinal(node)
        if position is not None:
            projection = self.projections[self._checked(node, position, "GROUP BY")]
            expr, name = projection.expr, projection.name
        else:
            expr = replace(self._expressions, aggregates=None, clause="GROUP BY").bind(node)
            name = output_name(self.context.text, node)
        if used(expr) & self.aggregates.variables:
            raise self.context.text.bind_error(node, "GROUP BY cannot refer to an aggregate function")
        return expr, name

    def _checked(self, node: exp.Expr, position: int, clause: str) -> int:
        count = len(self.projections)
        if not 1 <= position <= count:
            raise self.context.text.bind_error(
                node, f"{clause} position {position} is not in the select list of {count}"
            )
        return position - 1

    def having(self, group: tuple[GroupKey, ...] | None) -> BoundExpr | None:
        clause = self.tree.args.get("having")
        if clause is None:
            return None
        keys = {key.expr for key in group or ()}

        def alias_first(node: exp.Column) -> bool:
            """Spark: a grouped column first, then an alias, then any other column (which is then an error)."""
            found = lookup(self.context, self.scope, node)
            return found is None or found not in keys

        binder = replace(self._expressions, clause="HAVING", alias_first=alias_first)
        return binder.condition(clause.this)

    def regroup(self, keys: tuple[GroupKey, ...]) -> _Regrouper:
        return _Regrouper(self.context, self.scope, keys)

    # --- ORDER BY

    def sort_expressions(self) -> list[tuple[BoundExpr | int, exp.Ordered]]:
        """What to sort by: the number of an output, or an expression."""
        order = self.tree.args.get("order")
        return [(self._sort_expression(node.this), node) for node in (order.expressions if order is not None else ())]

    def _sort_expression(self, node: exp.Expr) -> BoundExpr | int:
        position = _ordinal(node)
        if position is not None:
            return self._checked(node, position, "ORDER BY")
        if isinstance(node, exp.Column) and not node.table:
            named = [index for index, p in enumerate(self.projections) if p.name == node.name]
            if len({self.projections[index].expr for index in named}) == 1:
                return named[0]
        return replace(self._expressions, clause="ORDER BY", alias_first=lambda _: True).bind(node)

    def outputs(
        self, sorts: list[tuple[BoundExpr | int, exp.Ordered]]
    ) -> tuple[tuple[Output, ...], tuple[SortKey, ...]]:
        """The select list, then what is only sorted by; and the order."""
        outputs = [Output(p.name, self.context.var(p.name), p.expr) for p in self.projections]
        order: list[SortKey] = []
        for target, node in sorts:
            if isinstance(target, Literal):
                continue  # a constant puts nothing in order
            if not isinstance(target, int):
                target = self._output_of(target, node, outputs)
            if all(key.column != target for key in order):  # sorted by it already
                order.append(SortKey(target, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
        return tuple(outputs), tuple(order)

    def _output_of(self, expr: BoundExpr, node: exp.Ordered, outputs: list[Output]) -> int:
        for index, output in enumerate(outputs):
            if output.expr == expr:
                return index
        if self.distinct:
            raise self.context.text.bind_error(
                node, "with SELECT DISTINCT, ORDER BY must use columns of the select list", "add it to the select list"
            )
        outputs.append(Output(output_name(self.context.text, node.this), self.context.var("sort"), expr))
        return len(outputs) - 1


class _Regrouper:
    """Says an expression again in terms of the groups; errors point at the column in its own syntax tree."""

    def __init__(self, context: Context, scope: Scope, keys: tuple[GroupKey, ...]) -> None:
        self._context = context
        self._keys = keys
        self._columns = scope.variables
        self._node: exp.Expr | None = None
        self._rewrite = Regroup(keys, scope.variables, self._ungrouped)

    def __call__(self, expr: BoundExpr, node: exp.Expr | None) -> BoundExpr:
        self._node = node
        return self._rewrite.expr(expr)

    def _ungrouped(self, var: str) -> NoReturn:
        columns = self._node.find_all(exp.Column) if self._node is not None else ()
        place = next((column for column in columns if self._context.resolved.get(id(column)) == var), self._node)
        name = var.rpartition("#")[0]
        raise self._context.text.bind_error(
            place,
            f'column "{name}" is neither grouped nor aggregated',
            f"add {name} to GROUP BY, or use min({name})",
        )


def _flat(node: exp.Expr) -> list[exp.Expr]:
    """GROUP BY (a, b) is GROUP BY a, b; GROUP BY () has no keys."""
    return node.expressions if isinstance(node, exp.Tuple) else [node]


def _ordinal(node: exp.Expr) -> int | None:
    return int(node.name) if isinstance(node, exp.Literal) and node.is_int else None
