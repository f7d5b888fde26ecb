"""Compare what a view holds with its query computed afresh.

Exact, but for floating columns: a sum kept up to date adds in another order than one computed afresh, and doubles
round on the way. There, rows are paired that agree to nine digits in floating columns and exactly in all others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from viewmill.intake import Row
from viewmill.wording import shown

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Verification:
    """True if the view is right. `missing` rows should be there, `extra` ones should not; with how often."""

    view: str
    rows: int
    missing: dict[Row, int]
    extra: dict[Row, int]

    def __bool__(self) -> bool:
        return not self.missing and not self.extra

    def __str__(self) -> str:
        if self:
            return f"view {self.view} is right: {self.rows} rows"
        lines = [f"view {self.view} differs from its query"]
        lines += [f"  missing {count} x {shown(row)}" for row, count in self.missing.items()]
        lines += [f"  extra   {count} x {shown(row)}" for row, count in self.extra.items()]
        return "\n".join(lines)


def compare(view: str, kept: Mapping[Row, int], recomputed: Mapping[Row, int]) -> Verification:
    missing = _less(recomputed, kept)
    extra = _less(kept, recomputed)
    for row in list(missing):
        for other in list(extra):
            if row in missing and _close(row, other):
                both = min(missing[row], extra[other])
                _take(missing, row, both)
                _take(extra, other, both)
    return Verification(view, sum(kept.values()), missing, extra)


def _less(left: Mapping[Row, int], right: Mapping[Row, int]) -> dict[Row, int]:
    """What `left` has more of than `right`."""
    return {row: more for row, weight in left.items() if (more := weight - right.get(row, 0)) > 0} | {
        row: -weight for row, weight in right.items() if weight < 0 and row not in left
    }


def _take(rows: dict[Row, int], row: Row, count: int) -> None:
    rows[row] -= count
    if not rows[row]:
        del rows[row]


def _close(left: Row, right: Row) -> bool:
    return all(a == b or _close_floats(a, b) for a, b in zip(left, right, strict=True))


def _close_floats(a: object, b: object) -> bool:
    if not (isinstance(a, float) and isinstance(b, float)):
        return False
    return math.isclose(a, b, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) or (math.isnan(a) and math.isnan(b))
