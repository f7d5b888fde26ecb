"""A mill on Spark follows its tables, survives its driver, and refuses what an embedded mill refuses."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.engines.spark import cluster
from viewmill.engines.spark.session import maintenance_session, mind_bytes
from viewmill.errors import DataError, UnsupportedError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SHOP = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
CREATE MATERIALIZED VIEW revenue AS
SELECT region, count(*) AS orders, sum(price) AS total, max(price) AS best
FROM orders JOIN customers ON orders.customer = customers.id
GROUP BY region ORDER BY total DESC, region;
CREATE MATERIALIZED VIEW per_customer AS
SELECT customer, count(*) AS n, sum(price) AS total FROM orders GROUP BY customer
"""


@pytest.fixture
def mill(spark: SparkSession, tmp_path: Path) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=3)
    mill.sql(SHOP)
    return mill


@pytest.fixture
def twin() -> viewmill.Mill:
    """An embedded mill that takes the same batches."""
    twin = viewmill.connect()
    twin.sql(SHOP)
    return twin


CUSTOMERS = [(i, "north" if i % 2 else "south") for i in range(10)]
ORDERS = [(i, i % 10, f"{i}.50") for i in range(60)]


def fill(mill: SparkMill | viewmill.Mill) -> None:
    with mill.batch() as batch:
        batch.insert("customers", CUSTOMERS)
        batch.insert("orders", ORDERS)


def agree(mill: SparkMill, twin: viewmill.Mill) -> None:
    assert mill.version == twin.version
    for name in twin.views:
        assert sorted(mill.view(name)) == sorted(twin.view(name)), name
        assert mill.view(name).to_arrow().schema == twin.view(name).to_arrow().schema


def test_all_kinds_of_changes(mill, twin):
    for one in (mill, twin):
        fill(one)
    agree(mill, twin)
    for one in (mill, twin):
        with one.batch() as batch:
            batch.update("orders", [(5, 3, "77.00"), (6, 4, "78.00")])
            batch.delete("orders", [{"id": 59}])
            batch.insert("orders", [(100, 3, "1000.00")])
            batch.update("customers", [(3, "west")])
    agree(mill, twin)
    for one in (mill, twin):
        one.delete("orders", [(100, 3, "1000.00")])  # the best of its region
    agree(mill, twin)


def test_of_several_rows_with_a_key_the_last_counts(mill, twin, spark):
    """In a list, which has an order; in a DataFrame, which has none, they are refused."""
    rows = [(i % 7, i % 3, f"{i}.50") for i in range(500)]
    for one in (mill, twin):
        fill(one)
        one.update("orders", rows)
        one.upsert("orders", [(id + 57, customer, price) for id, customer, price in rows])
    agree(mill, twin)
    frame = spark.createDataFrame([(1, 1, 1), (1, 1, 2)], "id int, customer int, price int")
    for change in (mill.update, mill.upsert):
        with pytest.raises(DataError, match='two changes of the row of table "orders" with id = 1 come together'):
            change("orders", frame)
    agree(mill, twin)


def test_data_frames_go_in_and_come_out(mill, spark):
    mill.apply(
        customers=spark.createDataFrame(CUSTOMERS, "id int, region string"),
        orders=spark.sql("SELECT id, id % 10 AS customer, cast(id AS decimal(10, 2)) AS price FROM range(100)"),
    )
    frame = mill.view("per_customer").to_df()
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        "customer": "int",
        "n": "bigint",
        "total": "decimal(20,2)",
    }
    assert frame.filter("customer = 7").collect()[0].total == Decimal("520.00")


def test_what_is_refused_changes_nothing(mill, twin):
    for one in (mill, twin):
        fill(one)
    messages = []
    for one in (mill, twin):
        with pytest.raises(DataError) as error, one.batch() as batch:
            batch.insert("customers", [(77, "east")])
            batch.insert("orders", [(5, 1, "1.00")])
        messages.append(error.value.message)
    assert messages[0] == messages[1]
    agree(mill, twin)
    for one in (mill, twin):
        one.insert("customers", [(77, "east")])
    agree(mill, twin)


def test_a_batch_of_the_wrong_shape(mill, spark):
    with pytest.raises(DataError, match='column "price" of table "orders" is decimal\\(10,2\\), and .* has string'):
        mill.apply(orders=spark.createDataFrame([(1, 2, "x")], "id int, customer int, price string"))
    with pytest.raises(DataError, match='lacks column "price"'):
        mill.apply(orders=spark.createDataFrame([(1, 2)], "id int, customer int"))
    with pytest.raises(DataError, match="does not fit int"):
        mill.apply(customers=spark.createDataFrame([(2**40, "x")], "id bigint, region string"))
    assert mill.version == 0


def test_another_driver_goes_on(mill, twin, spark, tmp_path):
    for one in (mill, twin):
        fill(one)
        one.delete("orders", [{"id": 7}])
    again = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    agree(again, twin)
    for one in (again, twin):
        one.update("orders", [(8, 2, "5.00")])
    agree(again, twin)
    with pytest.raises(DataError, match="another mill uses the checkpoint"):
        mill.update("orders", [(9, 2, "5.00")])


