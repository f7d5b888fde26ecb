"""Walking bound queries: the pieces of each node, and rebuilding a tree with some of them changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from viewmill.sql.bound import (
    Aggregate,
    BoundExpr,
    Call,
    Cast,
    Column,
    Derived,
    ExistsQuery,
    Field,
    GroupKey,
    InQuery,
    Join,
    Limited,
    Literal,
    Output,
    Query,
    ScalarQuery,
    Select,
    SetOperation,
    Source,
    Table,
    Values,
)


class Rewrite:
    """Rebuilds a query. Subclasses override what they change; each method here changes nothing but what is below."""

    def var(self, var: str) -> str:
        return var

    def expr(self, expr: BoundExpr) -> BoundExpr:
        match expr:
            case Column(var):
                return replace(expr, var=self.var(var))
            case Literal():
                return expr
            case Call(args=args):
                return replace(expr, args=tuple(map(self.expr, args)))
            case Cast(arg):
                return replace(expr, arg=self.expr(arg))
            case ScalarQuery(query) | ExistsQuery(query):
                return replace(expr, query=self.query(query))
            case InQuery(needles, query):
                return InQuery(tuple(map(self.expr, needles)), self.query(query))
            case _:
                assert_never(expr)

    def maybe(self, expr: BoundExpr | None) -> BoundExpr | None:
        return None if expr is None else self.expr(expr)

    def query(self, query: Query) -> Query:
        match query:
            case Select():
                return self.select(query)
            case SetOperation():
                left, right = self.query(query.left), self.query(query.right)
                return replace(query, left=left, right=right, columns=self.fields(query.columns))
            case Values(rows, columns):
                return Values(tuple(tuple(map(self.expr, row)) for row in rows), self.fields(columns))
            case Limited():
                return replace(query, query=self.query(query.query))
            case _:
                assert_never(query)

    def select(self, select: Select) -> Select:
        return Select(
            source=None if select.source is None else self.source(select.source),
            where=self.maybe(select.where),
            group=None if select.group is None else tuple(map(self.group_key, select.group)),
            aggregates=tuple(map(self.aggregate, select.aggregates)),
            having=self.maybe(select.having),
            outputs=tuple(map(self.output, select.outputs)),
            distinct=select.distinct,
        )

    def source(self, source: Source) -> Source:
        match source:
            case Table():
                return replace(source, fields=self.fields(source.fields))
            case Derived():
                return replace(source, query=self.query(source.query))
            case Join():
                left, right = self.source(source.left), self.source(source.right)
                return replace(source, left=left, right=right, on=self.maybe(source.on))
            case _:
                assert_never(source)

    def fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return tuple(replace(field, var=self.var(field.var)) for field in fields)

    def group_key(self, key: GroupKey) -> GroupKey:
        return GroupKey(self.var(key.var), self.expr(key.expr))

    def aggregate(self, aggregate: Aggregate) -> Aggregate:
        return replace(
            aggregate,
            var=self.var(aggregate.var),
            arg=self.maybe(aggregate.arg),
            filter=self.maybe(aggregate.filter),
        )

    def output(self, output: Output) -> Output:
        return Output(output.name, self.var(output.var), self.expr(output.expr))


class _Used(Rewrite):
    """Notes every variable an expression mentions. (A walk that throws its copy away.)"""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def expr(self, expr: BoundExpr) -> BoundExpr:
        if isinstance(expr, Column):
            self.found.add(expr.var)
        return super().expr(expr)


def used(*parts: BoundExpr | Source | None) -> set[str]:
    """The variables of all columns in the expressions (and in the ON conditions and subqueries of the sources)."""
    walk = _Used()
    for part in parts:
        match part:
            case None:
                pass
            case Table() | Derived() | Join():
                walk.source(part)
            case _:
                walk.expr(part)
    return walk.found


def has_query(expr: BoundExpr) -> bool:
    """Whether there is a subquery in the expression."""
    return any(isinstance(part, ScalarQuery | ExistsQuery | InQuery) for part in parts_of(expr))


def parts_of(expr: BoundExpr) -> Iterator[BoundExpr]:
    """The expression and those below it, not those inside of subqueries."""
    yield expr
    match expr:
        case Call(args=args) | InQuery(needles=args):
            for arg in args:
                yield from parts_of(arg)
        case Cast(arg):
            yield from parts_of(arg)
        case Column() | Literal() | ScalarQuery() | ExistsQuery():
            pass
        case _:
            assert_never(expr)
