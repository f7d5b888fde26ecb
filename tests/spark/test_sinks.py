"""Views that are written after every batch: what is there is the view, at one version, whatever dies when."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import viewmill
from viewmill import SinkError
from viewmill.catalog import ColumnInfo
from viewmill.durable.files import FileError, Files
from viewmill.engines.spark.columns import spark_type
from viewmill.engines.spark.engine import SparkEngine
from viewmill.errors import BindError, DataError, UnsupportedError
from viewmill.sinks.latest import Latest
from viewmill.sinks.parquet import STAGING
from viewmill.sinks.registry import Sinks
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

SQL = """
CREATE TABLE sales (id INT PRIMARY KEY, shop STRING, day DATE, at TIMESTAMP, price DECIMAL(10, 2), kilos DOUBLE);
CREATE TABLE labels (sale INT, label STRING) WITH (stored = false);
CREATE MATERIALIZED VIEW dear AS SELECT id, shop, day, at, price, kilos FROM sales WHERE price > 3 OR price IS NULL;
CREATE MATERIALIZED VIEW labelled AS
SELECT s.id, l.label, s.price FROM sales s JOIN labels l ON s.id = l.sale;
CREATE MATERIALIZED VIEW plain AS SELECT shop, day, price FROM sales;
CREATE MATERIALIZED VIEW per_shop AS
SELECT shop, count(*) AS n, sum(price) AS total, max(day) AS latest FROM sales GROUP BY shop;
CREATE MATERIALIZED VIEW best AS SELECT id, price FROM sales ORDER BY price DESC, id LIMIT 3
"""
IN_BUCKETS = {"dear", "labelled"}
VIEWS = ("dear", "labelled", "plain", "per_shop", "best")


@pytest.fixture
def mill(spark: SparkSession, tmp_path: Path) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql(SQL)
    return mill


@pytest.fixture
def twin() -> viewmill.Mill:
    """An embedded mill that takes the same batches."""
    twin = viewmill.connect()
    twin.sql(SQL)
    return twin


def sale(number: int, shop: str | None, price: str | None) -> tuple[Any, ...]:
    day = None if number % 7 == 0 else date(2026, 1, 1 + number % 20)
    at = None if number % 5 == 0 else datetime(2026, 3, 29, 2, number % 60, 7, 123456)  # in Europe, there is no such
    return number, shop, day, at, None if price is None else Decimal(price), None if number % 3 else number / 8


def first(mill: SparkMill | viewmill.Mill) -> None:
    with mill.batch() as batch:
        batch.insert("sales", [sale(i, ("east", "west", None)[i % 3], f"{i % 6}.50") for i in range(24)])
        batch.insert("labels", [(i % 4, "red") for i in range(8)])


def second(mill: SparkMill | viewmill.Mill) -> None:
    with mill.batch() as batch:
        batch.update("sales", [sale(1, "west", "9.75"), sale(2, None, None), sale(3, "east", "0.25")])
        batch.delete("sales", [{"id": 5}, {"id": 11}])
        batch.insert("sales", [sale(100, "north", "4.00")])
        batch.insert("labels", [(1, "red"), (2, None)])
        batch.delete("labels", [(0, "red")])


def third(mill: SparkMill | viewmill.Mill) -> None:
    with mill.batch() as batch:
        batch.delete("sales", [{"id": 100}, {"id": 1}])
        batch.insert("labels", [(777, "of nothing")])


def nothing(mill: SparkMill | viewmill.Mill) -> None:
    """It changes no view."""
    mill.insert("labels", [(778, "of nothing")])


BATCHES = (first, second, nothing, third)


def rows(frame: DataFrame) -> Counter[Any]:
    return Counter(zip(*(column.to_pylist() for column in frame.toArrow().columns), strict=True))


def summed(spark: SparkSession, path: Path | str) -> Counter[Any]:
    """The view that changes make."""
    changes = spark.read.parquet(str(path))
    *names, kind, version = changes.columns
    assert (kind, version) == ("_change_type", "_commit_version")
    net: Counter[Any] = Counter()
    for row, count in rows(changes.select(*names, kind)).items():
        net[row[:-1]] += count if row[-1] == "insert" else -count
    assert min(net.values(), default=0) >= 0
    return +net


def known(mill: SparkMill | viewmill.Mill, view: str) -> Counter[Any]:
    """As Spark gives timestamps: moments."""
    return Counter(tuple(_in_zone(value) for value in row) for row in mill.view(view))


def _in_zone(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def in_utc(counted: Counter[Any]) -> Counter[Any]:
    """Whatever zone a session has shown them in."""
    return Counter({tuple(map(_moved, row)): count for row, count in counted.items()})


def _moved(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def types(columns: tuple[ColumnInfo, ...]) -> list[tuple[str, Any]]:
    return [(column.name, spark_type(column.type)) for column in columns]


def test_where_views_live(mill):
    """The tests below are about both."""
    first(mill)
    assert {name for name in VIEWS if not mill._engine.is_on_driver(name)} >= IN_BUCKETS


def test_every_version_and_every_change_is_there(mill, twin, spark, tmp_path):
    for name in VIEWS:
        mill.view(name).write(tmp_path / "versions" / name)
        mill.view(name).write(str(tmp_path / "changes" / name), mode="changes")
    for version, batch in enumerate((None, *BATCHES)):
        if batch is not None:
            batch(mill)
            batch(twin)
        for name in VIEWS:
            expected = known(twin, name)
            assert Counter(mill.view(name)) == Counter(twin.view(name)), (name, version)
            frame = viewmill.read_versioned(spark, str(tmp_path / "versions" / name))
            assert in_utc(rows(frame)) == expected, (name, version)
            assert [(field.name, field.dataType) for field in frame.schema] == types(mill.view(name).columns)
            assert in_utc(summed(spark, tmp_path / "changes" / name)) == expected, (name, version)
    changes = spark.read.parquet(str(tmp_path / "changes" / "per_shop"))
    assert [row[0] for row in changes.select("_commit_version").distinct().orderBy("_commit_version").collect()] == [
        1,
        2,
        4,
    ]
    least = changes.filter("_commit_version = 4").select("shop", "n", "_change_type").collect()
    assert ("north", 1, "delete") in [tuple(row) for row in least]


def test_what_a_batch_did_is_known_without_reading_the_view(mill, twin, spark, tmp_path, monkeypatch):
    mill.view("dear").write(tmp_path / "dear", mode="changes")
    mill.view("labelled").write(tmp_path / "labelled", mode="changes")
    heard = []
    mill.view("labelled").subscribe(heard.append)
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            pytest.fail("a view was read")

        patch.setattr(SparkEngine, "frame", refuse)
        for batch in BATCHES:
            batch(mill)
            batch(twin)
    for name in ("dear", "labelled"):
        assert in_utc(summed(spark, tmp_path / name)) == known(twin, name)
    assert [change.version for change in heard] == [1, 2, 4]
    total: Counter[Any] = Counter()
    for change in heard:
        total.update(change.added)
        total.subtract(change.removed)
    assert +total == Counter(twin.view("labelled"))


def test_a_version_can_be_read_while_others_come(mill, spark, tmp_path):
    path = str(tmp_path / "dear")
    mill.view("dear").write(path, keep=2)
    first(mill)
    then, frame = known(mill, "dear"), viewmill.read_versioned(spark, path)
    second(mill)
    nothing(mill)
    now = known(mill, "dear")
    assert then != now
    assert in_utc(rows(frame)) == in_utc(rows(viewmill.read_versioned(spark, path, version=1))) == then
    for version in (2, 3):
        assert in_utc(rows(viewmill.read_versioned(spark, path, version=version))) == now
    assert len(list((tmp_path / "dear" / "_versions").iterdir())) == 2
    third(mill)
    with pytest.raises(DataError, match="does not have version 1\nhint: there are versions 2 to 3, 4"):
        viewmill.read_versioned(spark, path, version=1)
    assert len(list((tmp_path / "dear" / "_versions").iterdir())) == 2
    with pytest.raises(AnalysisException):
        spark.read.parquet(path)  # not a heap of all versions


def test_the_newest_version_can_be_found_by_others(mill, tmp_path):
    import pyarrow.parquet as pq

    mill.view("per_shop").write(tmp_path / "per_shop")
    first(mill)
    latest = json.loads((tmp_path / "per_shop" / "_latest").read_text())
    assert (latest["version"], latest["view"], latest["columns"][1]) == (1, "per_shop", ["n", "bigint", False])
    table = pq.read_table(tmp_path / "per_shop" / latest["folders"][-1][0])
    assert Counter(zip(*(c.to_pylist() for c in table.columns), strict=True)) == Counter(mill.view("per_shop"))


@pytest.mark.parametrize("mode", ["versioned", "changes"])
def test_a_driver_that_dies_before_a_view_is_written(mill, twin, spark, tmp_path, monkeypatch, mode):
    """At each of the moments there are: nothing is written, or all but `_latest`."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("dear", "per_shop", "best"):
        mill.view(name).write(tmp_path / name, mode=mode)
    for batch, what, method in ((first, Sinks, "take"), (second, Latest, "write"), (third, Sinks, "take")):
        with monkeypatch.context() as patch:
            patch.setattr(what, method, die)
            with pytest.raises(KeyboardInterrupt):
                batch(mill)
        batch(twin)
        mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
        for name in ("dear", "per_shop", "best"):
            mill.view(name).write(tmp_path / name, mode=mode)
            assert in_utc(read_back(spark, tmp_path / name, mode)) == known(twin, name)
    nothing(mill)
    for name in ("dear", "per_shop", "best"):
        assert in_utc(read_back(spark, tmp_path / name, mode)) == known(twin, name)