def test_a_view_over_tables_that_hold_data(mill, twin):
    for one in (mill, twin):
        fill(one)
        one.sql("CREATE MATERIALIZED VIEW dear AS SELECT id, price FROM orders WHERE price > 50")
    agree(mill, twin)
    for one in (mill, twin):
        one.update("orders", [(1, 2, "55.00"), (58, 2, "5.00")])
    agree(mill, twin)


@pytest.mark.parametrize("between", ["nothing", "reading", "another driver"])
@pytest.mark.parametrize("columns", ["id INT PRIMARY KEY, a STRING", "id BIGINT, b DATE, PRIMARY KEY (id)"])
def test_a_table_that_is_dropped_is_gone(spark, tmp_path, between, columns):
    """One of the same name is another one, and starts without rows."""
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("CREATE TABLE t (id INT PRIMARY KEY, a STRING); CREATE TABLE u (id INT)")
    mill.sql("CREATE MATERIALIZED VIEW of_u AS SELECT count(*) AS n FROM u")
    mill.insert("t", [(1, "x")])
    mill.insert("u", [(1,)])
    mill.sql("DROP TABLE t")
    if between == "reading":
        assert list(mill.view("of_u")) == [(1,)]
    if between == "another driver":
        mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    mill.sql(f"CREATE TABLE t ({columns}); CREATE MATERIALIZED VIEW of_t AS SELECT id FROM t")
    assert list(mill.view("of_t")) == [] and mill.sql("SELECT * FROM t").to_dicts() == []
    mill.insert("t", [(2, None)])
    assert list(mill.view("of_t")) == [(2,)] and list(mill.view("of_u")) == [(1,)]


