"""Long work that stops for a moment now and then, so that others get a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

SOME = 1024
"""Rows between two pauses."""


def nothing() -> None:
    """A pause that nobody needs."""


def paused(items: Iterable[Item], pause: Callable[[], None]) -> Iterator[Item]:
    """The same items, with a pause before some of them."""
    for number, item in enumerate(items):
        if not number % SOME:
            pause()
        yield item
