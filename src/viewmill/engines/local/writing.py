"""Lines of source, in the making: how deep they are, which variables are bound, and which are loaded when needed.

A column of the batch, or of a record, is loaded in front of the first line that mentions it, so that a row which fails
a test has nothing loaded in vain. What a line is inside of decides how long that holds: a variable loaded in an `if` is
loaded again after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from viewmill.engines.local.lowered import Then, Weights, Word
from viewmill.engines.local.scalars import ScalarLowering, Tables
from viewmill.engines.local.sources import Sources
from viewmill.types import Type


@dataclass(slots=True)
class _Names:
    """Source names of pools, kept apart and readable."""

    taken: dict[str, str] = field(default_factory=dict)

    def of(self, pool: str) -> str:
        if pool not in self.taken:
            plain = re.sub(r"\W", "_", pool, flags=re.ASCII)
            name, count = f"p_{plain}", 1
            while name in self.taken.values():
                count += 1
                name = f"p_{plain}_{count}"
            self.taken[pool] = name
        return self.taken[pool]


class Writing:
    """A function under way: what all of it needs, and the lines of the present step."""

    def __init__(self, sources: Sources, columns: tuple[str, ...]) -> None:
        self._sources = sources
        self._columns = columns
        self._tables = Tables()
        self._names = _Names()
        self._words: dict[str, Word] = {}
        self._slices: dict[tuple[str, tuple[int, ...]], None] = {}
        self._written: dict[str, None] = {}
        self._used: dict[str, None] = {}
        self._column_of: dict[str, str] = {}
        self._body: list[str] = []
        self._count = 0
        self._begin({}, set())

    def _begin(self, types: dict[str, Type], not_null: set[str]) -> None:
        """Start the lines of a step, whose variables have these types."""
        self._types = types
        self._scalars = ScalarLowering(types, self._tables, not_null)
        self._lines: list[str] = []
        self._depth = 1
        self._bound: list[str] = []
        self._late: dict[str, str] = {}
        self._bases: dict[str, str] = {}

    def _line(self, text: str) -> None:
        """A line of source, after those that load what it needs and was not needed before."""
        for name in re.findall(r"\bv_\w+", text):
            if name in self._late:
                source = self._late.pop(name)
                self._need_column(source)
                self._line(f"{name} = {source}")
        self._lines.append("    " * self._depth + text)

    def _need_column(self, source: str) -> None:
        """A column of the batch is there for functions that read it."""
        column = source[len("peek(") : source.index(",")]
        if column in self._column_of:
            place = self._columns.index(self._column_of[column])
            self._used[self._columns[place]] = None
            self._bases[column] = f"peek(batch, {2 * place})"
            self._bases["s" + column[1:]] = f"peek(batch, {2 * place + 1})"

    @contextmanager
    def _inside(self, opening: str) -> Iterator[None]:
        self._line(opening)
        self._depth += 1
        start, late, bound = len(self._lines), dict(self._late), list(self._bound)
        yield
        if len(self._lines) == start:
            self._lines.append("    " * self._depth + "pass")
        self._depth -= 1
        self._late, self._bound = late, bound

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    @contextmanager
    def _binding(self, *names: str) -> Iterator[None]:
        before, late = list(self._bound), dict(self._late)
        self._bound += names
        yield
        self._bound, self._late = before, late

    def _assign(self, var: str, code: str, weight: Weights, then: Then) -> None:
        name = self._scalars.name(var)
        self._late.pop(name, None)
        self._line(f"{name} = {code}")
        with self._binding(var):
            then(weight)

    def _pool(self, pool: str) -> str:
        name = self._names.of(pool)
        self._words[name] = Word("pool", pool)
        return name

    def _base(self, pool: str, stem: str, word: str) -> str:
        """The address of an array of a pool, in a variable of its own."""
        p = self._pool(pool)
        name = f"{stem}_{p}"
        self._bases[name] = f"peek({p}, {word})"
        return name


def key_tuple(codes: list[str]) -> str:
    return f"({', '.join(codes)},)" if codes else "()"


def zero(type_: Type) -> str:
    return "0.0" if type_.is_floating else "int64(0)"


def plus(total: str, more: str, *, floating: bool) -> str:
    return f"{total} + {more}" if floating else f"add({total}, {more}, flags)"
