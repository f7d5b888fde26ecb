"""Bound query -> algebra: subqueries, outer joins, NULL logic and aggregates become products, sums and lifts."""

from viewmill.translate.queries import Translated, translate

__all__ = ["Translated", "translate"]
