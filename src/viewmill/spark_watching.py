"""What a batch on Spark does to views that somebody follows.

Buckets and driver tell which rows of a view differ, so the cost follows the change. Two kinds of views are compared
with what they were: those with LIMIT, of which not all rows are shown, and those that cannot be computed in some state
that a batch only passes through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from viewmill.catalog import ColumnInfo
from viewmill.definition import Definition
from viewmill.engines.spark.changed import Untold, change_of_rows
from viewmill.errors import SinkError, ViewmillError
from viewmill.result import Result
from viewmill.wording import quoted

Apply = Callable[[Mapping[str, Sequence[ColumnInfo]]], dict[str, pa.Table]]
"""Takes the batch, watching these columns of views: the rows that differ, each with its weight; or raises `Untold`."""


class Watching:
    """`read` gives a view as its readers see it now."""

    def __init__(self, read: Callable[[str], Result]) -> None:
        self._read = read
        self._shown: dict[str, tuple[int, Result]] = {}  # views with LIMIT, and the version they were read at

    def forget(self) -> None:
        """Views may be others from now on."""
        self._shown = {}

    def take(self, views: Collection[Definition], version: int, apply: Apply) -> dict[str, pa.Table]:
        """Have the batch that makes this version taken; what it did to each view: visible columns, and weights."""
        before = {view.name: self._before(view.name, version - 1) for view in views if view.presentation.cuts}
        untold: set[str] = set()
        while True:
            try:
                changed = apply({view.name: view.kept.columns for view in views if view.name not in untold})
                break
            except Untold as error:
                untold.add(error.view)
                if error.view not in before:
                    before[error.view] = self._read(error.view)
        return {view.name: self._change(view, changed.get(view.name), before, version) for view in views}

    def _before(self, view: str, version: int) -> Result:
        seen, shown = self._shown.get(view, (-1, None))
        return shown if shown is not None and seen == version else self._read(view)

    def _change(
        self, view: Definition, change: pa.Table | None, before: Mapping[str, Result], version: int
    ) -> pa.Table:
        if view.name not in before:
            assert change is not None
            return change
        was = before[view.name]
        now = was if change is not None and not change.num_rows else self._after(view.name, version)
        if view.presentation.cuts:
            self._shown[view.name] = version, now
        net = Counter(now)
        net.subtract(Counter(was))
        return change_of_rows(dict(net), view.columns)

    def _after(self, view: str, version: int) -> Result:
        try:
            return self._read(view)
        except ViewmillError as error:
            raise SinkError(
                f"the batch was committed as version {version}, "
                f"but what it did to view {quoted(view)} cannot be told: {error.message}",
                hint="do not apply the batch again: change the rows that are wrong with another one",
            ) from error
