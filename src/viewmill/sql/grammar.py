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
from sqlglot.tokens import Token, TokenType

from viewmill.errors import BindError, ParseError, Span, UnsupportedError
from viewmill.sql.positions import span_of
from viewmill.sql.statements import ParsedQuery

DEFAULT_DIALECT = "spark"


def tokenize(sql: str, dialect: str = DEFAULT_DIALECT) -> tuple[Token, ...]:
    try:
        return tuple(_dialect(dialect).tokenize(sql))
    except TokenError as error:
        start = getattr(error, "start", None)
        span = Span(sql, start, getattr(error, "end", start + 1)) if isinstance(start, int) else None
        raise ParseError(f"cannot read the text: {_first_line(error)}", span=span) from None


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
            "expected a query", span=span_of(parsed.sql, parsed.tokens[0]), hint="a query starts with SELECT, WITH or VALUES"
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
    if "number of provided arguments" in description:
        return BindError("too many arguments for the function", span=span)
    missing = re.search(r"missing for <class '.*\.(\w+)'>", description)
    if missing:
        part = _class_words(missing.group(1))
        function = getattr(exp, missing.group(1), None)
        if isinstance(function, type) and issubclass(function, exp.Func) and not issubclass(function, exp.Connector | exp.Cast):
            return BindError(f"missing argument of the function {part}", span=span)
        return ParseError(f"incomplete {part}", span=span)
    if description.startswith("Invalid expression"):
        description = f'unexpected "{found.text}"'
    return ParseError(f"{description[:1].lower()}{description[1:]}", span=span)


def _class_words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).upper()
