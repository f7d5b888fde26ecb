"""What stands after GROUP BY: outputs and HAVING in terms of the groups.

    SELECT a + 1, sum(b) FROM r GROUP BY a + 1      the output `a + 1` is the group key, not a sum of r's a

Expressions are bound as if there were no groups, then every part that equals a group key is replaced by the key's
variable. A column of FROM that remains is neither grouped nor aggregated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from viewmill.sql.bound import BoundExpr, Column, GroupKey, Literal
from viewmill.sql.walk import Rewrite


class Regroup(Rewrite):
    """`ungrouped` is called with the variable of a column that is neither grouped nor aggregated, and raises."""

    def __init__(
        self, keys: tuple[GroupKey, ...], columns: frozenset[str], ungrouped: Callable[[str], NoReturn]
    ) -> None:
        self._keys = {key.expr: Column(key.var, key.expr.type, key.expr.nullable) for key in keys}
        self._columns = columns
        self._ungrouped = ungrouped

    def expr(self, expr: BoundExpr) -> BoundExpr:
        key = self._keys.get(expr)
        if key is not None and not isinstance(expr, Literal):
            return key
        if isinstance(expr, Column) and expr.var in self._columns:
            self._ungrouped(expr.var)
        return super().expr(expr)
