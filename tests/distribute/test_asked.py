"""PARTITION BY: places asked for in SQL, for views and tables whose stores have keys of other names."""

from __future__ import annotations

import pytest
from distribute.stories import changes, wrong
from workload import SUITE

import viewmill
from viewmill.distribute import distribute
from viewmill.distribute.nodes import Buckets, Driver

DDL = tuple(table.ddl for table in SUITE)
TOTALS = "SELECT dept AS d, name AS who, sum(salary) AS total, count(*) AS n FROM emp GROUP BY dept, name"


def placed(ddl: tuple[str, ...], *views: str):
    mill = viewmill.connect()
    for statement in (*ddl, *views):
        mill.sql(statement)
    program, catalog = mill._definitions.program, mill._definitions.kept
    return program, catalog, distribute(program, catalog)


def partitioned(table: str, by: str) -> tuple[str, ...]:
    return tuple(f"{ddl} PARTITION BY ({by})" if ddl.startswith(f"CREATE TABLE {table} ") else ddl for ddl in DDL)


@pytest.mark.parametrize("by", ["d", "who", "who, d"])
def test_a_view_lives_where_it_is_asked_to(by):
    program, catalog, distributed = placed(DDL, f"CREATE MATERIALIZED VIEW v PARTITION BY ({by}) AS {TOTALS}")
    assert distributed.views["v"] == Buckets(tuple(by.split(", ")))
    assert not wrong(program, catalog, distributed, changes(SUITE, 8))


def test_without_it_a_small_aggregate_is_on_the_driver():
    _, _, distributed = placed(DDL, f"CREATE MATERIALIZED VIEW v AS {TOTALS}")
    assert distributed.views["v"] == Driver()


def test_stores_over_a_table_are_by_its_columns():
    """Whatever these are called there: the rows of `dept` are kept by `boss`, which is its `id`."""
    join = "CREATE MATERIALIZED VIEW v AS SELECT e.id, d.name FROM emp e JOIN dept d ON e.boss = d.id"
    program, catalog, distributed = placed(partitioned("emp", "boss"), join)
    assert placed(DDL, join)[2].places["M_emp"] == Buckets(("id",))
    assert distributed.places["M_emp"] == Buckets(("boss",))
    assert not wrong(program, catalog, distributed, changes(SUITE, 9))
    *_, distributed = placed(partitioned("dept", "name, id"), join)
    assert distributed.places["M_dept"] == Buckets(("name", "boss"))


def test_a_view_counts_more_than_its_table():
    _, _, distributed = placed(
        partitioned("emp", "name"),
        "CREATE MATERIALIZED VIEW v PARTITION BY (dept) AS SELECT dept, name, salary FROM emp",
        "CREATE MATERIALIZED VIEW w AS SELECT dept, name, boss FROM emp",
    )
    assert distributed.views["v"] == Buckets(("dept",))
    assert distributed.views["w"] == Buckets(("name",))


def test_what_cannot_be_had_says_why():
    """Which are the first three of all is not known in any bucket."""
    first = "SELECT id FROM (SELECT id, salary FROM emp ORDER BY salary DESC, id LIMIT 3) x"
    _, _, distributed = placed(DDL, f"CREATE MATERIALIZED VIEW v PARTITION BY (id) AS {first}")
    assert distributed.views["v"] == Driver()
    assert distributed.reasons["v"] == '"v" needs them together'


def test_a_mill_in_this_process_has_no_buckets():
    mill = viewmill.connect()
    mill.sql(f"""
        {next(ddl for ddl in partitioned("emp", "boss") if "TABLE emp" in ddl)};
        CREATE MATERIALIZED VIEW v PARTITIONED BY (d) AS {TOTALS};
        INSERT INTO emp (id, dept, name, salary) VALUES (1, 2, 'x', 3.50)
    """)
    assert [row[:2] for row in mill.view("v")] == [(2, "x")]
    assert "view v: buckets by d" in mill.explain("v", stage="placed")
