"""Where a piece of a syntax tree stands in the user's text, for carets.

sqlglot marks identifiers, literals and function names with their place. A node stands where its marked parts stand,
stretched over the parentheses it opens and, on request, back to the keyword it starts with.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from viewmill.errors import BindError, Span, UnsupportedError


@dataclass(frozen=True, slots=True)
class SqlText:
    """A statement's text: the whole script, and the tokens of this statement."""

    sql: str
    tokens: tuple[Token, ...]

    def span(self, node: exp.Expr, keyword: str | None = None) -> Span | None:
        """The place of `node`, from the last `keyword` before it if one is given."""
        marks = [part.meta for part in node.walk() if "start" in part.meta]
        if not marks:
            return self.word(keyword or node.key.replace("_", ""))
        start, end = min(mark["start"] for mark in marks), max(mark["end"] for mark in marks)
        if keyword is not None:
            words = keyword.upper().split()
            before = [token for token in self.tokens if token.start < start and token.text.upper() == words[0]]
            start = before[-1].start if before else start
        return Span(self.sql, start, self._close(start, end) + 1)

    def word(self, word: str) -> Span | None:
        """The first token spelled `word`, underscores and case aside."""
        for token in self.tokens:
            if token.text.replace("_", "").upper() == word.replace("_", "").upper():
                return span_of(self.sql, token)
        return None

    def _close(self, start: int, end: int) -> int:
        """The end of the text from `start` to `end`, stretched until its parentheses are closed."""
        depth = 0
        for token in self.tokens:
            if token.start < start:
                continue
            if token.start > end and depth <= 0:
                break
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if token.start > end and depth == 0:
                return token.end
        return end

    def bind_error(self, node: exp.Expr | None, message: str, hint: str | None = None) -> BindError:
        return BindError(message, span=self.span(node) if node is not None else None, hint=hint)

    def unsupported(
        self, node: exp.Expr, message: str, hint: str | None = None, *, keyword: str | None = None
    ) -> UnsupportedError:
        return UnsupportedError(message, span=self.span(node, keyword), hint=hint)


def span_of(sql: str, first: Token, last: Token | None = None) -> Span:
    return Span(sql, first.start, (last or first).end + 1)
