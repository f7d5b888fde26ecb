"""sqlglot's tokenizer and parser, with errors in our shape.

Text is handed to the parser as tokens of the whole script, never as cut text, so that every place in every error is a
place in what the user wrote.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.errors import BindError, ParseError, Span, UnsupportedError
from viewmill.sql.positions import span_of
from viewmill.sql.statements import ParsedQuery

DEFAULT_DIALECT = "spark"


def tokenize(sql: str, dialect: str = DEFAULT_DIALECT) -> tuple[Token, ...]:
    try:
        return tuple(_dialect(dialect).tokenize(sql))
    except TokenError as error:
        raise _unreadable(error, sql) from None


def _unreadable(error: TokenError, sql: str) -> ParseError:
    """The tokenizer's reason, if it says one, is which quote it missed and where that was opened."""
    missing = re.search(r"Missing (\S+) from \d+:(\d+)", str(error.__cause__))
    if missing:
        start = int(missing.group(2))
        return ParseError(f"{missing.group(1)} is not closed", span=Span(sql, start, start + 1))
    last = max(len(sql.rstrip()) - 1, 0)
    return ParseError("the text ends in the middle of something", span=Span(sql, last, last + 1))


def parse_tokens(sql: str, tokens: tuple[Token, ...], dialect: str = DEFAULT_DIALECT) -> ParsedQuery:
    """One statement of sqlglot's grammar. Identifiers become lower case: Spark SQL does not tell cases apart."""
    if not tokens:
        raise ParseError("expected a query, found the end", hint="write SELECT ...")
    try:
        with _quiet():
            trees = _dialect(dialect).parser().parse(list(tokens), sql)
    except SqlglotParseError as error:
        raise _explained(error, sql, tokens) from None
    except (IndexError, AttributeError):
        # sqlglot's parser stumbles over some malformed inputs instead of reporting them.
        raise ParseError("cannot parse the statement", span=span_of(sql, tokens[0], tokens[-1])) from None
    tree = trees[0] if trees else None
    if tree is None or len(trees) != 1:
        raise ParseError("expected one statement", span=span_of(sql, tokens[0]))
    return ParsedQuery(sql, tokens, normalize_identifiers(tree, dialect=DEFAULT_DIALECT))


def parse_query(sql: str, dialect: str = DEFAULT_DIALECT) -> ParsedQuery:
    """One query, and nothing else."""
    tokens = tokenize(sql, dialect)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    return checked_query(parse_tokens(sql, tokens, dialect))


def checked_query(parsed: ParsedQuery) -> ParsedQuery:
    if not isinstance(parsed.tree, exp.Query | exp.Values):
        raise ParseError(
            "expected a query",
            span=span_of(parsed.sql, parsed.tokens[0]),
            hint="a query starts with SELECT, WITH or VALUES",
        )
    return parsed


def _dialect(name: str) -> Dialect:
    try:
        return Dialect.get_or_raise(name)
    except ValueError:
        raise UnsupportedError(f'unknown SQL dialect "{name}"', hint='use "spark", "duckdb", "postgres", ...') from None


@contextmanager
def _quiet() -> Iterator[None]:
    """sqlglot warns in its log when it gives up on a statement; we raise instead."""
    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _first_line(error: Exception) -> str:
    text = re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()[0]
    return text[:1].lower() + text[1:]


def _explained(error: SqlglotParseError, sql: str, tokens: tuple[Token, ...]) -> ParseError | BindError:
    """sqlglot's complaint in our shape. Its wording names its own classes, so the common ones are said again."""
    detail = error.errors[0] if error.errors else {}
    line, column = detail.get("line"), detail.get("col")
    found = next((token for token in tokens if (token.line, token.col) == (line, column)), tokens[-1])
    span = span_of(sql, found)
    description = str(detail.get("description") or _first_line(error)).rstrip(".")
    missing = re.search(r"missing for <class '.*\.(\w+)'>", description)
    if "number of provided arguments" in description or (missing and _is_function(missing.group(1))):
        name = _called(tokens, found)
        return BindError(f"wrong number of arguments for {name.text.lower()}", span=span_of(sql, name, found))
    if missing:
        return ParseError(f"incomplete {_class_words(missing.group(1))}", span=span)
    if description.startswith("Invalid expression"):
        description = f'unexpected "{found.text}"'
    description = re.sub(r" but got <Token.*", ", found the end" if found is tokens[-1] else "", description)
    return ParseError(f"{description[:1].lower()}{description[1:]}", span=span)


def _is_function(name: str) -> bool:
    kind = getattr(exp, name, None)
    return isinstance(kind, type) and issubclass(kind, exp.Func) and not issubclass(kind, exp.Connector | exp.Cast)


def _called(tokens: tuple[Token, ...], end: Token) -> Token:
    """The name before the parenthesis that `end` closes, or stands in."""
    depth = 0
    index = tokens.index(end)
    for place in range(index - (end.token_type == TokenType.R_PAREN), 0, -1):
        kind = tokens[place].token_type
        depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
        if depth < 0:
            return tokens[place - 1]
    return end


def _class_words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).upper()
