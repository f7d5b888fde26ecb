"""SQL text -> statements.

The text is tokenised once. Our own words (STREAM, WITH (maintain = ...), SERVER stream) are read from the tokens
(`ddl.py`); what lies between is sqlglot's (`grammar.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot.tokenizer_core import Token, TokenType

from viewmill.sql import ddl, dml
from viewmill.sql.cursor import Cursor
from viewmill.sql.grammar import DEFAULT_DIALECT, tokenize
from viewmill.sql.statements import Statement


def parse_statements(sql: str, dialect: str = DEFAULT_DIALECT) -> list[Statement]:
    """Every statement of a script, in order; `;` separates them."""
    return [statement for statement, _ in parse_script(sql, dialect)]


def parse_script(sql: str, dialect: str = DEFAULT_DIALECT) -> list[tuple[Statement, str]]:
    """The same, each with the words it was written in."""
    return [
        (_statement(Cursor(sql, tokens), dialect), sql[tokens[0].start : tokens[-1].end + 1])
        for tokens in _split(_tokens(sql, dialect))
    ]


def _statement(cursor: Cursor, dialect: str) -> Statement:
    if cursor.accept("CREATE"):
        return ddl.create(cursor, dialect)
    if cursor.accept("DROP"):
        return ddl.drop(cursor)
    return dml.statement(cursor, dialect)


def _tokens(sql: str, dialect: str, start: int = 0) -> tuple[Token, ...]:
    """The tokens from `start` on. What follows EXPLAIN is one string to sqlglot, so it is read again by itself."""
    blank = re.sub(r"[^\n]", " ", sql[:start])
    tokens = tokenize(blank + sql[start:], dialect)
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.COMMAND and token.text.upper() == "EXPLAIN":
            return (*tokens[: index + 1], *_tokens(sql, dialect, token.end + 1))
    return tokens


def _split(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    start = 0
    for index, token in enumerate((*tokens, None)):
        if token is None or token.token_type == TokenType.SEMICOLON:
            if index > start:
                yield tokens[start:index]
            start = index + 1
