"""What a user can say: one dataclass per kind of SQL statement.

    parse_statements("CREATE STREAM s (a INT); SELECT a FROM s")  ->  [CreateTable(...), Select(...)]

A statement is text that was parsed but not yet bound: names are not looked up, so a script can create a table and
use it in the next line. Queries inside are opaque `ParsedQuery`s; `bind.py` turns them into bound queries.
Names are lower case. `span` points at the thing's name, for errors that are found later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from viewmill.catalog import RelationInfo
from viewmill.errors import Span


@dataclass(frozen=True, slots=True, eq=False)
class ParsedQuery:
    """A syntax tree, with the tokens it came from. `sql` is the whole script, so that carets point into it."""

    sql: str
    tokens: tuple[Token, ...]
    tree: exp.Expr

    @property
    def text(self) -> str:
        """The user's own words for this query alone."""
        return self.sql[self.tokens[0].start : self.tokens[-1].end + 1]


@dataclass(frozen=True, slots=True)
class Option:
    """`name = value` of a WITH clause."""

    name: str
    value: str | int | bool
    span: Span


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column by the name it has in a clause, which is not looked up yet."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`CREATE TABLE | STREAM name (column type, ...) [PARTITION BY (columns)] [WITH (stored = false)]`"""

    info: RelationInfo
    if_not_exists: bool
    span: Span


@dataclass(frozen=True, slots=True)
class CreateView:
    """`CREATE MATERIALIZED VIEW name [(columns)] [PARTITION BY (columns)] [WITH (options)] AS query [WITH (options)]`

    `columns` is empty where the query names them.
    """

    name: str
    query: ParsedQuery
    columns: tuple[str, ...]
    partition_by: tuple[NamedColumn, ...]
    options: tuple[Option, ...]
    or_replace: bool
    if_not_exists: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Drop:
    """`DROP TABLE | STREAM | [MATERIALIZED] VIEW [IF EXISTS] name`"""

    kind: Literal["table", "stream", "view"]
    name: str
    if_exists: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Insert:
    """`INSERT INTO table [(columns)] query`; bound by `bind_insert`. `columns` is empty where all are meant."""

    table: str
    columns: tuple[str, ...]
    query: ParsedQuery
    span: Span


@dataclass(frozen=True, slots=True)
class Delete:
    """`DELETE FROM table [WHERE ...]`; bound by `bind_delete`."""

    table: str
    statement: ParsedQuery
    span: Span


@dataclass(frozen=True, slots=True)
class Update:
    """`UPDATE table SET ... [WHERE ...]`; bound by `bind_update`."""

    table: str
    statement: ParsedQuery
    span: Span


@dataclass(frozen=True, slots=True)
class Select:
    """A query to answer now."""

    query: ParsedQuery


@dataclass(frozen=True, slots=True)
class Explain:
    """`EXPLAIN [stage] view` or `EXPLAIN [stage] query`; `stage` is None where not said."""

    target: str | ParsedQuery
    stage: str | None
    span: Span


Statement: TypeAlias = CreateTable | CreateView | Drop | Insert | Delete | Update | Select | Explain
