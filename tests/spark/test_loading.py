"""A first load with very many rows is taken part by part, and is one batch all the same."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from bucket_files import bucket_folder
from half_way import dying_in_job
from logged import rows_logged
from pyspark.sql import DataFrame, SparkSession

import viewmill
from viewmill.durable.files import Files
from viewmill.durable.history import History
from viewmill.engines.spark import engine, parts
from viewmill.engines.spark.engine import SparkEngine
from viewmill.engines.spark.frames import Counted
from viewmill.engines.spark.incoming import Incoming
from viewmill.engines.spark.jobs import counting
from viewmill.errors import DataError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE customers (id INT PRIMARY KEY, region STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
CREATE TABLE clicks (customer INT, page STRING) WITH (stored = false)
"""
QUERIES = {
    "revenue": "SELECT region, count(*) AS n, sum(price) AS total, max(price) AS best FROM orders "
    "JOIN customers ON orders.customer = customers.id GROUP BY region",
    "per_customer": "SELECT customer, count(*) AS n, sum(price) AS total FROM orders GROUP BY customer",
    "above": "SELECT id, price FROM orders WHERE price > (SELECT avg(price) FROM orders)",
    "pages": "SELECT page, count(*) AS n, count(DISTINCT customer) AS people FROM clicks GROUP BY page",
}
ROWS = 40 + 700 + 500


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def mill(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> SparkMill:
    monkeypatch.setattr(parts, "PART_ROWS", 100)
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=2)
    mill.sql(SQL)
    for name, query in QUERIES.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return mill


@pytest.fixture
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    """Columns are not in the order, nor all of the types, of the tables."""
    return {
        "customers": spark.sql("SELECT if(id % 3 = 0, NULL, id % 3 || ' street') AS region, id FROM range(40)"),
        "orders": spark.sql("SELECT id, id * 7 % 40 AS customer, cast(id % 90 AS int) AS price FROM range(700)"),
        "clicks": spark.sql("SELECT cast(id % 40 AS int) AS customer, 'page ' || id % 3 AS page FROM range(500)"),
    }


