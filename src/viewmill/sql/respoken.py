"""A query of any dialect in Spark SQL, for those who have Spark answer it."""

from __future__ import annotations

from viewmill.sql.grammar import DEFAULT_DIALECT, parse_tokens, tokenize


def in_spark(text: str, dialect: str, *, limited: bool = True) -> str:
    """The query; without its own LIMIT and OFFSET if it is not to be `limited`."""
    if dialect == DEFAULT_DIALECT and limited:
        return text
    tree = parse_tokens(text, tokenize(text, dialect), dialect).tree.copy()
    if not limited:
        tree.set("limit", None)
        tree.set("offset", None)
    return tree.sql(dialect="spark", identify=True)