def test_a_feed_that_is_dropped_and_created_has_had_nothing(spark, tmp_path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    feed = "CREATE TABLE feed (a INT) WITH (stored = false)"
    mill.sql(feed)
    mill.insert("feed", [(1,)])
    mill.sql("DROP TABLE feed")
    mill.sql(feed)
    for number in range(2):
        mill.sql(f"CREATE MATERIALIZED VIEW v{number} AS SELECT count(*) AS n FROM feed")
    mill.insert("feed", [(2,)])
    assert list(mill.view("v0")) == list(mill.view("v1")) == [(1,)]


def test_rows_that_are_not_kept_are_not_lost(spark, tmp_path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("""
        CREATE TABLE feed (a INT, b INT) WITH (stored = false);
        CREATE MATERIALIZED VIEW sums AS SELECT a, sum(b) AS s FROM feed GROUP BY a
    """)
    mill.insert("feed", [(1, 2), (1, 3)])
    mill.sql("CREATE TABLE other (a INT) WITH (stored = false)")
    for statement in (
        "CREATE TABLE kept (a INT PRIMARY KEY)",
        "CREATE MATERIALIZED VIEW more AS SELECT a FROM other",
    ):
        with pytest.raises(UnsupportedError, match='they have rows of table "feed", which does not keep them'):
            mill.sql(statement)
    mill.insert("feed", [(1, 4)])
    assert list(mill.view("sums")) == [(1, 9)]


def test_ad_hoc_queries(mill, twin):
    for one in (mill, twin):
        fill(one)
    for query in (
        "SELECT r.region, r.total, p.n FROM revenue r JOIN per_customer p ON p.customer = 3 ORDER BY r.region",
        "SELECT count(*) AS n, sum(price) AS total FROM orders WHERE customer < 5",
    ):
        assert mill.sql(query).to_arrow() == twin.sql(query).to_arrow()
    mill.sql("CREATE TABLE feed (a INT) WITH (stored = false)")
    with pytest.raises(UnsupportedError, match='the rows of table "feed" are not kept'):
        mill.sql("SELECT a FROM feed")


def test_answers_have_our_names_and_errors(mill, twin):
    for one in (mill, twin):
        fill(one)
    for query in (
        "SELECT Region, Count(*) AS `How Many`, if(region = 'north', 1, 2) FROM Customers GROUP BY REGION ORDER BY 1",
        "SELECT c.ID, C.* FROM customers C WHERE id = 1",
    ):
        assert mill.sql(query).to_arrow() == twin.sql(query).to_arrow()
    for query in ("SELECT id / 0 AS x FROM orders", "SELECT id * 9223372036854775807 AS x FROM orders"):
        for one in (mill, twin):
            with pytest.raises(DataError):
                one.sql(query)


def test_values_that_cannot_be_kept(spark, tmp_path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("CREATE TABLE t (id INT PRIMARY KEY, d DATE, f FLOAT); CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    for values, message in (
        ("make_date(20000, 1, 1) AS d, 1f AS f", 'column "d" .* cannot be read'),
        ("current_date() AS d, 1e300D AS f", 'column "f" of table "t" does not fit float'),
    ):
        with pytest.raises(DataError, match=message):
            mill.insert("t", spark.sql(f"SELECT 1 AS id, {values}"))
    mill.insert("t", spark.sql("SELECT 1 AS id, DATE'9999-12-31' AS d, double('infinity') AS f"))
    assert [row[2] for row in mill.view("v")] == [math.inf] and mill.version == 1


def test_nan_beside_numbers_of_more_than_64_bits(spark, tmp_path):
    """Such a bucket is interpreted, and its rows are read again with every batch."""
    mill, twin = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2), viewmill.connect()
    for one in (mill, twin):
        one.sql("CREATE TABLE t (id DOUBLE PRIMARY KEY, d DOUBLE, p DECIMAL(38, 10))")
        one.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        one.sql("CREATE MATERIALIZED VIEW w AS SELECT d, sum(p) AS p FROM t GROUP BY d")
        one.sql("CREATE MATERIALIZED VIEW x AS SELECT sum(p) AS p, max(d) AS d FROM t")
        one.insert("t", [(i, math.nan if i % 2 else i, "12345678901234567890123.5") for i in range(6)])
        one.insert("t", [(math.nan, 1.0, "1.5")])
        one.update("t", [(math.nan, math.nan, "2.5"), (1, math.nan, "3.5")])
        one.delete("t", [(3.0, math.nan, "12345678901234567890123.5")])
        with pytest.raises(DataError, match="two rows with primary key id = nan"):
            one.insert("t", [(math.nan, 0.0, "0")])
    for view in ("v", "w", "x"):
        assert sorted(map(str, mill.view(view))) == sorted(map(str, twin.view(view)))
        assert mill.verify(view)
    again = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    again.delete("t", [{"id": math.nan}])
    twin.delete("t", [{"id": math.nan}])
    for view in ("v", "w", "x"):
        assert sorted(map(str, again.view(view))) == sorted(map(str, twin.view(view)))


def test_followers_hear_of_changes(mill):
    heard = []
    mill.view("revenue").subscribe(heard.append)
    mill.view("per_customer").subscribe(heard.append)
    mill.apply(customers=[(1, "north")], orders=[(1, 1, "2.00")])
    assert [(change.version, change.added, change.removed) for change in heard] == [
        (1, (("north", 1, Decimal("2.00"), Decimal("2.00")),), ()),
        (1, ((1, 1, Decimal("2.00")),), ()),
    ]


def test_a_mill_in_this_process_has_no_data_frames(twin):
    with pytest.raises(UnsupportedError, match="not on Spark"):
        twin.view("revenue").to_df()


def test_rows_that_are_there_before_any_batch(spark, tmp_path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=3)
    twin = viewmill.connect()
    for one in (mill, twin):
        one.sql("""
            CREATE TABLE orders (id INT PRIMARY KEY, customer INT);
            CREATE MATERIALIZED VIEW named AS
            SELECT o.id, v.name FROM orders o JOIN (VALUES (1, 'one'), (2, 'two'), (3, 'two')) AS v (n, name)
            ON o.customer = v.n;
            CREATE MATERIALIZED VIEW constant AS SELECT 1 AS a
        """)
    agree(mill, twin)
    for one in (mill, twin):
        one.insert("orders", [(i, i % 5) for i in range(20)])
    agree(mill, twin)


def test_spark_minds_bytes_unless_the_last_batch_was_small(mill, monkeypatch):
    """What a batch brings is not known before it is there. A failed one says nothing about the next, and a batch
    nothing about what else is done.
    """
    minded = []
    monkeypatch.setattr(cluster, "mind_bytes", lambda session, is_minded: minded.append(is_minded))
    fill(mill)
    mill.insert("customers", [(50, "east")])
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "SMALL", 1)
        mill.insert("customers", [(51, "east")])
    mill.insert("customers", [(52, "east")])
    with pytest.raises(DataError, match="primary key id = 52"):
        mill.insert("customers", [(52, "east")])
    mill.insert("customers", [(53, "east")])
    assert minded[::2] == [True, False, False, True, False, True]
    assert all(minded[1::2]) and len(minded) == 12


def test_how_spark_hands_rows_over(spark):
    session = maintenance_session(spark, 2)
    setting = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert session.conf.get(setting) == str(2**26)
    mind_bytes(session, False)
    assert session.conf.get(setting) == str(2**31 - 1), "the value for which Spark does not look"
    mind_bytes(session, True)
    assert session.conf.get(setting) == str(2**26)


def test_what_only_the_driver_adds_up_is_handed_over_as_our_session_says(spark, tmp_path, monkeypatch):
    """No bucket has to do with it, so no messages are large, and the frames of the batch are the user's."""
    minded, sessions = [], []
    monkeypatch.setattr(cluster, "mind_bytes", lambda session, is_minded: minded.append(is_minded))
    collected = cluster.collected
    monkeypatch.setattr(cluster, "collected", lambda frame: sessions.append(frame.sparkSession) or collected(frame))
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("CREATE TABLE t (a INT, b INT) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(b) AS s FROM t WHERE a > 1")
    for b in (10, 20):
        mill.apply(t=spark.createDataFrame([(2, b), (1, b)], "a int, b int"))
    assert list(mill.view("v")) == [(30,)]
    assert minded[::2][-1] is False and all(minded[1::2])
    assert all(session is mill._engine.session for session in sessions)
