"""INSERT, UPDATE and DELETE statements on Spark do what they do in an embedded mill, and refuse what it refuses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.errors import BindError, DataError, UnsupportedError, ViewmillError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE emp (
  id INT PRIMARY KEY, dept INT NOT NULL, name STRING, salary DECIMAL(10, 2), hired DATE, seen TIMESTAMP);
CREATE TABLE dept (id INT, `order` STRING, rate DOUBLE);
CREATE TABLE moves (emp INT, dept INT, step INT, PRIMARY KEY (emp, dept));
CREATE TABLE feed (a INT, b BIGINT) WITH (stored = false);
CREATE MATERIALIZED VIEW per_dept AS SELECT dept, count(*) AS n, sum(salary) AS total FROM emp GROUP BY dept;
CREATE MATERIALIZED VIEW best AS SELECT id, salary FROM emp ORDER BY salary DESC NULLS LAST, id LIMIT 2;
CREATE MATERIALIZED VIEW fed AS SELECT a, sum(b) AS b FROM feed GROUP BY a
"""
STORED = ("emp", "dept", "moves")
ROWS = """
INSERT INTO emp VALUES
  (1, 1, 'Ann', 10.00, '2020-01-01', '2024-01-01 12:00:00'), (2, 1, 'Bob', 20.50, NULL, NULL),
  (3, 2, NULL, 30.00, '2021-05-05', NULL), (4, 2, 'Dora', NULL, NULL, '2024-02-29 23:59:59.5'),
  (5, 3, 'Eve', 50.00, '2022-02-02', NULL);
INSERT INTO dept VALUES (1, 'ops', 0.5), (2, 'dev', NULL), (2, 'dev', NULL), (NULL, NULL, -0.25)
"""

# One after another: each finds what the ones before it left.
STATEMENTS = (
    "INSERT INTO emp (hired, id, dept) VALUES (date '2024-01-01', 6, 3), (NULL, 7, 1)",
    "INSERT INTO moves SELECT id, dept, 1 FROM emp WHERE id < 6",
    "INSERT INTO moves (dept, emp) SELECT d.id, e.id + 10 FROM emp e JOIN dept d ON e.dept = d.id WHERE d.id = 1",
    "UPDATE emp SET salary = salary * 1.111 WHERE dept = 1",
    "UPDATE emp AS e SET name = concat(e.name, '!'), hired = '2025-12-31' WHERE e.name IS NOT NULL",
    "UPDATE emp SET dept = dept",
    "UPDATE moves SET step = NULL, emp = emp + 1",
    "UPDATE emp SET salary = (SELECT max(total) FROM per_dept p WHERE p.dept = emp.dept) WHERE id IN (2, 3)",
    "UPDATE emp SET dept = 9 WHERE id IN (SELECT id FROM best)",
    "UPDATE dept SET rate = coalesce(rate, 0) + id, `order` = upper(`order`)",
    "INSERT INTO dept SELECT * FROM dept WHERE id = 2",
    "DELETE FROM dept WHERE `order` = 'DEV' AND id = 2",
    "INSERT INTO feed SELECT id, n FROM emp JOIN per_dept ON emp.dept = per_dept.dept",
    "INSERT INTO feed SELECT id, id FROM emp ORDER BY id DESC LIMIT 2",
    "INSERT INTO dept WITH big AS (SELECT dept, total FROM per_dept WHERE total > 20) "
    "SELECT dept, 'big', total FROM big",
    "INSERT INTO emp SELECT id + 100, dept, name, salary, hired, seen FROM emp e WHERE NOT EXISTS "
    "(SELECT 1 FROM moves m WHERE m.emp = e.id)",
    "UPDATE emp SET id = id + 1",
    "DELETE FROM moves WHERE emp > 1000",
    "DELETE FROM emp WHERE salary > (SELECT avg(salary) FROM emp)",
    "DELETE FROM emp WHERE false",
    "DELETE FROM moves",
    "DELETE FROM moves",
    "INSERT INTO moves SELECT e.id, f.id, NULL FROM emp e, emp f",
)
TOGETHER = 6


@pytest.fixture(scope="module")
def twin() -> viewmill.Mill:
    return filled(viewmill.connect())


