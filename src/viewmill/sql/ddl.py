"""CREATE and DROP.

CREATE TABLE t (a INT PRIMARY KEY, b STRING) WITH (stored = false)     CREATE STREAM s (...)
CREATE FOREIGN TABLE s (...) SERVER stream                             the same stream, in Umbra's words
CREATE MATERIALIZED VIEW v WITH (maintain = 'recursive') AS SELECT ...

A table, stream or view may say by which columns its rows are spread: `partition.py`.
"""

from __future__ import annotations

from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.errors import BindError, UnsupportedError
from viewmill.sql.cursor import Cursor, is_word
from viewmill.sql.grammar import checked_query, parse_tokens
from viewmill.sql.partition import partition_by, partition_columns
from viewmill.sql.positions import SqlText, span_of
from viewmill.sql.statements import CreateTable, CreateView, Drop, Option
from viewmill.sql.types import from_sqlglot
from viewmill.wording import quoted


def create(cursor: Cursor, dialect: str) -> CreateTable | CreateView:
    """What follows CREATE."""
    replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("MATERIALIZED", "VIEW"):
        return _view(cursor, dialect, replace)
    if cursor.peek("VIEW"):
        raise UnsupportedError(
            "cannot create a view that is not materialized",
            span=span_of(cursor.sql, cursor.next("VIEW")),
            hint="write CREATE MATERIALIZED VIEW",
        )
    foreign = cursor.accept("FOREIGN")
    kind: Literal["table", "stream"] = "stream" if not foreign and cursor.accept("STREAM") else "table"
    if kind == "table" and not cursor.accept("TABLE"):
        cursor.fail("expected TABLE, STREAM or MATERIALIZED VIEW after CREATE")
    if replace:
        raise UnsupportedError(
            f"cannot replace a {kind}",
            span=span_of(cursor.sql, cursor.tokens[1], cursor.tokens[2]),
            hint="DROP it first",
        )
    return _table(cursor, dialect, kind, foreign=foreign)


def drop(cursor: Cursor) -> Drop:
    """What follows DROP."""
    kind: Literal["table", "stream", "view"]
    if cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW"):
        kind = "view"
    elif cursor.accept("STREAM") or cursor.accept("FOREIGN", "TABLE"):
        kind = "stream"
    elif cursor.accept("TABLE"):
        kind = "table"
    else:
        cursor.fail("expected TABLE, STREAM or VIEW after DROP")
    if_exists = cursor.accept("IF", "EXISTS")
    name, span = cursor.name(f"the name of a {kind}")
    cursor.end()
    return Drop(kind, name, if_exists, span)


# --- views


def _view(cursor: Cursor, dialect: str, replace: bool) -> CreateView:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name, span = cursor.name("the name of the view")
    columns = _column_names(cursor) if cursor.peek("(") else ()
    partition = partition_by(cursor)
    options = _options(cursor)
    cursor.expect("AS")
    query = cursor.rest
    cut = _trailing_options(query)
    if cut < len(query):
        after = Cursor(cursor.sql, query[cut:])
        options += _options(after)
        after.end()
    _check_unique(options)
    parsed = checked_query(parse_tokens(cursor.sql, query[:cut], dialect))
    return CreateView(name, parsed, columns, partition, options, replace, if_not_exists, span)