def agree(mill: SparkMill, frames: dict[str, DataFrame]) -> None:
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    for name, query in QUERIES.items():
        answer = next(iter(frames.values())).sparkSession.sql(query)
        assert Counter(map(tuple, answer.collect())) == Counter(mill.view(name)), name


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of bars."""
    titles: list[str] = []
    shown = engine.shown
    monkeypatch.setattr(engine, "shown", lambda session, title: titles.append(title) or shown(session, title))
    return titles


def persistent(spark: SparkSession) -> set[int]:
    """What executors keep; what tests before this one have left goes when it will."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def test_a_load_in_parts_is_one_batch(mill, frames, folder, spark, monkeypatch):
    titles = recorded(monkeypatch)
    heard = {name: [] for name in QUERIES}
    for name, changes in heard.items():
        mill.view(name).subscribe(changes.append)
    assert mill._engine._cluster.anchor
    kept = persistent(spark)
    mill.apply(**frames)
    assert mill.version == 1
    first, *rest, last = titles
    assert first == "reading the rows" and last == "saving the buckets" and len(rest) == -(-ROWS // 200)
    assert rest == [f"taking the batch, part {i + 1} of {len(rest)}" for i in range(len(rest))]
    agree(mill, frames)
    for name, changes in heard.items():
        (change,) = changes
        assert change.version == 1 and not change.removed and Counter(change.added) == Counter(mill.view(name)), name

    assert persistent(spark) <= kept, "what was computed for the load is given up"
    titles.clear()
    more = spark.sql("SELECT id, 3 AS customer, cast(1 AS decimal(10, 2)) AS price FROM range(5000, 5600)")
    mill.apply(orders=more)
    assert not titles, "a load is the first batch of a table"
    agree(mill, {**frames, "orders": frames["orders"].union(more)})


def test_no_task_gets_more_than_a_part(mill, frames, folder, monkeypatch):
    monkeypatch.setattr(SparkEngine, "_clean", lambda self: None)
    mill.apply(**frames)
    sizes = rows_logged(mill, folder.glob("logs/*/1-*"))
    assert sum(sizes) == ROWS + 500, "clicks go two ways"
    assert max(sizes) < 200 and len(sizes) == 2 * -(-ROWS // 200)


def test_what_was_loaded_is_saved_and_its_logs_are_gone(mill, frames, folder, monkeypatch):
    mill.apply(**frames)
    assert not list(folder.glob("logs/*"))
    assert {file.name for file in folder.glob("snapshots/*/*")} == {f"{part}-{1:012d}" for part in ("0", "1", "driver")}
    assert not mill._engine._due(), "no batch waits for a snapshot"


@pytest.mark.parametrize("problem", [DataError("no room"), RuntimeError("an executor is gone"), KeyboardInterrupt()])
def test_a_load_that_cannot_be_saved_is_there_all_the_same(mill, frames, folder, spark, monkeypatch, problem):
    def fail(self):
        raise problem

    monkeypatch.setattr(SparkEngine, "_save", fail)
    heard = []
    mill.view("pages").subscribe(heard.append)
    with nullcontext() if isinstance(problem, Exception) else pytest.raises(KeyboardInterrupt):
        mill.apply(**frames)
    assert mill.version == 1 and len(list(folder.glob("logs/*"))) == -(-ROWS // 200)
    assert len(heard) == 1
    agree(viewmill.connect(spark=spark, checkpoint=str(folder)), frames)


def test_columns_may_have_any_name(spark, folder, monkeypatch):
    """Also that of the column which says to what part a row belongs."""
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=2)
    mill.sql("CREATE TABLE t (hash_ INT PRIMARY KEY, h INT, k0 INT)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k0, sum(h) AS h, max(hash_) AS hash_ FROM t WHERE h > 1 GROUP BY k0")
    frame = spark.sql(
        "SELECT cast(id AS int) AS HASH_, cast(id % 7 AS int) AS h, cast(id % 3 AS int) AS k0 FROM range(100)"
    )
    mill.apply(t=frame)
    mill.insert("t", [(1000, 5, 1)])
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT hash_, h FROM t WHERE h > 1")
    for view, query in (
        ("v", "SELECT k0, sum(h), max(hash_) FROM t WHERE h > 1 GROUP BY k0"),
        ("w", "SELECT hash_, h FROM t WHERE h > 1"),
    ):
        assert Counter(mill.view(view)) == Counter(mill.sql(query)), view
    with pytest.raises(DataError, match='has no column "hash__"'):
        mill.apply(t=frame.selectExpr("hash_ + 2000 AS hash_", "h", "k0", "1 AS hash__"))


@pytest.mark.parametrize("saved", [True, False])
def test_buckets_are_made_again_from_all_parts(mill, frames, folder, spark, monkeypatch, saved):
    if not saved:
        monkeypatch.setattr(SparkEngine, "_save", lambda self: None)
    mill.apply(**frames)
    shutil.rmtree(bucket_folder(mill))
    agree(mill, frames)
    again = viewmill.connect(spark=spark, checkpoint=str(folder))
    agree(again, frames)
    again.update("orders", [(5, 3, "99.00")])
    again.delete("orders", [{"id": 5}])
    agree(again, {**frames, "orders": frames["orders"].filter("id <> 5")})


def test_a_driver_that_dies_half_way(mill, frames, folder, spark, monkeypatch):
    mill.insert("clicks", [(1, "page 0")])
    committed = History(Files(str(folder))).newest()
    loaded = {name: frame for name, frame in frames.items() if name != "clicks"}
    with dying_in_job(4, monkeypatch):
        mill.apply(**loaded)
    assert History(Files(str(folder))).newest() == committed
    one_click = spark.createDataFrame([(1, "page 0")], "customer int, page string")
    nothing = {name: frame.limit(0) for name, frame in loaded.items()}
    for found in (mill, viewmill.connect(spark=spark, checkpoint=str(folder))):
        assert found.version == 1
        agree(found, {**nothing, "clicks": one_click})
    found.apply(**loaded)
    assert found.version == 2
    agree(found, {**loaded, "clicks": one_click})


def test_what_is_wrong_in_one_part_is_wrong_with_the_batch(mill, frames, folder, spark, monkeypatch):
    titles = recorded(monkeypatch)
    twice = frames["orders"].union(spark.sql("SELECT 345, 1, 1"))
    with pytest.raises(DataError, match="two rows with primary key id = 345"):
        mill.apply(customers=frames["customers"], orders=twice)
    assert 2 <= len(titles) <= 5 and "of 4" in titles[1], "that is an error of the rows, and not tried again at once"
    assert not list(folder.glob("logs/*")), "what was written for it is gone"
    assert mill.version == 0 and not list(mill.view("per_customer"))
    with pytest.raises(DataError, match='lacks column "price"'):
        mill.apply(orders=frames["orders"].drop("price"))
    mill.apply(**frames)
    agree(mill, frames)


def test_rows_that_are_others_each_time_they_are_computed(mill, spark):
    """Also those of a table that has had rows: what comes with a load is cut with it."""
    mill.insert("orders", [(-1, 1, "1.00")])

    def some_clicks(batches):
        for batch in batches:
            pages = [uuid.uuid4().hex for _ in range(batch.num_rows)]
            yield pa.RecordBatch.from_pydict({"customer": pa.array([1] * len(pages), pa.int32()), "page": pages})

    def some_orders(batches):
        for batch in batches:
            ids = [64 * number + uuid.uuid4().int % 64 for number in batch.column(0).to_pylist()]
            columns = {"id": ids, "customer": [1] * len(ids), "price": [2] * len(ids)}
            yield pa.RecordBatch.from_pydict({name: pa.array(values, pa.int32()) for name, values in columns.items()})

    clicks = spark.range(900).mapInArrow(some_clicks, "customer int, page string")
    orders = spark.range(500).mapInArrow(some_orders, "id int, customer int, price int")
    mill.apply(clicks=clicks, orders=orders)
    pages = Counter(mill.view("pages"))
    assert len(pages) == 900 and {(n, people) for _, n, people in pages} == {(1, 1)}
    assert [n for _, n, _ in mill.view("per_customer")] == [501]


@pytest.mark.parametrize("place", ["", "PARTITION BY (g)"])
def test_views_that_are_in_error_half_way(spark, folder, monkeypatch, place):
    """Of every group, the sum of all rows but the last is 0: that is nobody's business, unless it is so in the end."""
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    titles = recorded(monkeypatch)
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=2)
    mill.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, x INT)")
    mill.sql(f"CREATE MATERIALIZED VIEW inverse {place} AS SELECT g, 10 / sum(x) AS y FROM t GROUP BY g")
    rows = "SELECT cast(id AS int) AS k, cast(id % 4 AS int) AS g, if(id >= {}, 1, 0) AS x FROM range(100)"
    with pytest.raises(DataError, match="division by zero"):
        mill.apply(t=spark.sql(rows.format(97)))
    assert len(titles) == 6 and mill.version == 0
    mill.apply(t=spark.sql(rows.format(96)))
    assert len(titles) == 13 and mill.version == 1
    assert sorted(mill.view("inverse")) == [(g, 10.0) for g in range(4)]
    assert mill._engine.is_on_driver("inverse") == (not place)
    again = viewmill.connect(spark=spark, checkpoint=str(folder))
    again.insert("t", [(1000, 0, 1)])
    assert sorted(again.view("inverse")) == [(0, 5.0), *((g, 10.0) for g in range(1, 4))]


