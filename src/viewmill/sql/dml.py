"""INSERT, DELETE, UPDATE, EXPLAIN and plain queries."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from viewmill.errors import ParseError, Span, UnsupportedError
from viewmill.sql.cursor import Cursor
from viewmill.sql.grammar import checked_query, parse_tokens
from viewmill.sql.positions import SqlText, span_of
from viewmill.sql.statements import Delete, Explain, Insert, ParsedQuery, Select, Update

_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "(")
_STAGES = ("SQL", "BOUND", "ALGEBRA", "DELTA", "PROGRAM", "PLACED", "BLOCKS", "CODE")


def statement(cursor: Cursor, dialect: str) -> Insert | Delete | Update | Select | Explain:
    if any(cursor.peek(word) for word in _QUERY_WORDS):
        return Select(checked_query(parse_tokens(cursor.sql, cursor.tokens, dialect)))
    if cursor.accept("EXPLAIN"):
        return _explain(cursor, dialect)
    if not any(cursor.peek(word) for word in ("INSERT", "DELETE", "UPDATE")):
        first = cursor.next("a statement")
        if first.token_type in (TokenType.VAR, TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER):
            raise ParseError(f'"{first.text}" does not start a statement', span=span_of(cursor.sql, first))
        raise UnsupportedError(
            f"cannot run {first.text.upper()}",
            span=span_of(cursor.sql, first),
            hint="use CREATE, DROP, INSERT, UPDATE, DELETE, EXPLAIN or a query",
        )
    parsed = parse_tokens(cursor.sql, cursor.tokens, dialect)
    match parsed.tree:
        case exp.Insert():
            return _insert(parsed)
        case exp.Delete():
            return Delete(*_target(parsed.tree.this, parsed, ("using", "returning", "order", "limit", "tables")))
        case exp.Update():
            return Update(*_target(parsed.tree.this, parsed, ("from_", "returning", "order", "limit")))
        case _:
            raise ParseError("cannot parse the statement", span=span_of(cursor.sql, cursor.tokens[0]))


def _target(target: exp.Expr, parsed: ParsedQuery, refused: tuple[str, ...]) -> tuple[str, ParsedQuery, Span]:
    text = SqlText(parsed.sql, parsed.tokens)
    for part in refused:
        clause = parsed.tree.args.get(part)
        if clause:
            node = clause[0] if isinstance(clause, list) else clause
            word = part.strip("_").upper()
            raise UnsupportedError(
                f"cannot run {word} here", span=text.span(node, word), hint="use a subquery in WHERE"
            )
    return table_name(target, text), parsed, text.span(target) or span_of(parsed.sql, parsed.tokens[0])


def _insert(parsed: ParsedQuery) -> Insert:
    tree, text = parsed.tree, SqlText(parsed.sql, parsed.tokens)
    if tree.args.get("overwrite") or tree.args.get("partition") or tree.args.get("by_name"):
        raise UnsupportedError(
            "cannot run this kind of INSERT",
            span=span_of(parsed.sql, parsed.tokens[0]),
            hint="use INSERT INTO table query",
        )
    target = tree.this
    columns: tuple[str, ...] = ()
    if isinstance(target, exp.Schema):
        columns = tuple(column.name for column in target.expressions)
        target = target.this
    query = tree.expression
    if not isinstance(query, exp.Query | exp.Values):
        raise ParseError("expected VALUES or a query", span=span_of(parsed.sql, parsed.tokens[-1]))
    if tree.args.get("with_"):
        query.set("with_", tree.args["with_"])
    span = text.span(target) or span_of(parsed.sql, parsed.tokens[0])
    return Insert(table_name(target, text), columns, ParsedQuery(parsed.sql, parsed.tokens, query), span)


def table_name(table: exp.Expr, text: SqlText) -> str:
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise text.unsupported(table, "expected the name of a table")
    if table.args.get("db"):
        raise text.unsupported(table, "names of databases are not understood", "write the name of the table alone")
    return table.name


def _explain(cursor: Cursor, dialect: str) -> Explain:
    stage = next((word for word in _STAGES if cursor.accept(word)), None)
    span = span_of(cursor.sql, cursor.tokens[min(cursor.index, len(cursor.tokens) - 1)])
    said = stage.lower() if stage else None
    if any(cursor.peek(word) for word in _QUERY_WORDS):
        return Explain(checked_query(parse_tokens(cursor.sql, cursor.rest, dialect)), said, span)
    name, span = cursor.name("the name of a view, or a query")
    cursor.end()
    return Explain(name, said, span)
