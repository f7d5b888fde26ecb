"""Programs and batches for buckets, and the engine that they are compared with."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from kept_turns import Changes

import viewmill
from viewmill.catalog import Catalog
from viewmill.engines.interpreter.tables import Table
from viewmill.engines.local.kept import Kept
from viewmill.engines.local.run import CompiledEngine
from viewmill.program.nodes import Program

TABLES = """
CREATE TABLE t (k int, s string, m decimal(12,2), f double) WITH (stored = false);
CREATE TABLE u (k int, w int) WITH (stored = false)
"""
VIEWS = (
    "select s, count(*) as n, sum(m) as m, sum(f) as f, min(k) as lo, max(s) as hi from t group by s",
    "select u.w, count(*) as n from t join u on t.k = u.k where t.s like 'x%' group by u.w",
    "select distinct upper(s) as s from t where k > 3",
    "select sum(m) as m from t where k < (select avg(w) from u)",
)


def compiled(ddl: str, *views: str, strategy: str = "auto") -> tuple[Program, Catalog]:
    """The program of some views, and the catalog it is about."""
    mill = viewmill.connect()
    mill.sql(ddl)
    for number, query in enumerate(views):
        mill.sql(f"CREATE MATERIALIZED VIEW v{number} WITH (maintain = '{strategy}') AS {query}")
    return mill._definitions.program, mill._definitions.catalog


def staying(program: Program, catalog: Catalog) -> CompiledEngine:
    """An engine in the memory of this process."""
    return CompiledEngine(program, catalog, {name: Table(store.keys) for name, store in program.stores.items()})


def stores(engine: CompiledEngine | Kept, program: Program) -> dict[str, Any]:
    return {name: engine.store(name) for name in program.stores}


def many_rows(number: int, rows: int = 3000) -> dict[str, pa.Table]:
    """Columns with new strings in every batch, and NULLs."""
    random = np.random.default_rng(number)
    k = pa.array(random.integers(0, 50, rows), mask=random.random(rows) < 0.1).cast(pa.int32())
    s = [None if i % 17 == 0 else f"{'x' if i % 3 else 'y'}{i}" for i in random.integers(0, 1000 * (number + 1), rows)]
    m = pa.array([Decimal(int(i)) / 100 for i in random.integers(-500, 500, rows)], pa.decimal128(12, 2))
    t = pa.table({"k": k, "s": s, "m": m, "f": random.integers(-4, 4, rows) / 4})
    few = rows // 10
    return {"t": t, "u": pa.table({"k": k[:few], "w": pa.array(random.integers(0, 40, few)).cast(pa.int32())})}


def as_changes(tables: dict[str, pa.Table], weight: int = 1) -> Changes:
    changes = []
    for name, table in tables.items():
        rows: dict[Any, int] = {}
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            rows[row] = rows.get(row, 0) + weight
        changes.append((name, rows))
    return changes