def read_back(spark: SparkSession, path: Path, mode: str) -> Counter[Any]:
    return summed(spark, path) if mode == "changes" else rows(viewmill.read_versioned(spark, str(path)))


@pytest.mark.parametrize("mode", ["versioned", "changes"])
def test_a_batch_that_cannot_be_written_is_made_up_for(mill, twin, spark, tmp_path, monkeypatch, mode):
    heard = []
    mill.view("dear").subscribe(heard.append)
    for name in ("dear", "per_shop"):
        mill.view(name).write(tmp_path / name, mode=mode)
    first(mill)
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise OSError("no space left on device")

        patch.setattr(Latest, "write", fail)
        with pytest.raises(ExceptionGroup) as group:
            second(mill)
    (error, _) = group.value.exceptions
    assert isinstance(error, SinkError)
    assert error.message == (
        f'the batch was committed as version 2, but view "dear" could not be written to "{tmp_path / "dear"}": '
        "OSError: no space left on device"
    )
    assert mill.version == 2 and len(heard) == 2
    third(mill)
    for batch in (first, second, third):
        batch(twin)
    for name in ("dear", "per_shop"):
        assert in_utc(read_back(spark, tmp_path / name, mode)) == known(twin, name)


@pytest.mark.parametrize("mode", ["versioned", "changes"])
def test_a_view_is_written_though_what_is_old_stays(mill, twin, spark, tmp_path, monkeypatch, mode):
    tried = []

    def fail(self: Files, name: str) -> None:
        tried.append(name)
        raise FileError("read only", hint="wait")

    monkeypatch.setattr(Files, "remove", fail)
    end = mill.view("dear").write(tmp_path / "dear", mode=mode, keep=1)
    (tmp_path / "dear" / f"{STAGING}left").mkdir()
    end()
    mill.view("dear").write(tmp_path / "dear", mode=mode, keep=1)
    for batch in (first, second, third):
        batch(mill)
        batch(twin)
        assert in_utc(read_back(spark, tmp_path / "dear", mode)) == known(twin, "dear")
    assert tried


