"""The exception family.

Four kinds for SQL, two for data, one base:

    ParseError, BindError   the SQL is wrong
    UnsupportedError        the SQL is fine, we cannot maintain it (yet, or the way asked)
    DataError               a row or a batch is wrong; nothing was applied
    SinkError               a batch was committed, but a view could not be written where it should be
    InternalError           we are wrong; please report it

The message is one factual line, then the SQL with a caret, then a hint that is an action:

    UnsupportedError: cannot maintain LIMIT without ORDER BY in view "top_orders"
      LINE 4: LIMIT 10
              ^^^^^^^^
    hint: add ORDER BY, or apply LIMIT when reading the view
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive) of `sql`."""

    sql: str
    start: int
    end: int

    def caret(self) -> str:
        """The line that holds the span, with carets under it."""
        line_start = self.sql.rfind("\n", 0, self.start) + 1
        line_end = self.sql.find("\n", self.start)
        line = self.sql[line_start : line_end if line_end >= 0 else len(self.sql)]
        number = self.sql.count("\n", 0, self.start) + 1
        prefix = f"  LINE {number}: "
        column = self.start - line_start
        width = max(1, min(self.end, line_start + len(line)) - self.start)
        return f"{prefix}{line}\n{' ' * (len(prefix) + column)}{'^' * width}"


class ViewmillError(Exception):
    """Base of everything this package raises on purpose."""

    def __init__(self, message: str, *, span: Span | None = None, hint: str | None = None) -> None:
        self.message = message
        self.span = span
        self.hint = hint
        parts = [message]
        if span is not None:
            parts.append(span.caret())
        if hint is not None:
            parts.append(f"hint: {hint}")
        super().__init__("\n".join(parts))


class ParseError(ViewmillError):
    """The text is not SQL."""


class BindError(ViewmillError):
    """The SQL names something that is not there, or uses it wrongly."""


class UnsupportedError(ViewmillError):
    """The SQL is fine, but cannot be maintained, or not in the way asked."""


class DataError(ViewmillError):
    """A row or a batch is wrong. Nothing of the batch was applied."""


class SinkError(ViewmillError):
    """A batch was committed, but a view could not be written to a place that it is written to. It is made up for."""


class InternalError(ViewmillError):
    """A bug in this package."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="this is a bug in viewmill; please report it with the SQL that caused it")
