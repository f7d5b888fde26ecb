"""Who follows which view, and what a batch did to its output.

A subscriber is called once for every committed batch that changes what readers of the view see: hidden columns are
left out, and of a view with LIMIT only the rows within it count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from viewmill.algebra.functions import Number
from viewmill.intake import Row
from viewmill.output import visible


@dataclass(frozen=True, slots=True)
class Changes:
    """What one batch did to a view's output: each row as often as it was added or removed."""

    version: int
    added: tuple[Row, ...]
    removed: tuple[Row, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


Subscriber: TypeAlias = Callable[[Changes], object]


class Subscriptions:
    def __init__(self) -> None:
        self._subscribers: dict[str, list[Subscriber]] = {}

    @property
    def followed(self) -> tuple[str, ...]:
        """The views that somebody follows."""
        return tuple(self._subscribers)

    def add(self, view: str, subscriber: Subscriber) -> Callable[[], None]:
        """Returns what ends the subscription; to end it twice is harmless."""
        entry = [subscriber]  # two subscriptions of one callable are two
        self._subscribers.setdefault(view, []).append(subscriber)

        def end() -> None:
            if entry and subscriber in self._subscribers.get(view, []):
                self._subscribers[view].remove(subscriber)
                if not self._subscribers[view]:
                    del self._subscribers[view]
            entry.clear()

        return end

    def forget(self, view: str) -> None:
        self._subscribers.pop(view, None)

    def notify(self, changes: Mapping[str, Changes], failed: Sequence[Exception] = ()) -> None:
        """Call everyone whose view changed. The batch stands whatever they do; what they raise comes out at the end.

        So does what has `failed` before, for others who wanted to know of the batch.
        """
        failures = list(failed)
        for view, change in changes.items():
            for subscriber in tuple(self._subscribers.get(view, ())) if change else ():
                try:
                    subscriber(change)
                except Exception as failure:
                    failures.append(failure)
        if len(failed) == len(failures) == 1:
            raise failed[0]
        if failures:
            raise ExceptionGroup("the batch was committed, but subscribers failed", failures)


def changes_of(version: int, change: Mapping[Row, Number], hidden: int) -> Changes:
    """From a view's change, hidden columns included."""
    net: Counter[Row] = Counter()
    for row, weight in change.items():
        net[visible(row, hidden)] += int(weight)
    return _listed(version, net)


def changes_in(version: int, change: pa.Table) -> Changes:
    """From the rows of a table whose last column says how often each was added, or, if it is negative, removed."""
    *columns, weights = (column.to_pylist() for column in change.columns)
    return _listed(version, Counter(dict(zip(zip(*columns, strict=True), weights, strict=True))))


def changes_between(version: int, before: Iterable[Row], after: Iterable[Row]) -> Changes:
    """From what readers saw and what they see now."""
    net = Counter(after)
    net.subtract(Counter(before))
    return _listed(version, net)


def _listed(version: int, net: Counter[Row]) -> Changes:
    added = tuple(row for row, weight in net.items() for _ in range(weight))
    removed = tuple(row for row, weight in net.items() for _ in range(-weight))
    return Changes(version, added, removed)
