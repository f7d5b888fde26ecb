"""What all nodes share: frozen, slotted, and hashed once.

Expressions are keys of many dictionaries (canonical forms, memoised passes), and trees are deep. The hash of a node is
kept after its first use, so that hashing a tree again costs nothing, and unequal trees are told apart at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


class Node:
    """Base of all nodes; holds the hash."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass_transform(frozen_default=True)
def node(cls: type[T]) -> type[T]:
    """Like `dataclass(frozen=True, slots=True)`, with the hash kept."""
    made = dataclass(frozen=True, slots=True)(cls)
    compute, compare = made.__hash__, made.__eq__

    def __hash__(self: T) -> int:
        try:
            return self._hash  # type: ignore[attr-defined, no-any-return]
        except AttributeError:
            value = hash((made.__name__, compute(self)))
            object.__setattr__(self, "_hash", value)
            return value

    def __eq__(self: T, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not made or hash(self) != hash(other):
            return False
        return compare(self, other)

    made.__hash__ = __hash__  # type: ignore[method-assign, assignment]
    made.__eq__ = __eq__  # type: ignore[method-assign, assignment]
    return made
