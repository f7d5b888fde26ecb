"""What a column name can mean at some place of a query.

Names are looked up here and not by sqlglot's `qualify`, because the binder has to find the variable of every column
anyway, and because Spark differs from what `qualify` does: columns merged by USING come first in `*`, NATURAL joins
exist, an alias in HAVING gives way to a grouped column, and an error must show where in the text the name stands.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewmill.catalog import Catalog
from viewmill.errors import BindError
from viewmill.sql.bound import BoundExpr, Call, Column, Query
from viewmill.sql.positions import SqlText


@dataclass(frozen=True, slots=True)
class Visible:
    """A column in scope. The sides of a column merged by USING are hidden: only `table.name` means them."""

    table: str | None
    name: str
    expr: BoundExpr
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns of a FROM clause, and the scope around the query, for correlated names."""

    columns: tuple[Visible, ...]
    tables: tuple[str, ...]
    outer: Scope | None = None

    def find(self, name: str, table: str | None) -> list[Visible]:
        if table is None:
            return [column for column in self.columns if column.name == name and not column.hidden]
        return [column for column in self.columns if column.name == name and column.table == table]

    @property
    def variables(self) -> frozenset[str]:
        """The variables of this FROM clause, those of outer queries not among them."""
        found = [column.expr.var for column in self.columns if isinstance(column.expr, Column)]
        return frozenset(found)


def padded(columns: tuple[Visible, ...]) -> tuple[Visible, ...]:
    """The columns of the side of an outer join that may be filled with NULLs."""
    return tuple(
        replace(column, expr=replace(column.expr, nullable=True)) if isinstance(column.expr, Column | Call) else column
        for column in columns
    )


@dataclass(frozen=True, slots=True)
class Cte:
    """A named query, bound anew wherever it is used, in the surroundings in which it was defined."""

    query: exp.Expr
    columns: tuple[exp.Identifier, ...]
    env: Env


@dataclass(frozen=True, slots=True)
class Env:
    """What a query sees of its surroundings: the scope around it and the CTEs above it."""

    outer: Scope | None = None
    ctes: Mapping[str, Cte] = field(default_factory=dict)

    def within(self, scope: Scope) -> Env:
        return Env(scope, self.ctes)


@dataclass(slots=True)
class Context:
    """What stays the same while one statement is bound. `bind_query` closes the circle of expressions and queries."""

    catalog: Catalog
    text: SqlText
    view_name: str | None
    bind_query: Callable[[Context, exp.Expr, Env], Query]
    resolved: dict[int, str] = field(default_factory=dict)
    _count: int = 0

    def var(self, base: str) -> str:
        """A new variable; `naming.py` makes it readable in the end."""
        self._count += 1
        return f"{base}#{self._count}"

    @property
    def subject(self) -> str:
        """Who asks, for messages: `in view "v"` or nothing."""
        return f' in view "{self.view_name}"' if self.view_name else ""


def resolve(context: Context, scope: Scope, node: exp.Column) -> BoundExpr:
    """The column a name means: in the nearest scope that has it, and there only one."""
    found = lookup(context, scope, node)
    if found is None:
        raise _unknown(context, scope, node)
    return found


def lookup(context: Context, scope: Scope, node: exp.Column) -> BoundExpr | None:
    if node.args.get("db"):
        raise context.text.unsupported(node, "names of databases and fields of structs are not understood")
    name, table = node.name, node.table or None
    level: Scope | None = scope
    while level is not None:
        found = level.find(name, table)
        if len(found) > 1:
            tables = ", ".join(f"{column.table}.{name}" for column in found if column.table)
            hint = f"say which one you mean: {tables}" if table is None else "rename one of the columns"
            raise context.text.bind_error(node, f'column "{name}" is ambiguous', hint)
        if found:
            expr = found[0].expr
            if isinstance(expr, Column):
                context.resolved[id(node)] = expr.var
            return expr
        level = level.outer
    return None


def _unknown(context: Context, scope: Scope, node: exp.Column) -> BindError:
    name, table = node.name, node.table
    levels = []
    level: Scope | None = scope
    while level is not None:
        levels.append(level)
        level = level.outer
    tables = [known for level in levels for known in level.tables]
    if table and table not in tables:
        hint = did_you_mean(table, tables) or (f"tables here: {', '.join(tables)}" if tables else None)
        return context.text.bind_error(node, f'unknown table "{table}" of column "{table}.{name}"', hint)
    columns = [column.name for level in levels for column in level.columns if not table or column.table == table]
    hint = did_you_mean(name, columns) or (f"columns here: {_listed(columns)}" if columns else None)
    where = f' in table "{table}"' if table else ""
    return context.text.bind_error(node, f'unknown column "{name}"{where}', hint)


def did_you_mean(name: str, known: list[str]) -> str | None:
    close = difflib.get_close_matches(name, known, n=1)
    return f'did you mean "{close[0]}"?' if close else None


def _listed(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:12]) + (", ..." if len(unique) > 12 else "")
