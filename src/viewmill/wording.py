"""How messages name things: user text in double quotes, rows shortened, the closest known name as a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from viewmill.catalog import RelationInfo
from viewmill.errors import UnsupportedError

_SHOWN = 120


def quoted(names: str | Iterable[str]) -> str:
    """`"a"`, or `"a", "b"`"""
    return ", ".join(f'"{name}"' for name in ([names] if isinstance(names, str) else names))


def titled(info: RelationInfo) -> str:
    """`table "orders"`"""
    return f"{info.kind} {quoted(info.name)}"


def shown(value: object) -> str:
    """A value or a row, shortened."""
    text = repr(dict(value) if isinstance(value, Mapping) else value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def counted(number: int, noun: str) -> str:
    """`1 row`, `2 rows`"""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """A hint: the known name most like `name`, or `otherwise` with all of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {quoted(close[0])}?" if close else f"{otherwise} {', '.join(names) or 'none'}"


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Expressions are walked recursively; one that nests a few hundred levels deep is refused, not a crash."""
    try:
        yield
    except RecursionError:
        raise UnsupportedError(
            "the statement is nested too deeply",
            hint="shorten the longest chain of operators or parentheses, or split it into views over views",
        ) from None
