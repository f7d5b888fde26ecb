"""What stands after GROUP BY: outputs and HAVING in terms of the groups.

    SELECT a + 1, sum(b) FROM r GROUP BY a + 1      the output `a + 1` is the group key, not a sum of r's a

Expressions are bound as if there were no groups, then every part that equals a group key is replaced by the key's
variable. A column of FROM that remains is neither grouped nor aggregated. A subquery has variables of its own each time
it is written, so expressions are compared without regard to those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from viewmill.sql.bound import BoundExpr, Column, GroupKey, Literal
from viewmill.sql.naming import inner_variables
from viewmill.sql.walk import Rewrite, has_query


class _Anonymous(Rewrite):
    """Calls the variables that subqueries bind by number."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def var(self, var: str) -> str:
        return self._names.get(var, var)


def form(expr: BoundExpr) -> BoundExpr:
    """Equal for expressions that differ in nothing but the variables of their subqueries."""
    if not has_query(expr):
        return expr
    names = {var: f"#{number}" for number, var in enumerate(dict.fromkeys(inner_variables(expr)))}
    return _Anonymous(names).expr(expr)


class Regroup(Rewrite):
    """`ungrouped` is called with the variable of a column that is neither grouped nor aggregated, and raises."""

    def __init__(
        self, keys: tuple[GroupKey, ...], columns: frozenset[str], ungrouped: Callable[[str], NoReturn]
    ) -> None:
        self._keys = {form(key.expr): Column(key.var, key.expr.type, key.expr.nullable) for key in keys}
        self._columns = columns
        self._ungrouped = ungrouped

    def expr(self, expr: BoundExpr) -> BoundExpr:
        key = self._keys.get(form(expr))
        if key is not None and not isinstance(expr, Literal):
            return key
        if isinstance(expr, Column) and expr.var in self._columns:
            self._ungrouped(expr.var)
        return super().expr(expr)
