"""A handful of small tables for the tests of the SQL front end."""

from __future__ import annotations

from tpch_schema import catalog_of

from viewmill.catalog import Catalog

SMALL_SCHEMA = """
CREATE TABLE r (a INT, b INT);
CREATE TABLE s (b INT, c INT);
CREATE TABLE t (c INT, d STRING);
CREATE TABLE emp (
  id INT PRIMARY KEY, dept INT, name STRING, salary DECIMAL(10, 2), boss INT, hired DATE, active BOOLEAN);
CREATE TABLE dept (id BIGINT NOT NULL, name STRING, budget DECIMAL(12, 2));
CREATE TABLE x (k INT, f DOUBLE, g FLOAT, ts TIMESTAMP, l BIGINT, p DECIMAL(38, 10), q DECIMAL(20, 4));
"""


def small_catalog() -> Catalog:
    return catalog_of(SMALL_SCHEMA)
