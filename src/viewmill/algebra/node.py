"""What all nodes share: frozen, slotted, and one object for each value.

Expressions are keys of many dictionaries (canonical forms, memoised passes), and trees are deep. Building a node that
exists already gives the one that exists, so equal trees are the same object: comparing and hashing them looks at
their address, however deep they are. A node that nobody holds any more is forgotten.

    Var("a") is Var("a")
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar, dataclass_transform
from weakref import WeakValueDictionary

T = TypeVar("T")

_building = Lock()


class Interned(type):
    """The class of node classes: calling one looks for the node before making it."""

    _known: WeakValueDictionary[Hashable, Any]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._known = WeakValueDictionary()

    def __call__(cls, *fields: Any, **named: Any) -> Any:
        if named:
            made = super().__call__(*fields, **named)
            return cls(*(getattr(made, name) for name in cls.__match_args__))  # type: ignore[attr-defined]
        key = cls._identity(*fields)  # type: ignore[attr-defined]
        found = cls._known.get(key)
        if found is not None:
            return found
        with _building:  # two threads must not make two of one node
            found = cls._known.get(key)
            if found is None:
                found = cls._known[key] = super().__call__(*fields)
        return found


class Node(metaclass=Interned):
    """Base of all nodes."""

    __slots__ = ("__weakref__",)

    @staticmethod
    def _identity(*fields: Hashable) -> Hashable:
        """What makes two nodes of one class the same."""
        return fields

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """Copies and unpickled nodes are looked up as well."""
        return type(self), tuple(getattr(self, name) for name in type(self).__match_args__)  # type: ignore[attr-defined]


@dataclass_transform(frozen_default=True)
def node(cls: type[T]) -> type[T]:
    """Like `dataclass(frozen=True, slots=True)`, but equal means identical."""
    return dataclass(frozen=True, slots=True, eq=False)(cls)
