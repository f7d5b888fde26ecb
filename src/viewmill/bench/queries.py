"""The TPC-H schema and queries, and what the benchmark must know of each: what it reads and how its output is cut.

The queries are those of the specification with its validation parameters, without its substitutions. They are written
in SQL that Spark and DuckDB both understand, with ORDER BY and LIMIT on lines of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import pyarrow as pa

from viewmill.arrow import arrow_schema
from viewmill.errors import BindError
from viewmill.session import Mill
from viewmill.wording import nearest

_FOLDER = files("viewmill.bench") / "tpch"
_ORDER = re.compile(r"^order by (.+)$", re.MULTILINE)
_LIMIT = re.compile(r"^limit (\d+)\s*\Z", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Query:
    """A view's query. `reads` are the relations in it, largest first."""

    name: str
    sql: str
    reads: tuple[str, ...]

    @property
    def limit(self) -> int | None:
        found = _LIMIT.search(self.sql)
        return int(found[1]) if found else None

    @property
    def unlimited(self) -> str:
        """The query without its LIMIT."""
        return _LIMIT.sub("", self.sql)

    @property
    def sorted_by(self) -> tuple[str, ...]:
        """The output columns that rows are sorted by."""
        found = _ORDER.search(self.sql)
        return tuple(key.split()[0] for key in found[1].split(",")) if found else ()

    def create(self, strategy: str) -> str:
        return f"CREATE MATERIALIZED VIEW {self.name} WITH (maintain = '{strategy}') AS {self.sql}"


# Largest first, so that the first relation a query reads is the one that dominates its stream.
TABLES = ("lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region")

KEYS = {
    "lineitem": ("l_orderkey", "l_linenumber"),
    "orders": ("o_orderkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "part": ("p_partkey",),
    "customer": ("c_custkey",),
    "supplier": ("s_suppkey",),
    "nation": ("n_nationkey",),
    "region": ("r_regionkey",),
}


@cache
def schema_sql() -> str:
    """Tables as a trusted change feed: rows are neither kept nor checked unless a view needs them."""
    return (_FOLDER / "schema.sql").read_text()


@cache
def arrow_schemas() -> dict[str, pa.Schema]:
    mill = Mill()
    mill.sql(schema_sql())
    return {name: arrow_schema(mill.tables[name].columns) for name in TABLES}


@cache
def tpch_queries() -> dict[str, Query]:
    return {name: _query(name) for name in (f"q{number:02}" for number in range(1, 23))}


def chosen_queries(names: str) -> list[Query]:
    """`q01,q17`, or all if nothing is named."""
    known = tpch_queries()
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise BindError(f"there is no query {name!r}", hint=nearest(name, known, "the queries are"))
    return [known[name] for name in wanted or known]


def _query(name: str) -> Query:
    sql = (_FOLDER / f"{name}.sql").read_text().strip()
    words = set(re.findall(r"\w+", re.sub(r"'[^']*'", "", sql)))
    return Query(name, sql, tuple(table for table in TABLES if table in words))