def _column_names(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("(")
    names = [cursor.name("a column name")[0]]
    while cursor.accept(","):
        names.append(cursor.name("a column name")[0])
    cursor.expect(")")
    return tuple(names)


def _trailing_options(tokens: tuple[Token, ...]) -> int:
    """Where a WITH ( after the query begins. A WITH that starts a query is followed by a name instead."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += is_word(token, "(") - is_word(token, ")")
        if depth == 0 and is_word(token, "WITH") and index + 1 < len(tokens) and is_word(tokens[index + 1], "("):
            return index
    return len(tokens)


# --- options


def _options(cursor: Cursor) -> tuple[Option, ...]:
    """`WITH (name = value, ...)`, if it is there."""
    if not cursor.accept("WITH"):
        return ()
    cursor.expect("(")
    options = [_option(cursor)]
    while cursor.accept(","):
        options.append(_option(cursor))
    cursor.expect(")")
    return tuple(options)


def _option(cursor: Cursor) -> Option:
    first = cursor.index
    name, _ = cursor.name("the name of an option")
    cursor.expect("=")
    token = cursor.next("a value")
    value: str | int | bool = token.text
    if token.token_type == TokenType.NUMBER and token.text.isdigit():
        value = int(token.text)
    elif token.token_type in (TokenType.TRUE, TokenType.FALSE):
        value = token.token_type == TokenType.TRUE
    return Option(name, value, span_of(cursor.sql, cursor.tokens[first], token))


def _check_unique(options: tuple[Option, ...]) -> None:
    seen: set[str] = set()
    for option in options:
        if option.name in seen:
            raise BindError(f'option "{option.name}" is given twice', span=option.span, hint="keep one of them")
        seen.add(option.name)


# --- tables and streams


def _table(cursor: Cursor, dialect: str, kind: Literal["table", "stream"], *, foreign: bool) -> CreateTable:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name_token = cursor.index
    name, span = cursor.name(f"the name of the {kind}")
    if not cursor.peek("("):
        cursor.fail("expected a list of columns in parentheses")
    declared = cursor.parenthesised()
    if foreign:
        cursor.expect("SERVER", "STREAM")
        kind = "stream"
    partition = partition_by(cursor)
    options = _options(cursor)
    cursor.end()
    _check_unique(options)
    # sqlglot knows no streams, but a column list is a column list.
    words = (_word(TokenType.CREATE, cursor.tokens[0]), _word(TokenType.TABLE, cursor.tokens[1]))
    parsed = parse_tokens(cursor.sql, (*words, cursor.tokens[name_token], *declared), dialect)
    schema = parsed.tree.this
    assert isinstance(schema, exp.Schema)
    text = SqlText(cursor.sql, cursor.tokens)
    columns, key = _columns(schema, text)
    by = partition_columns(partition, [column.name for column in columns], f"{kind} {quoted(name)}")
    info = RelationInfo(name, columns, key, kind=kind, stored=_stored(options, kind), partition_by=by)
    return CreateTable(info, if_not_exists, span)


def _word(kind: TokenType, place: Token) -> Token:
    return Token(kind, kind.name, line=place.line, col=place.col, start=place.start, end=place.end)


def _stored(options: tuple[Option, ...], kind: str) -> bool:
    stored = kind == "table"
    for option in options:
        if option.name != "stored":
            raise BindError(
                f'unknown option "{option.name}" of a {kind}', span=option.span, hint="the only one is stored"
            )
        if not isinstance(option.value, bool):
            raise BindError("option stored takes true or false", span=option.span)
        if kind == "stream" and option.value:
            raise UnsupportedError("a stream is never stored whole", span=option.span, hint="use CREATE TABLE")
        stored = option.value
    return stored


def _columns(schema: exp.Schema, text: SqlText) -> tuple[tuple[ColumnInfo, ...], tuple[str, ...]]:
    """The columns and the primary key."""
    columns: dict[str, ColumnInfo] = {}
    keys: list[tuple[exp.Expr, tuple[str, ...]]] = []
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            column, is_key = _column(part, text)
            if column.name in columns:
                raise text.bind_error(part.this, f'column "{column.name}" is declared twice')
            columns[column.name] = column
            keys += [(part, (column.name,))] * is_key
        elif isinstance(part, exp.PrimaryKey):
            keys.append((part, tuple(_key_column(key, text) for key in part.expressions)))
        else:
            raise text.unsupported(part, "only columns and PRIMARY KEY are understood here", "remove the constraint")
    if len(keys) > 1:
        raise text.bind_error(
            keys[1][0], "there are two primary keys", "write PRIMARY KEY (a, b) for a key of two columns"
        )
    key = keys[0][1] if keys else ()
    for name in key:
        if name not in columns:
            raise text.bind_error(keys[0][0], f'primary key column "{name}" is not a column of the table')
    not_null = {name: ColumnInfo(name, columns[name].type, nullable=False) for name in key}
    return tuple({**columns, **not_null}.values()), key


def _key_column(key: exp.Expr, text: SqlText) -> str:
    identifier = key.this if isinstance(key, exp.Ordered) else key
    if not isinstance(identifier, exp.Identifier | exp.Column):
        raise text.bind_error(key, "a primary key consists of column names")
    return identifier.name


def _column(part: exp.ColumnDef, text: SqlText) -> tuple[ColumnInfo, bool]:
    nullable, is_key = True, False
    for constraint in part.args.get("constraints") or ():
        match constraint.kind:
            case exp.NotNullColumnConstraint() as kind:
                nullable = bool(kind.args.get("allow_null"))
            case exp.PrimaryKeyColumnConstraint():
                is_key = True
            case exp.CommentColumnConstraint():
                pass
            case _:
                raise text.unsupported(
                    part, f'cannot keep this constraint of column "{part.name}"', "use NOT NULL or PRIMARY KEY only"
                )
    kind_of = part.kind
    type_ = from_sqlglot(kind_of) if isinstance(kind_of, exp.DataType) else None
    if type_ is None:
        said = kind_of.sql(dialect="spark") if kind_of is not None else "none"
        raise text.unsupported(
            part,
            f'column "{part.name}" has type {said}, which is not supported',
            "use boolean, tinyint, smallint, int, bigint, float, double, decimal, string, binary, date or timestamp",
        )
    return ColumnInfo(part.name, type_, nullable), is_key
