"""SQL that we understand and cannot maintain, as data: what it is, where to put the caret, what to do instead."""

from __future__ import annotations

from sqlglot import exp

from viewmill.errors import UnsupportedError
from viewmill.sql.calls import NON_DETERMINISTIC, NON_DETERMINISTIC_NAMES, said_name
from viewmill.sql.scope import Context

# expression -> (what, hint)
_EXPRESSIONS: dict[type[exp.Expr], tuple[str, str | None]] = {
    exp.Window: ("window functions", "use GROUP BY in a derived table and join it"),
    exp.Grouping: ("GROUPING", "write one SELECT per grouping and UNION ALL them"),
    exp.GroupingId: ("GROUPING_ID", "write one SELECT per grouping and UNION ALL them"),
    exp.All: ("ALL with a subquery", "compare with the min or max of the subquery"),
    exp.Bracket: ("arrays and maps", None),
    exp.Array: ("arrays", None),
    exp.Struct: ("structs", None),
    exp.Lambda: ("lambda functions", None),
    exp.Parameter: ("parameters", "write the value into the query"),
    exp.Placeholder: ("parameters", "write the value into the query"),
    exp.Interval: ("intervals as values", "add the interval to a date or timestamp"),
    exp.Explode: ("table functions", None),
    exp.BitwiseAnd: ("bitwise operators", None),
    exp.BitwiseOr: ("bitwise operators", None),
    exp.BitwiseXor: ("bitwise operators", None),
    exp.BitwiseNot: ("bitwise operators", None),
}

# argument of SELECT -> (what, first keyword, hint)
_CLAUSES: dict[str, tuple[str, str, str | None]] = {
    "laterals": ("LATERAL VIEW", "LATERAL", "join with a table instead"),
    "windows": ("window functions", "WINDOW", "use GROUP BY in a derived table and join it"),
    "qualify": ("window functions", "QUALIFY", "use GROUP BY in a derived table and join it"),
    "pivots": ("PIVOT", "PIVOT", "use sum(...) FILTER (WHERE ...)"),
    "match": ("MATCH_RECOGNIZE", "MATCH_RECOGNIZE", None),
    "sample": ("TABLESAMPLE", "TABLESAMPLE", "a random sample has no fixed answer; filter by a hash of the key"),
    "connect": ("CONNECT BY", "CONNECT", None),
    "kind": ("SELECT AS STRUCT", "SELECT", None),
    "into": ("SELECT INTO", "INTO", "use INSERT INTO ... SELECT"),
    "locks": ("FOR UPDATE", "FOR", "remove it"),
    "cluster": ("CLUSTER BY", "CLUSTER", "use ORDER BY"),
    "distribute": ("DISTRIBUTE BY", "DISTRIBUTE", "remove it"),
    "sort": ("SORT BY", "SORT", "use ORDER BY"),
}


def check_expression(context: Context, node: exp.Expr) -> None:
    refusal = _EXPRESSIONS.get(type(node))
    if refusal is not None:
        raise _refused(context, node, *refusal)
    if isinstance(node, exp.Any) and not isinstance(node.this, exp.Paren):
        raise _refused(context, node, "ANY with a subquery", "use IN or EXISTS")
    anonymous = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    if isinstance(node, NON_DETERMINISTIC) or anonymous in NON_DETERMINISTIC_NAMES:
        hint = "its value changes by itself; put it into a table, or use a constant"
        raise _refused(context, node, f"{said_name(node)}()", hint)


def check_clauses(context: Context, tree: exp.Expr) -> None:
    """Refuse the clauses of a SELECT, or of a table in FROM, that have no place in a maintained query."""
    for clause, (what, keyword, hint) in _CLAUSES.items():
        part = tree.args.get(clause)
        node = part[0] if isinstance(part, list) and part else part
        if node:
            raise _refused(context, node if isinstance(node, exp.Expr) else tree, what, hint, keyword)
    distinct = tree.args.get("distinct")
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        raise _refused(context, distinct, "DISTINCT ON", "use GROUP BY with min or max", "DISTINCT")


def check_grouping(context: Context, group: exp.Group) -> None:
    for kind, word in ((exp.GroupingSets, "GROUPING SETS"), (exp.Rollup, "ROLLUP"), (exp.Cube, "CUBE")):
        found = group.find(kind)
        if found is not None:
            place = found if any("start" in part.meta for part in found.walk()) else group
            first = word.split()[0] if place is found else "GROUP"
            raise _refused(context, place, word, "write one SELECT per grouping and UNION ALL them", first)


def _refused(
    context: Context, node: exp.Expr, what: str, hint: str | None, keyword: str | None = None
) -> UnsupportedError:
    return context.text.unsupported(node, f"cannot maintain {what}{context.subject}", hint, keyword=keyword)
