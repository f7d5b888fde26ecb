"""Every variable of a bound query, so that new names can be kept apart from them."""

from __future__ import annotations

from viewmill.sql.bound import Query
from viewmill.sql.walk import Rewrite


class _Variables(Rewrite):
    """Notes each variable, where it is bound and where it is used."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def var(self, var: str) -> str:
        self.found.add(var)
        return var


def variables(query: Query) -> frozenset[str]:
    walk = _Variables()
    walk.query(query)
    return frozenset(walk.found)
