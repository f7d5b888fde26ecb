"""The FROM clause: tables, derived tables and joins, and the columns they make visible."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from viewmill.catalog import RelationInfo
from viewmill.sql import operators
from viewmill.sql.bound import BoundExpr, Column, Derived, Field, Join, Query, Source, Table
from viewmill.sql.expressions import Expressions
from viewmill.sql.limits import is_limited
from viewmill.sql.refusals import check_clauses
from viewmill.sql.scope import Context, Env, Scope, Visible, did_you_mean, padded

JoinKind = Literal["inner", "left", "right", "full", "cross", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Item:
    """A bound piece of FROM."""

    source: Source
    columns: tuple[Visible, ...]
    tables: tuple[str, ...]


def bind_from(context: Context, tree: exp.Select, env: Env) -> tuple[Source | None, Scope]:
    """The source of a SELECT and the scope of its clauses. Joins, commas included, are left-deep, as Spark has them."""
    start = tree.args.get("from_")
    if start is None:
        return None, Scope((), (), env.outer)
    item = _joined(context, _item(context, start.this, env), tree.args.get("joins") or [], env)
    return item.source, Scope(item.columns, item.tables, env.outer)


def _item(context: Context, node: exp.Expr, env: Env) -> Item:
    check_clauses(context, node)
    match node:
        case exp.Table():
            item = _table(context, node, env)
        case exp.Subquery(this=exp.Table() as inner) if not is_limited(inner):
            if node.alias:
                raise context.text.unsupported(node, "a join in parentheses cannot have an alias")
            item = _item(context, inner, env)
        case exp.Subquery(this=exp.Subquery() as inner) if not node.alias and inner.args.get("joins"):
            item = _item(context, inner, env)  # a join in parentheses that starts with a derived table
        case exp.Subquery():
            item = _derived(context, node, env)
        case exp.Values():
            item = _visible(context, context.bind_query(context, node, env), node, node.alias or "values")
        case _:
            what = "LATERAL" if isinstance(node, exp.Lateral) else "table functions"
            raise context.text.unsupported(
                node, f"cannot maintain {what}{context.subject}", "join with a table instead"
            )
    return _joined(context, item, node.args.get("joins") or [], env)


# --- tables


def _table(context: Context, node: exp.Table, env: Env) -> Item:
    if not isinstance(node.this, exp.Identifier):
        raise context.text.unsupported(
            node, f"cannot maintain table functions{context.subject}", "use VALUES or a table"
        )
    if node.args.get("db"):
        raise context.text.unsupported(
            node, "names of databases are not understood", "write the name of the table alone"
        )
    name = node.name
    cte = env.ctes.get(name)
    if cte is not None:
        query = context.bind_query(context, cte.query, cte.env)
        item = _visible(context, query, node, node.alias or name, cte.columns)
    else:
        item = _relation(context, node, _known(context, node, env))
    return item


def _known(context: Context, node: exp.Table, env: Env) -> RelationInfo:
    info = context.catalog.get(node.name)
    if info is None:
        known = [*env.ctes, *context.catalog.relations]
        hint = did_you_mean(node.name, known) or ("create it first" if not known else f"known: {', '.join(known[:12])}")
        raise context.text.bind_error(node.this, f'unknown table "{node.name}"', hint)
    return info


def _relation(context: Context, node: exp.Table, info: RelationInfo) -> Item:
    alias = node.alias or info.name
    fields = tuple(Field(c.name, context.var(c.name), c.type, c.nullable) for c in info.columns)
    names = _column_names(context, node, info.names, ())
    columns = tuple(
        Visible(alias, name, Column(field.var, field.type, field.nullable))
        for name, field in zip(names, fields, strict=True)
    )
    return Item(Table(info.name, alias, fields), columns, (alias,))


# --- derived tables


def _derived(context: Context, node: exp.Subquery, env: Env) -> Item:
    tree = node if is_limited(node) else node.this
    return _visible(context, context.bind_query(context, tree, env), node, node.alias or "")


def _visible(
    context: Context, query: Query, node: exp.Expr, alias: str, cte_columns: tuple[exp.Identifier, ...] = ()
) -> Item:
    names = _column_names(context, node, tuple(column.name for column in query.columns), cte_columns)
    columns = tuple(
        Visible(alias, name, Column(field.var, field.type, field.nullable))
        for name, field in zip(names, query.columns, strict=True)
    )
    return Item(Derived(query, alias), columns, (alias,) if alias else ())


def _column_names(
    context: Context, node: exp.Expr, names: tuple[str, ...], cte_columns: tuple[exp.Identifier, ...]
) -> tuple[str, ...]:
    """The names of the columns: those of `t(x, y)` if they are given, else those of the CTE's head, else its own."""
    for given in (list(cte_columns), node.args["alias"].args.get("columns") or [] if node.args.get("alias") else []):
        if given and len(given) != len(names):
            raise context.text.bind_error(given[0], f"{len(given)} names are given to {len(names)} columns")
        names = tuple(name.name for name in given) or names
    return names


