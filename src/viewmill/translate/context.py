"""What all parts of the translation share.

Queries hold conditions and conditions hold queries, so the parts need each other. The circle is closed here,
by handing the way from a query to its rows down as a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viewmill.algebra.schema import Names
from viewmill.sql.bound import Query
from viewmill.translate.rows import Rows


@dataclass(frozen=True, slots=True)
class Context:
    """The names given so far, and `translate_rows`, which translates a query that stands inside another."""

    names: Names
    translate_rows: Callable[[Context, Query], Rows]

    def rows(self, query: Query) -> Rows:
        return self.translate_rows(self, query)
