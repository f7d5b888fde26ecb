"""SQL text to algebra, over the tables of a workload."""

from __future__ import annotations

from collections.abc import Iterable

from viewmill.catalog import Catalog
from viewmill.sql.bind import bind
from viewmill.sql.bound import BoundView
from viewmill.sql.parse import parse_statements
from viewmill.sql.statements import CreateTable, Select
from workload import Table


def catalog_of(tables: Iterable[Table]) -> Catalog:
    catalog = Catalog()
    for table in tables:
        (statement,) = parse_statements(table.ddl)
        assert isinstance(statement, CreateTable)
        catalog = catalog.with_relation(statement.info)
    return catalog


def bound(sql: str, catalog: Catalog) -> BoundView:
    (statement,) = parse_statements(sql)
    assert isinstance(statement, Select)
    return bind(statement.query, catalog)