def test_writing_ends_and_goes_on(twin, spark, tmp_path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql(SQL.replace(" WITH (stored = false)", ""))  # so that views can come and go
    end = mill.view("dear").write(tmp_path / "dear", mode="changes")
    with pytest.raises(BindError, match="written to .* already"):
        mill.view("dear").write(tmp_path / "dear", mode="changes")
    first(mill)
    end()
    end()
    before = summed(spark, tmp_path / "dear")
    second(mill)
    assert summed(spark, tmp_path / "dear") == before
    mill.view("dear").write(tmp_path / "dear", mode="changes")
    for batch in (first, second):
        batch(twin)
    assert in_utc(summed(spark, tmp_path / "dear")) == known(twin, "dear")
    mill.sql("CREATE MATERIALIZED VIEW another AS SELECT id FROM sales")
    third(mill)
    third(twin)
    assert in_utc(summed(spark, tmp_path / "dear")) == known(twin, "dear"), "other views may come"
    mill.sql("DROP MATERIALIZED VIEW dear")
    nothing(mill)


def test_places_of_others_are_refused(mill, spark, tmp_path):
    first(mill)
    dear, plain = mill.view("dear"), mill.view("plain")
    dear.write(tmp_path / "dear")
    other = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "other"), buckets=2)
    other.sql(SQL)
    with pytest.raises(DataError, match='holds view "dear" of another mill, written with mode "versioned"'):
        other.view("dear").write(tmp_path / "dear")
    with pytest.raises(DataError, match='holds view "dear" written with mode "versioned"'):
        plain.write(tmp_path / "dear")
    with pytest.raises(DataError, match='holds view "dear" written with mode "versioned"'):
        dear.write(tmp_path / "dear", mode="changes")
    with pytest.raises(DataError, match="is not empty, and no view was written there"):
        dear.write(tmp_path)
    with pytest.raises(BindError, match='cannot be written with mode "version"\nhint: did you mean "versioned"'):
        dear.write(tmp_path / "mode", mode="version")  # type: ignore[arg-type]
    with pytest.raises(BindError, match="keep at least 1"):
        dear.write(tmp_path / "keep", keep=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        dear.write(tmp_path / "file" / "dear")
    assert list(mill._sinks.written) == ["dear"]


def test_a_place_has_one_view_however_it_is_spelled(mill, tmp_path):
    end = mill.view("dear").write(tmp_path / "dear")
    for place in (f"{tmp_path}/other/../dear", f"file://{tmp_path}/dear"):
        with pytest.raises(BindError, match="is written to .* already"):
            mill.view("dear").write(place)
    for place in ("checkpoint", "checkpoint/logs/out"):
        with pytest.raises(BindError, match="which is in the mill's checkpoint"):
            mill.view("plain").write(tmp_path / place)
    end()


def test_files_of_others_among_changes(mill, twin, spark, tmp_path):
    for one in (mill, twin):
        first(one)
    end = mill.view("dear").write(tmp_path / "dear", mode="changes")
    (tmp_path / "dear" / "changes-foo.parquet.tmp").write_text("")
    end()
    mill.view("dear").write(tmp_path / "dear", mode="changes")
    for one in (mill, twin):
        second(one)
    assert in_utc(read_back(spark, tmp_path / "dear" / "changes-*.parquet", "changes")) == known(twin, "dear")


def test_a_place_that_is_ahead_of_the_mill(mill, tmp_path):
    first(mill)
    mill.view("dear").write(tmp_path / "dear")()
    text = (tmp_path / "dear" / "_latest").read_text()
    (tmp_path / "dear" / "_latest").write_text(text.replace('"version": 1', '"version": 9'))
    with pytest.raises(DataError, match='holds version 9 of view "dear", the mill is at 1'):
        mill.view("dear").write(tmp_path / "dear")


def test_views_with_other_columns(mill, tmp_path):
    mill.view("plain").write(tmp_path / "plain")()
    mill.sql("DROP MATERIALIZED VIEW plain; CREATE MATERIALIZED VIEW plain AS SELECT shop, price FROM sales")
    with pytest.raises(DataError, match="with other columns: shop string, day date, price .*, not shop string, price"):
        mill.view("plain").write(tmp_path / "plain")


def test_columns_that_cannot_be_written(mill, tmp_path):
    mill.sql("""
        CREATE MATERIALIZED VIEW nothing AS SELECT id, NULL AS x FROM sales;
        CREATE MATERIALIZED VIEW kinds AS SELECT id AS _change_type FROM sales
    """)
    with pytest.raises(UnsupportedError, match='column "x" of view "nothing" is always NULL'):
        mill.view("nothing").write(tmp_path / "nothing")
    with pytest.raises(BindError, match='column "_change_type" of view "kinds" has a name that written changes need'):
        mill.view("kinds").write(tmp_path / "kinds", mode="changes")
    mill.view("kinds").write(tmp_path / "kinds")


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE DATABASE outside")
    yield "outside"
    spark.sql("DROP DATABASE outside CASCADE")


def test_names_of_the_catalog(mill, twin, spark, schema, tmp_path):
    mill.view("dear").write(f"{schema}.dear")
    mill.view("labelled").write(f"spark_catalog.{schema}.labelled_changes", mode="changes")
    for batch in BATCHES:
        batch(mill)
        batch(twin)
        assert in_utc(rows(spark.table(f"{schema}.dear"))) == known(twin, "dear")
        changes = spark.newSession().table(f"{schema}.labelled_changes")  # whichever session asks
        assert changes.filter("_change_type = 'insert'").count() - changes.filter(
            "_change_type = 'delete'"
        ).count() == len(twin.view("labelled"))
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    mill.view("dear").write(f"{schema}.dear")
    assert in_utc(rows(spark.table(f"{schema}.dear"))) == known(twin, "dear")
    spark.sql(f"CREATE TABLE {schema}.taken (a INT) USING parquet")
    with pytest.raises(DataError, match='catalog has another table or view "outside.taken"'):
        mill.view("dear").write(f"{schema}.taken")
    with pytest.raises(DataError, match='catalog does not take view "nowhere.dear"'):
        mill.view("dear").write("nowhere.dear")


def test_a_stream_over_changes_sees_whole_batches(mill, twin, spark, tmp_path):
    mill.view("labelled").write(tmp_path / "out", mode="changes")
    first(mill)
    first(twin)
    seen: list[tuple[set[int], Counter[Any]]] = []

    def take(frame: DataFrame, number: int) -> None:
        seen.append(({row[0] for row in frame.select("_commit_version").distinct().collect()}, rows(frame)))

    def run() -> None:
        source = spark.readStream.schema(spark.read.parquet(str(tmp_path / "out")).schema)
        stream = source.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "out"))
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "stream"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    for batch in (second, nothing, third):
        batch(mill)
        batch(twin)
    run()
    assert [versions for versions, _ in seen if versions] == [{1}, {2}, {4}]
    net: Counter[Any] = Counter()
    for _, changed in seen:
        for row, count in changed.items():
            net[row[:-2]] += count if row[-2] == "insert" else -count
    assert +net == known(twin, "labelled")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_data_frames_stay_what_they_were(mill, spark, tmp_path, zone):
    first(mill)
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", zone)
    mill._spark = other
    frames = {name: mill.view(name).to_df() for name in VIEWS}
    then = {name: known(mill, name) for name in VIEWS}
    second(mill)
    third(mill)
    for name, frame in frames.items():
        assert in_utc(rows(frame)) == then[name], name
        assert [(field.name, field.dataType, field.nullable) for field in frame.schema] == [
            (column.name, spark_type(column.type), column.nullable) for column in mill.view(name).columns
        ], name
        assert frame.sparkSession.conf.get("spark.sql.session.timeZone") == zone


def test_data_frames_belong_to_the_users_session(mill, spark):
    first(mill)
    frame = mill.view("dear").to_df()
    frame.createOrReplaceTempView("dear_of_the_user")
    ours = spark.createDataFrame([(i,) for i in range(5)], "id int")
    assert ours.join(frame, "id").count() == spark.sql("SELECT * FROM dear_of_the_user WHERE id < 5").count()
    assert not [table for table in spark.catalog.listTables("global_temp") if table.name.startswith("viewmill")]
    spark.catalog.dropTempView("dear_of_the_user")


def test_an_embedded_mill_does_not_write(twin, tmp_path):
    with pytest.raises(UnsupportedError, match="not on Spark"):
        twin.view("dear").write(tmp_path / "dear")
