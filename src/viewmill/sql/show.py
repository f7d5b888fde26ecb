"""A bound view as indented text, for `explain(stage="bound")`.

    select dept: int := dept_3, total: bigint not null := count_rows
      aggregate count_rows := count(*)
      group dept_3 := dept_2
      where salary > 10.00
      from table emp(dept: dept_2, salary)
    order by total desc nulls last

Each variable stands once to the left of `:=` or in a table, and casts show every conversion.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from viewmill.sql.bound import (
    Aggregate,
    BoundExpr,
    BoundView,
    Call,
    Cast,
    Column,
    Derived,
    ExistsQuery,
    Field,
    InQuery,
    Join,
    Limited,
    Literal,
    Query,
    ScalarQuery,
    Select,
    SetOperation,
    SortKey,
    Source,
    Table,
    Values,
)
from viewmill.sql.walk import parts_of

_INDENT = "  "
# How tightly operators bind; functions, and what is not listed, most tightly of all.
_LEVELS = {
    **{"or": 1, "and": 2, "not": 3},
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>", "like", "ilike", "rlike", "in", "is_null"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%", "div"), 6),
    "neg": 7,
}
_TIGHTEST = 8
_NOT_INFIX = ("not", "in", "is_null", "neg")


def show(view: BoundView) -> str:
    lines = list(_query(view.query))
    names = [field.name for field in view.query.columns]
    if view.order:
        lines.append(f"order by {_order(view.order, names)}")
    if view.hidden:
        lines.append(f"hidden {', '.join(names[-view.hidden :])}")
    if view.limit is not None:
        lines.append(f"limit {view.limit}")
    if view.offset:
        lines.append(f"offset {view.offset}")
    return "\n".join(lines)


def _order(keys: tuple[SortKey, ...], names: list[str]) -> str:
    return ", ".join(
        f"{names[key.column]}{' desc' * key.descending} nulls {'first' if key.nulls_first else 'last'}" for key in keys
    )


# --- queries and sources: lines


def _query(query: Query) -> Iterator[str]:
    match query:
        case Select():
            yield from _select(query)
        case SetOperation():
            yield f"{query.kind}{' all' * query.all} {_fields(query.columns)}".rstrip()
            yield from _indented(_query(query.left))
            yield from _indented(_query(query.right))
        case Values():
            yield f"values {_fields(query.columns)}"
            yield from (f"{_INDENT}({', '.join(map(show_expr, row))})" for row in query.rows)
        case Limited():
            yield _limited(query)
            yield from _indented(_query(query.query))
        case _:
            assert_never(query)


def _limited(query: Limited) -> str:
    """`limit 3 offset 1 order by a nulls first, sort nulls first hidden sort`"""
    names = [field.var for field in query.query.columns]
    words = [f"limit {'all' if query.limit is None else query.limit}"]
    words += [f"offset {query.offset}"] if query.offset else []
    words += [f"order by {_order(query.order, names)}"] if query.order else []
    words += [f"hidden {', '.join(names[-query.hidden :])}"] if query.hidden else []
    return " ".join(words)


def _select(select: Select) -> Iterator[str]:
    outputs = (
        f"{_named(o.name, o.var)}: {_type(str(o.type), o.nullable)} := {show_expr(o.expr)}" for o in select.outputs
    )
    yield f"select{' distinct' * select.distinct} {', '.join(outputs)}".rstrip()
    yield from _indented(_clauses(select))


def _clauses(select: Select) -> Iterator[str]:
    if select.having is not None:
        yield f"having {show_expr(select.having)}"
    for aggregate in select.aggregates:
        yield f"aggregate {aggregate.var} := {_aggregate(aggregate)}"
    if select.group is not None:
        keys = ", ".join(f"{key.var} := {show_expr(key.expr)}" for key in select.group)
        yield f"group {keys or '()'}"
    if select.where is not None:
        yield f"where {show_expr(select.where)}"
    if select.source is not None:
        yield from _prefixed("from ", _source(select.source))
    for query in _subqueries(select):
        yield from _prefixed("subquery ", _query(query))


def _source(source: Source) -> Iterator[str]:
    match source:
        case Table():
            alias = f" as {source.alias}" if source.alias != source.name else ""
            fields = ", ".join(
                field.name if field.name == field.var else f"{field.name}: {field.var}" for field in source.fields
            )
            yield f"table {source.name}({fields}){alias}"
        case Derived():
            yield f"derived {source.alias}".rstrip()
            yield from _indented(_query(source.query))
        case Join():
            yield f"{source.kind} join" + (f" on {show_expr(source.on)}" if source.on is not None else "")
            yield from _indented(_source(source.left))
            yield from _indented(_source(source.right))
        case _:
            assert_never(source)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _prefixed(prefix: str, lines: Iterator[str]) -> Iterator[str]:
    yield prefix + next(lines)
    yield from lines


def _fields(fields: tuple[Field, ...]) -> str:
    return ", ".join(f"{_named(field.name, field.var)}: {_type(str(field.type), field.nullable)}" for field in fields)


def _named(name: str, var: str) -> str:
    return name if name == var else f"{name} as {var}"


def _type(name: str, nullable: bool) -> str:
    return name if nullable else f"{name} not null"


def _aggregate(aggregate: Aggregate) -> str:
    arg = "*" if aggregate.arg is None else show_expr(aggregate.arg)
    filter_ = f" filter ({show_expr(aggregate.filter)})" if aggregate.filter is not None else ""
    return f"{aggregate.function}({'distinct ' * aggregate.distinct}{arg}){filter_}"


# --- expressions: one line, subqueries by the variables they give


def show_expr(expr: BoundExpr) -> str:
    match expr:
        case Column():
            return expr.var
        case Literal():
            return _literal(expr.value)
        case Cast():
            return f"cast({show_expr(expr.arg)} as {expr.type})"
        case Call():
            return _call(expr)
        case ScalarQuery():
            return f"(subquery {_reference(expr.query)})"
        case ExistsQuery():
            return f"exists (subquery {_reference(expr.query)})"
        case InQuery():
            needles = ", ".join(map(show_expr, expr.needles))
            return f"{needles if len(expr.needles) == 1 else f'({needles})'} in (subquery {_reference(expr.query)})"
        case _:
            assert_never(expr)


def _reference(query: Query) -> str:
    return ", ".join(field.var for field in query.columns) or "of rows"


def _call(expr: Call) -> str:
    args = [show_expr(arg) for arg in expr.args]
    level = _LEVELS.get(expr.op, _TIGHTEST)
    # Operators of one level are read from the left; AND and OR are flat, so what is nested in them is of another level.
    bounds = [level if index == 0 and level > 4 else level + 1 for index in range(len(args))]
    inner = [_within(text, arg, bound) for text, arg, bound in zip(args, expr.args, bounds, strict=True)]
    match expr.op, expr.args:
        case "not", (Call("is_null", (arg,)),):
            return f"{_within(show_expr(arg), arg, _LEVELS['is_null'] + 1)} is not null"
        case "not", _:
            return f"not {inner[0]}"
        case "is_null", _:
            return f"{inner[0]} is null"
        case "neg", _:
            return f"-{inner[0]}"
        case "in", _:
            return f"{inner[0]} in ({', '.join(args[1:])})"
        case "case", _:
            pairs = zip(args[:-1:2], args[1::2], strict=True)
            return f"case {' '.join(f'when {when} then {then}' for when, then in pairs)} else {args[-1]} end"
        case ("like" | "ilike") as op, (_, _, _):
            return f"{inner[0]} {op} {inner[1]} escape {inner[2]}"
        case op, _ if op in _LEVELS and op not in _NOT_INFIX:
            return f" {op} ".join(inner)
        case op, _:
            return f"{op}({', '.join(args)})"


def _within(text: str, expr: BoundExpr, bound: int) -> str:
    """The text, in parentheses if it binds less tightly than `bound`."""
    level = _LEVELS["in"] if isinstance(expr, InQuery) else _TIGHTEST
    if isinstance(expr, Call):
        level = _LEVELS.get(expr.op, _TIGHTEST)
    return f"({text})" if level < bound else text


def _literal(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"x'{value.hex()}'"
        case float():
            return f"{value!r}e0" if "e" not in repr(value) else repr(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return f"timestamp '{value}'"
        case date():
            return f"date '{value}'"
        case _:
            return str(value)


def _subqueries(select: Select) -> Iterator[Query]:
    """The subqueries of a block's own expressions, in the order in which they are met."""
    parts: list[BoundExpr | None] = [output.expr for output in select.outputs]
    parts.append(select.having)
    for aggregate in select.aggregates:
        parts += [aggregate.arg, aggregate.filter]
    parts += [key.expr for key in select.group or ()]
    parts += [select.where, *_conditions(select.source)]
    for part in parts:
        yield from _queries_in(part)


def _conditions(source: Source | None) -> Iterator[BoundExpr | None]:
    if isinstance(source, Join):
        yield source.on
        yield from _conditions(source.left)
        yield from _conditions(source.right)


def _queries_in(expr: BoundExpr | None) -> Iterator[Query]:
    for part in parts_of(expr) if expr is not None else ():
        if isinstance(part, ScalarQuery | ExistsQuery | InQuery):
            yield part.query
