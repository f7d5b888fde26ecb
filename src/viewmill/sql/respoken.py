"""A query of any dialect in Spark SQL, for those who have Spark answer it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewmill.sql.grammar import DEFAULT_DIALECT, parse_tokens, tokenize


def in_spark(text: str, dialect: str) -> str:
    return text if dialect == DEFAULT_DIALECT else _spoken(_tree(text, dialect))


def whole_in_spark(text: str, dialect: str, sorted_by: Sequence[int]) -> str:
    """All rows that a query chooses from, without its LIMIT, and in further columns these parts of its ORDER BY.

    SELECT id FROM t ORDER BY -price LIMIT 3    =>    SELECT id, -price FROM t
    """
    tree = _tree(text, dialect)
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(part) for part in _OUTSIDE):
        tree = tree.this
    order = tree.args.get("order")
    if sorted_by and order is not None and isinstance(tree, exp.Select):
        tree = tree.select(*(order.expressions[place].this.copy() for place in sorted_by))
    for part in _OUTSIDE:
        tree.set(part, None)
    return _spoken(tree)


_OUTSIDE = ("order", "limit", "offset")


def _tree(text: str, dialect: str) -> exp.Expr:
    return parse_tokens(text, tokenize(text, dialect), dialect).tree.copy()


def _spoken(tree: exp.Expr) -> str:
    return tree.sql(dialect="spark", identify=True)
