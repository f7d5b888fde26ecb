"""SQL text to a bound view, over the tables of a workload."""

from __future__ import annotations

from collections.abc import Iterable

import tpch_schema
from workload import Table

from viewmill.catalog import Catalog
from viewmill.sql.bind import bind
from viewmill.sql.bound import BoundView
from viewmill.sql.parse import parse_statements
from viewmill.sql.statements import Select


def catalog_of(tables: Iterable[Table]) -> Catalog:
    return tpch_schema.catalog_of(";".join(table.ddl for table in tables))


def bound(sql: str, catalog: Catalog) -> BoundView:
    (statement,) = parse_statements(sql)
    assert isinstance(statement, Select)
    return bind(statement.query, catalog)