@pytest.fixture(scope="module")
def mill(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkMill:
    return filled(viewmill.connect(spark=spark, checkpoint=str(tmp_path_factory.mktemp("checkpoint")), buckets=3))


def filled(mill):
    mill.sql(TABLES)
    mill.sql(ROWS)
    return mill


def contents(mill: SparkMill | viewmill.Mill) -> dict[str, Counter[tuple[object, ...]]]:
    tables = {name: Counter(mill.sql(f"SELECT * FROM {name}")) for name in STORED}
    return {**tables, **{name: Counter(mill.view(name)) for name in mill.views}}


def agree(mill: SparkMill, twin: viewmill.Mill) -> None:
    assert contents(mill) == contents(twin)
    assert mill.version == twin.version


@pytest.mark.parametrize("first", range(0, len(STATEMENTS), TOGETHER))
def test_statements_do_what_they_do_in_this_process(mill, twin, first):
    """A few of them, and then what is there is compared: reading takes longer than changing."""
    for sql in STATEMENTS[first : first + TOGETHER]:
        for one in (mill, twin):
            one.sql(sql)
        assert mill.version == twin.version, sql
    agree(mill, twin)


SAME_WORDS = (
    "INSERT INTO emp SELECT id FROM dept",
    "INSERT INTO emp (id, age) SELECT id, id FROM dept",
    "INSERT INTO emp (id, dept, hired) SELECT id, id, rate FROM dept",
    "INSERT INTO nowhere SELECT * FROM emp",
    "INSERT INTO per_dept SELECT id, id, NULL FROM emp",
    "UPDATE emp SET wage = 1",
    "UPDATE emp SET hired = 5",
    "UPDATE emp SET name = 'x', name = 'y'",
    "DELETE FROM emp WHERE wage > 1",
    "INSERT INTO emp VALUES (1000, NULL, 'x', 1, NULL, NULL)",
    "INSERT INTO emp (id, dept) VALUES (2000, 1), (2000, 2)",
)


def test_what_is_wrong_with_a_statement_is_said_in_the_same_words(mill, twin):
    for sql in SAME_WORDS:
        said = []
        for one in (mill, twin):
            with pytest.raises(ViewmillError) as error:
                one.sql(sql)
            said.append(str(error.value))
        assert said[0] == said[1]
    agree(mill, twin)


BAD_ROWS = (
    ("INSERT INTO emp (id, dept) SELECT id + 500, NULL FROM emp", 'NULL in column "dept" of table "emp", row '),
    ("UPDATE emp SET dept = NULLIF(dept, dept)", 'NULL in column "dept" of table "emp", row '),
    ("INSERT INTO emp (id, dept) SELECT NULL, dept FROM emp", 'NULL in column "id" of table "emp", row '),
    ("UPDATE emp SET id = 1", "primary key"),
    ("INSERT INTO emp (id, dept) SELECT id, dept FROM emp", "primary key"),
    ("INSERT INTO emp (id, dept) SELECT (id + 2) * 1000000000L, 1 FROM emp", "does not fit int"),
    ("UPDATE emp SET salary = 1000000000 + id", r"does not fit decimal\(10,2\)"),
    ("UPDATE emp SET dept = (SELECT id FROM emp)", "(?i)more than one row"),
    ("UPDATE emp SET dept = 1 / (id - id)", "(?i)division by zero"),
)


def test_bad_rows_change_nothing(mill, twin):
    for sql, said in BAD_ROWS:
        for one in (mill, twin):
            with pytest.raises(DataError, match=said):
                one.sql(sql)
    agree(mill, twin)


def test_a_delete_by_key_gives_no_other_column(mill, twin):
    """Also where these are NOT NULL."""
    for one in (mill, twin):
        one.insert("emp", [(3000, 7, "Zoe", "1.00", None, None)])
        one.delete("emp", [{"id": 3000}])
    agree(mill, twin)


@pytest.mark.parametrize(
    "sql", ["DELETE FROM feed", "UPDATE feed SET a = 1", "INSERT INTO emp (id, dept) SELECT a, a FROM feed"]
)
def test_what_is_not_kept_is_not_read(mill, twin, sql):
    for one in (mill, twin):
        with pytest.raises(UnsupportedError, match='the rows of table "feed" are not kept'):
            one.sql(sql)


def test_another_dialect_has_values_only(spark: SparkSession, tmp_path: Path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path), buckets=2, dialect="duckdb")
    mill.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (1), (2)")
    assert sorted(mill.view("v")) == [(1,), (2,)]
    with pytest.raises(UnsupportedError, match="Spark SQL only"):
        mill.sql("DELETE FROM t WHERE a = 1")


def test_a_statement_for_a_view_is_refused(mill):
    with pytest.raises(BindError, match="is a view"):
        mill.sql("DELETE FROM per_dept")


def test_what_spark_does_not_understand_is_refused_in_one_line(mill):
    """In Spark SQL, `emp.id` is a field of the column `emp` of `m` here, and that is an int."""
    with pytest.raises(UnsupportedError, match="Spark refuses the statement: .*INVALID_EXTRACT_BASE_FIELD_TYPE"):
        mill.sql("DELETE FROM emp WHERE EXISTS (SELECT 1 FROM moves m WHERE m.emp = emp.id)")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (weight_ INT)",
        "CREATE MATERIALIZED VIEW v AS SELECT id AS weight_ FROM dept",
    ],
)
def test_the_name_of_counts_is_refused(spark: SparkSession, tmp_path: Path, sql: str):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("CREATE TABLE dept (id INT, rate DOUBLE)")
    with pytest.raises(UnsupportedError, match='a column or alias "weight_" is not possible on Spark'):
        mill.sql(sql)
    assert list(mill.tables) == ["dept"] and not list(mill.views)
