"""Parsed SQL -> bound query: every name resolved, every type known.

    bind("SELECT a + 1 AS b FROM r ORDER BY a", catalog)

`expressions.py` binds scalars, `sources.py` FROM, `selects.py` one SELECT, `queries.py` other queries, `ordering.py`
ORDER BY and LIMIT; `prune.py` and `naming.py` tidy up. What INSERT, DELETE and UPDATE do to a table is a query too: its
rows are the rows they change.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewmill.catalog import Catalog, RelationInfo
from viewmill.errors import BindError
from viewmill.sql import operators
from viewmill.sql.bound import BoundExpr, BoundView, Column, Field, Literal, Output, Query, Select, Values
from viewmill.sql.expressions import Expressions
from viewmill.sql.grammar import DEFAULT_DIALECT, parse_query
from viewmill.sql.limits import row_count
from viewmill.sql.naming import name_variables
from viewmill.sql.ordering import bind_ordered, bind_query
from viewmill.sql.positions import SqlText
from viewmill.sql.prune import prune
from viewmill.sql.refusals import check_clauses
from viewmill.sql.retype import select_from, with_types
from viewmill.sql.scope import Context, Env, did_you_mean
from viewmill.sql.sources import bind_from
from viewmill.sql.statements import Delete, Insert, ParsedQuery, Update
from viewmill.sql.types import can_store


def bind(
    query: ParsedQuery | str,
    catalog: Catalog,
    view_name: str | None = None,
    *,
    columns: tuple[str, ...] = (),
    dialect: str = DEFAULT_DIALECT,
) -> BoundView:
    """A whole query. With `view_name` it must also make a view: column names differ, and LIMIT has an ORDER BY."""
    parsed = parse_query(query, dialect) if isinstance(query, str) else query
    context = _context(parsed, catalog, view_name)
    tree = parsed.tree
    while isinstance(tree, exp.Subquery) and not any(
        tree.args.get(part) for part in ("with_", "order", "limit", "offset")
    ):
        tree = tree.this
    query_, hidden, order = bind_ordered(context, tree, Env())
    limit, offset = row_count(context, tree, "limit"), row_count(context, tree, "offset")
    if view_name is not None and not order and (limit is not None or offset):
        clause, word = (tree.args["limit"], "LIMIT") if limit is not None else (tree.args["offset"], "OFFSET")
        raise context.text.unsupported(
            clause,
            f"cannot maintain {word} without ORDER BY{context.subject}",
            f"add ORDER BY, or apply {word} when reading the view",
            keyword=word,
        )
    query_ = _renamed(context, query_, columns, hidden, tree)
    if view_name is not None:
        _check_names(context, query_, hidden, tree)
    return name_variables(BoundView(prune(query_), hidden, order, limit, offset or 0))


def _context(parsed: ParsedQuery, catalog: Catalog, view_name: str | None = None) -> Context:
    return Context(catalog, SqlText(parsed.sql, parsed.tokens), view_name, bind_query)


def _renamed(context: Context, query: Query, names: tuple[str, ...], hidden: int, tree: exp.Expr) -> Query:
    """The query with the column names that CREATE VIEW v (names) gives."""
    if not names:
        return query
    shown = len(query.columns) - hidden
    if len(names) != shown:
        raise context.text.bind_error(tree, f"{len(names)} names are given to {shown} columns{context.subject}")
    if isinstance(query, Select):
        given = (*names, *(output.name for output in query.outputs[shown:]))
        renamed = (Output(name, context.var(name), out.expr) for name, out in zip(given, query.outputs, strict=True))
        return replace(query, outputs=tuple(renamed))
    columns = zip(names, query.columns, strict=True)
    return select_from(query, tuple(Output(name, context.var(name), _column(field)) for name, field in columns))


def _column(field: Field) -> Column:
    return Column(field.var, field.type, field.nullable)


def _check_names(context: Context, query: Query, hidden: int, tree: exp.Expr) -> None:
    seen: set[str] = set()
    names = [column.name for column in query.columns][: len(query.columns) - hidden]
    for number, name in enumerate(names):
        if name in seen:
            raise context.text.bind_error(
                _item_of(tree, number, len(names)),
                f'column "{name}" appears twice{context.subject}',
                "give one of them another name with AS",
            )
        seen.add(name)


def _item_of(tree: exp.Expr, number: int, count: int) -> exp.Expr | None:
    """The item of the select list that makes column `number`, or the star that does."""
    items = tree.selects if isinstance(tree, exp.Query) else []
    return items[number] if len(items) == count else next((item for item in items if item.is_star), None)


# --- changes to tables


def bind_insert(insert: Insert, catalog: Catalog) -> BoundView:
    """The rows to insert, with all columns of the table in their order and types; NULL where none is given."""
    info = _table(insert.table, catalog, insert)
    context = _context(insert.query, catalog)
    for name in insert.columns:
        if info.column(name) is None:
            raise BindError(
                f'table "{info.name}" has no column "{name}"',
                span=insert.span,
                hint=did_you_mean(name, list(info.names)),
            )
        if insert.columns.count(name) > 1:
            raise BindError(f'column "{name}" is named twice', span=insert.span)
    names = insert.columns or info.names
    query = bind_query(context, insert.query.tree, Env())
    if len(query.columns) != len(names):
        raise BindError(
            f'{len(query.columns)} values are given for {len(names)} columns of table "{info.name}"', span=insert.span
        )
    targets = [info.column(name) for name in names]
    types = []
    for field, target in zip(query.columns, targets, strict=True):
        assert target is not None
        if not can_store(field.type, target.type) and not _are_literals(query, field.var):
            raise BindError(
                f'column "{target.name}" is {target.type} and takes no {field.type}', span=insert.span, hint="use CAST"
            )
        types.append(target.type)
    try:
        typed = with_types(context, query, tuple(types))
    except BindError as error:
        raise BindError(error.message, span=insert.span, hint=error.hint) from None
    return _finished(_in_order(context, typed, info, names))


def _are_literals(query: Query, var: str) -> bool:
    """'1995-01-01' may stand for a date in VALUES: whether it is one is seen at once."""
    if not isinstance(query, Values):
        return False
    index = [field.var for field in query.columns].index(var)
    return all(isinstance(row[index], Literal) for row in query.rows)


def _in_order(context: Context, query: Query, info: RelationInfo, names: tuple[str, ...]) -> Query:
    if names == info.names:
        return query
    given = dict(zip(names, query.columns, strict=True))
    outputs = []
    for column in info.columns:
        expr = _column(given[column.name]) if column.name in given else Literal(None, column.type)
        outputs.append(Output(column.name, context.var(column.name), expr))
    return select_from(query, tuple(outputs))


def bind_delete(delete: Delete, catalog: Catalog) -> BoundView:
    """The rows to delete, with all columns of the table."""
    info = _table(delete.table, catalog, delete)
    context = _context(delete.statement, catalog)
    source, binder, columns = _affected(context, delete.statement.tree, info)
    return _finished(replace(source, outputs=columns))


def bind_update(update: Update, catalog: Catalog) -> BoundView:
    """The rows to change: all columns as they are, then all columns as they will be."""
    info = _table(update.table, catalog, update)
    context = _context(update.statement, catalog)
    select, binder, before = _affected(context, update.statement.tree, info)
    changes = _assignments(context, update.statement.tree, info, binder)
    after = tuple(
        Output(f"new_{out.name}", context.var(f"new_{out.name}"), changes.get(out.name, out.expr)) for out in before
    )
    return _finished(replace(select, outputs=before + after))


def _affected(context: Context, tree: exp.Expr, info: RelationInfo) -> tuple[Select, Expressions, tuple[Output, ...]]:
    """`SELECT * FROM table WHERE ...`, without its outputs; a binder for its scope; its outputs."""
    check_clauses(context, tree)
    source, scope = bind_from(context, exp.Select(from_=exp.From(this=tree.this)), Env())
    where = tree.args.get("where")
    condition = Expressions(context, scope, Env(), "WHERE").condition(where.this) if where is not None else None
    outputs = tuple(Output(column.name, context.var(column.name), column.expr) for column in scope.columns)
    return Select(source, condition, None, (), None, (), False), Expressions(context, scope, Env(), "SET"), outputs


def _assignments(context: Context, tree: exp.Expr, info: RelationInfo, binder: Expressions) -> dict[str, BoundExpr]:
    changes: dict[str, BoundExpr] = {}
    for assignment in tree.expressions:
        target = assignment.this
        column = info.column(target.name)
        if column is None:
            hint = did_you_mean(target.name, list(info.names))
            raise context.text.bind_error(target, f'table "{info.name}" has no column "{target.name}"', hint)
        if target.name in changes:
            raise context.text.bind_error(target, f'column "{target.name}" is set twice')
        value = binder.bind(assignment.expression)
        if not can_store(value.type, column.type) and not isinstance(value, Literal):
            raise context.text.bind_error(
                assignment, f'column "{column.name}" is {column.type} and takes no {value.type}', "use CAST"
            )
        try:
            changes[target.name] = operators.convert(value, column.type)
        except BindError as error:
            raise context.text.bind_error(assignment, error.message, error.hint) from None
    return changes


def _table(name: str, catalog: Catalog, statement: Insert | Delete | Update) -> RelationInfo:
    info = catalog.get(name)
    if info is None:
        raise BindError(
            f'unknown table "{name}"', span=statement.span, hint=did_you_mean(name, list(catalog.relations))
        )
    if info.kind == "view":
        raise BindError(
            f'"{name}" is a view: its rows follow from its query', span=statement.span, hint="change its tables"
        )
    return info


def _finished(query: Query) -> BoundView:
    return name_variables(BoundView(prune(query), hidden=0, order=(), limit=None, offset=0))