def test_what_cannot_be_computed_half_way_is_taken_at_once(spark, folder, monkeypatch):
    """As above, but what is divided is counted, by a trigger."""
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=2)
    mill.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, x INT)")
    query = "SELECT y, count(*) AS n FROM (SELECT g, 10 / sum(x) AS y FROM t GROUP BY g) GROUP BY y"
    mill.sql(f"CREATE MATERIALIZED VIEW inverse AS {query}")
    taken, sizes = SparkEngine._taken, []
    monkeypatch.setattr(SparkEngine, "_taken", lambda self, *given: sizes.append(len(given[2])) or taken(self, *given))
    mill.apply(
        t=spark.sql("SELECT cast(id AS int) AS k, cast(id % 4 AS int) AS g, if(id >= 90, 1, 0) AS x FROM range(100)")
    )
    assert sizes == [5, 1] and mill.version == 1
    assert Counter(mill.view("inverse")) == Counter(mill.sql(query))


def test_a_log_that_cannot_be_read_is_no_reason_to_take_everything_at_once(spark, frames, folder, monkeypatch):
    """Nor is any other error that has nothing to do with the state half way."""
    monkeypatch.setattr(parts, "PART_ROWS", 100)
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=2)
    mill.sql(SQL)
    query = "SELECT customer, count(*) AS n FROM clicks GROUP BY customer"
    mill.sql(f"CREATE MATERIALIZED VIEW v PARTITION BY (customer) AS {query}")
    with_logs, taken, sizes = engine.with_logs, SparkEngine._taken, []

    def damaged(entries, found):
        for file in folder.glob("logs/*/1-*"):
            file.write_bytes(file.read_bytes()[:-9])
        return with_logs(entries, found)

    monkeypatch.setattr(SparkEngine, "_taken", lambda self, *given: sizes.append(len(given[2])) or taken(self, *given))
    with monkeypatch.context() as patch:
        patch.setattr(engine, "with_logs", damaged)
        with pytest.raises(DataError, match="is damaged: its checksum is wrong"):
            mill.apply(clicks=frames["clicks"])
    assert sizes == [3] and mill.version == 0
    mill.apply(clicks=frames["clicks"])
    assert sorted(n for _, n in mill.view("v")) == [12] * 20 + [13] * 20


def test_a_batch_has_no_more_tasks_than_run_at_once(mill, frames, spark):
    mill.apply(**frames)
    columns = ("cast(id AS int) AS id", "cast(id % 40 AS int) AS customer", "cast(id % 90 AS int) AS price")
    more = spark.range(5000, 5600, 1, 24).selectExpr(*columns)
    with counting(spark) as cost:
        mill.apply(orders=more)
    assert cost().jobs == 1
    assert cost().tasks <= max(spark.sparkContext.defaultParallelism, 2) + 2 * (cost().stages - 1)
    agree(mill, {**frames, "orders": frames["orders"].union(more)})


def test_rows_that_are_only_added_up_are_filtered_by_spark(spark, folder):
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=2)
    mill.sql("CREATE TABLE t (a INT, b INT) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t WHERE b > 5")
    frame = spark.sql("SELECT cast(id AS int) AS a, cast(id % 10 AS int) AS b FROM range(100)")
    mill.apply(t=frame)
    assert list(mill.view("v")) == [(sum(a for a in range(100) if a % 10 > 5),)]
    deployed = mill._engine.deployed
    assert not deployed.steps(("t",)), "no bucket has to do with it"
    rows = Incoming().rows(deployed.sends(("t",)), {"t": [Counted(frame, 1)]}, deployed.given)
    assert rows["t"].count() == 40