# --- joins


def _joined(context: Context, item: Item, joins: list[exp.Join], env: Env) -> Item:
    for join in joins:
        item = _join(context, item, join, env)
    return item


def _join(context: Context, left: Item, join: exp.Join, env: Env) -> Item:
    right = _item(context, join.this, env)
    for table in right.tables:
        if table in left.tables:
            raise context.text.bind_error(
                join.this, f'table "{table}" stands in FROM twice', "give one of them an alias"
            )
    kind = _kind(context, join)
    keys = _using(context, left, right, join)
    if keys:
        return _merge(left, right, kind, keys)
    scope = Scope(left.columns + right.columns, left.tables + right.tables, env.outer)
    on = join.args.get("on")
    condition = Expressions(context, scope, env, "ON").condition(on) if on is not None else None
    if kind in ("inner", "cross") and condition in (None, operators.TRUE):
        kind, condition = "cross", None
    if condition is None and kind != "cross":
        condition = operators.TRUE
    return _item_of(left, right, kind, condition)


def _kind(context: Context, join: exp.Join) -> JoinKind:
    if join.method not in ("", "NATURAL"):
        raise context.text.unsupported(
            join, f"cannot maintain {join.method} joins{context.subject}", keyword=join.method
        )
    if join.kind == "SEMI" or join.kind == "ANTI":
        return "semi" if join.kind == "SEMI" else "anti"
    match join.side:
        case "LEFT":
            return "left"
        case "RIGHT":
            return "right"
        case "FULL":
            return "full"
        case _:
            return "cross" if join.kind == "CROSS" else "full" if join.kind == "OUTER" else "inner"


def _item_of(left: Item, right: Item, kind: JoinKind, on: BoundExpr | None) -> Item:
    source = Join(kind, left.source, right.source, on)
    if kind in ("semi", "anti"):
        return Item(source, left.columns, left.tables)
    from_left = padded(left.columns) if kind in ("right", "full") else left.columns
    from_right = padded(right.columns) if kind in ("left", "full") else right.columns
    return Item(source, from_left + from_right, left.tables + right.tables)


def _using(context: Context, left: Item, right: Item, join: exp.Join) -> list[str]:
    """The columns to merge: those of USING, or for a NATURAL join all that both sides have."""
    if join.method == "NATURAL":
        return [
            c.name
            for c in left.columns
            if not c.hidden and any(c.name == r.name for r in right.columns if not r.hidden)
        ]
    names = []
    for identifier in join.args.get("using") or ():
        for side in (left, right):
            found = [column for column in side.columns if column.name == identifier.name and not column.hidden]
            if len(found) != 1:
                problem = "ambiguous" if found else "missing"
                where = "left" if side is left else "right"
                raise context.text.bind_error(
                    identifier, f'column "{identifier.name}" of USING is {problem} on the {where} side'
                )
        names.append(identifier.name)
    return names


def _merge(left: Item, right: Item, kind: JoinKind, keys: list[str]) -> Item:
    """A join USING: each key appears once, before all other columns, and is that of the side that is never padded."""
    on = operators.all_of(*(operators.compare("=", _column(left, key), _column(right, key)) for key in keys))
    item = _item_of(left, right, "inner" if kind == "cross" else kind, on)
    if kind in ("semi", "anti"):
        first = [_visible_of(item.columns, key) for key in keys]
        return replace(item, columns=(*first, *(c for c in item.columns if not any(c is key for key in first))))
    count = len(left.columns)
    sides = [[_visible_of(columns, key) for key in keys] for columns in (item.columns[:count], item.columns[count:])]
    merged = []
    for a, b in zip(*sides, strict=True):
        expr = operators.coalesce((a.expr, b.expr)) if kind == "full" else b.expr if kind == "right" else a.expr
        merged.append(Visible(None, a.name, expr))
    # The sides of the keys go before the other columns too: that is where Spark has them in `t.*`.
    both = sides[0] + sides[1]
    hidden = (replace(column, hidden=True) for column in both)
    rest = (column for column in item.columns if not any(column is key for key in both))
    return Item(item.source, (*merged, *hidden, *rest), item.tables)


def _column(item: Item, name: str) -> BoundExpr:
    return _visible_of(item.columns, name).expr


def _visible_of(columns: tuple[Visible, ...], name: str) -> Visible:
    return next(column for column in columns if column.name == name and not column.hidden)
