"""Where a piece of a syntax tree stands in the user's text, for carets.

sqlglot marks identifiers, literals and function names with their place. A node stands where its marked parts stand,
stretched over the parentheses it opens and, on request, back to the keyword it starts with.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.errors import BindError, Span, UnsupportedError

_CALLS = (exp.Func, exp.Any, exp.All)
_NO_NAMES = frozenset("SELECT WHERE ON HAVING BY AND OR NOT IN WHEN THEN ELSE CASE".split())


@dataclass(frozen=True, slots=True)
class SqlText:
    """A statement's text: the whole script, and the tokens of this statement."""

    sql: str
    tokens: tuple[Token, ...]

    def span(self, node: exp.Expr, keyword: str | None = None) -> Span | None:
        """The place of `node`, from the last `keyword` before it if one is given."""
        marks = [part.meta for part in node.walk() if "start" in part.meta]
        if not marks:
            return self.word(keyword or node.key) or self.word(node.name)
        start, end = min(mark["start"] for mark in marks), max(mark["end"] for mark in marks)
        name = self._name(node, start)
        start = name.start if name is not None else start
        if keyword is not None:
            before = [token for token in self.tokens if token.start < start and _starts_with(token, keyword)]
            start = before[-1].start if before else start
        return Span(self.sql, start, self._close(start, end) + 1)

    def said(self, node: exp.Expr) -> str:
        """The user's own name of a function, in lower case."""
        if "start" in node.meta:
            return self.sql[node.meta["start"] : node.meta["end"] + 1].lower()
        marks = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        name = self._name(node, min(marks)) if marks else None
        return name.text.lower() if name is not None else ""

    def _name(self, node: exp.Expr, start: int) -> Token | None:
        """The name of a function that sqlglot did not mark: what stands before the parenthesis before its arguments."""
        if "start" in node.meta or not isinstance(node, _CALLS) or isinstance(node, exp.Binary):
            return None
        before = [token for token in self.tokens if token.start < start][-2:]
        if len(before) < 2 or before[1].token_type != TokenType.L_PAREN:
            return None
        return before[0] if before[0].text.isidentifier() and before[0].text.upper() not in _NO_NAMES else None

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


def _starts_with(token: Token, keyword: str) -> bool:
    """Some tokens are of two words, as GROUP BY is."""
    return token.text.upper().split()[:1] == [keyword.upper()]


def span_of(sql: str, first: Token, last: Token | None = None) -> Span:
    return Span(sql, first.start, (last or first).end + 1)
