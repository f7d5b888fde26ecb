"""Reading a statement token by token, for the few words of ours that sqlglot's grammar does not have."""

from __future__ import annotations

from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from viewmill.errors import ParseError, Span
from viewmill.sql.positions import span_of

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)


class Cursor:
    """A place in a list of tokens. `accept` moves on if it can, `expect` must."""

    def __init__(self, sql: str, tokens: tuple[Token, ...]) -> None:
        self.sql = sql
        self.tokens = tokens
        self.index = 0

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    @property
    def rest(self) -> tuple[Token, ...]:
        return self.tokens[self.index :]

    def peek(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs, unquoted."""
        ahead = self.tokens[self.index : self.index + len(words)]
        return len(ahead) == len(words) and all(map(is_word, ahead, words))

    def accept(self, *words: str) -> bool:
        found = self.peek(*words)
        self.index += len(words) * found
        return found

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            self.fail(f"expected {' '.join(words)}")

    def next(self, what: str) -> Token:
        if self.at_end:
            self.fail(f"expected {what}")
        self.index += 1
        return self.tokens[self.index - 1]

    def name(self, what: str) -> tuple[str, Span]:
        """An identifier, in lower case."""
        token = self.next(what)
        plain = token.text.replace("_", "").isalnum() and not token.text[0].isdigit()
        if token.token_type == TokenType.STRING or not (plain or token.token_type == TokenType.IDENTIFIER):
            self.index -= 1
            self.fail(f"expected {what}")
        return token.text.lower(), span_of(self.sql, token)

    def parenthesised(self) -> tuple[Token, ...]:
        """The tokens from `(` to its `)`, both included."""
        start, depth = self.index, 0
        self.expect("(")
        self.index -= 1
        while True:
            token = self.next(")")
            depth += is_word(token, "(") - is_word(token, ")")
            if depth == 0:
                return self.tokens[start : self.index]

    def end(self) -> None:
        if not self.at_end:
            self.fail("expected the end of the statement")

    def fail(self, message: str) -> NoReturn:
        token = self.tokens[min(self.index, len(self.tokens) - 1)]
        found = f'found "{token.text}"' if not self.at_end else "found the end"
        raise ParseError(f"{message}, {found}", span=span_of(self.sql, token))


def is_word(token: Token, word: str) -> bool:
    return token.token_type not in _QUOTED and token.text.upper() == word
