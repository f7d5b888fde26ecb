"""Streams feed a mill in every change format, in step with one another, each batch once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import viewmill
from viewmill.errors import BindError, DataError
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE kept (id BIGINT PRIMARY KEY, a STRING, b BIGINT);
CREATE TABLE passed (id BIGINT, a STRING, b BIGINT) WITH (stored = false);
CREATE MATERIALIZED VIEW of_kept AS SELECT a, count(*) AS n, sum(b) AS s FROM kept GROUP BY a;
CREATE MATERIALIZED VIEW of_passed AS SELECT a, count(*) AS n, sum(b) AS s FROM passed GROUP BY a
"""


@pytest.fixture
def mill(spark: SparkSession, tmp_path: Path) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql(TABLES)
    return mill


def files(spark: SparkSession, folder: Path, schema: str, *batches: str) -> DataFrame:
    """A stream over JSON files, one for each batch."""
    folder.mkdir(exist_ok=True)
    start = len(list(folder.iterdir()))
    for number, lines in enumerate(batches, start):
        file = folder / f"{number:03d}.json"
        file.write_text(lines)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark takes the oldest file first
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))


def run(mill: SparkMill) -> None:
    mill.start(availableNow=True)
    mill.await_termination()
    mill.stop()


def rows(mill: SparkMill, view: str) -> list[tuple[object, ...]]:
    return sorted(mill.view(view), key=str)


ROW = "id bigint, a string, b bigint"


def test_appends_and_upserts_in_step(mill, spark, tmp_path):
    kept = files(
        spark,
        tmp_path / "kept",
        f"{ROW}, t bigint",
        '{"id": 1, "a": "x", "b": 1, "t": 1}\n{"id": 1, "a": "y", "b": 2, "t": 2}\n{"id": 2, "a": "x", "b": 3, "t": 1}',
        '{"id": 1, "a": "x", "b": 5, "t": 3}',
    )
    passed = files(spark, tmp_path / "passed", ROW, '{"id": 1, "a": "x", "b": 1}', '{"id": 1, "a": "x", "b": 1}')
    mill.stream("kept", kept, changes="upsert", order_by="t")
    mill.stream("passed", passed)
    run(mill)
    assert mill.version == 2
    assert rows(mill, "of_kept") == [("x", 2, 8)]
    assert rows(mill, "of_passed") == [("x", 2, 2)]


def test_a_stream_goes_on_where_it_was(mill, spark, tmp_path):
    stream = files(spark, tmp_path / "passed", ROW, '{"id": 1, "a": "x", "b": 1}')
    mill.stream("passed", stream)
    run(mill)
    again = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    again.stream("passed", files(spark, tmp_path / "passed", ROW, '{"id": 2, "a": "y", "b": 2}'))
    run(again)
    assert rows(again, "of_passed") == [("x", 1, 1), ("y", 1, 2)]
    feed = again._engine.commit.feed
    again._take(feed.place, [], 0)  # Spark repeats a batch whose end it has not heard of
    assert again.version == 2 and (feed.tables, feed.taken) == (("passed",), 1)


TWO = """
CREATE TABLE one (id BIGINT) WITH (stored = false);
CREATE TABLE two (id BIGINT) WITH (stored = false);
CREATE MATERIALIZED VIEW ones AS SELECT count(*) AS n, max(id) AS last FROM one;
CREATE MATERIALIZED VIEW twos AS SELECT count(*) AS n, max(id) AS last FROM two
"""


def test_streams_are_known_by_their_tables(spark, tmp_path):
    """Spark knows them by their order alone: in another one, each would go on where the other was."""

    def streams(number: int, *names: str) -> dict[str, DataFrame]:
        """Two more batches for each: three rows, which are numbered from 0 for one, and from 100 for two."""
        first = {"one": 3 * number, "two": 100 + 3 * number}
        batches = {n: (f'{{"id": {i}}}\n{{"id": {i + 1}}}', f'{{"id": {i + 2}}}') for n, i in first.items()}
        return {name: files(spark, tmp_path / name, "id bigint", *batches[name]) for name in names}

    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql(TWO)
    for name, stream in streams(0, "two", "one").items():
        mill.stream(name, stream)
    run(mill)
    again = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    for name, stream in streams(1, "one", "two").items():
        again.stream(name, stream)
    run(again)
    assert (rows(again, "ones"), rows(again, "twos")) == ([(6, 5)], [(6, 105)])
    third = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    third.stream("one", streams(2, "one")["one"])
    with pytest.raises(BindError, match='the streams were into "one", "two", and are now into "one"'):
        third.start(availableNow=True)
    third.start(anew=True, availableNow=True)  # each begins where its own options say: here, with the first file
    third.await_termination()
    with pytest.raises(DataError, match="started anew while a batch of before was on its way"):
        third._take(again._engine.commit.feed.place, [], 100)
    assert rows(third, "ones") == [(15, 8)] and len(list((tmp_path / "checkpoint" / "streams").iterdir())) == 1


def test_streams_without_rows_touch_nothing(mill, spark, tmp_path):
    """What is not stored could not be read by another view once it had rows."""
    mill.stream("kept", files(spark, tmp_path / "kept", ROW, '{"id": 1, "a": "x", "b": 1}'))
    mill.stream("passed", files(spark, tmp_path / "passed", ROW))
    run(mill)
    assert mill._engine.commit.touched == ("kept",)
    mill.sql("CREATE MATERIALIZED VIEW more AS SELECT count(*) AS n FROM passed")
    assert rows(mill, "of_kept") == [("x", 1, 1)] and rows(mill, "more") == [(0,)]


def test_a_position_that_is_lost_is_missed(mill, spark, tmp_path):
    """Spark would count its batches from 0 again, and those that we have by their numbers would be passed over."""
    mill.stream("passed", files(spark, tmp_path / "passed", ROW, '{"id": 1, "a": "x", "b": 1}', '{"id": 2, "a": "x"}'))
    run(mill)
    shutil.rmtree(tmp_path / "checkpoint" / "streams")
    again = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"))
    again.stream("passed", files(spark, tmp_path / "more", ROW, '{"id": 3, "a": "x", "b": 1}'))
    with pytest.raises(DataError, match="nobody knows how far the streams are"):
        again.start(availableNow=True)
    again.start(anew=True, availableNow=True)
    again.await_termination()
    assert rows(again, "of_passed") == [("x", 3, 2)]


def test_what_a_subscriber_raises_is_told(mill, spark, tmp_path):
    def fails(changes: object) -> None:
        raise ValueError("my subscriber is broken")

    end = mill.view("of_passed").subscribe(fails)
    mill.stream("passed", files(spark, tmp_path / "passed", ROW, '{"id": 1, "a": "x", "b": 1}'))
    mill.start(availableNow=True)
    with pytest.raises(ExceptionGroup, match="committed") as raised:
        mill.await_termination()
    assert raised.group_contains(ValueError, match="my subscriber is broken")
    mill.stop()
    end()
    run(mill)
    assert rows(mill, "of_passed") == [("x", 1, 1)] and mill.version == 1


def test_a_table_that_is_dropped_has_no_stream(mill, spark, tmp_path):
    mill.sql("CREATE TABLE other (id BIGINT, a STRING, b BIGINT) WITH (stored = false)")
    mill.stream("other", files(spark, tmp_path / "other", ROW, '{"id": 1, "a": "x", "b": 1}'))
    mill.start(processingTime="1 second")
    with pytest.raises(BindError, match="the mill's streams are running"):
        mill.sql("DROP TABLE other")
    mill.stop()
    mill.sql("DROP TABLE other")
    with pytest.raises(BindError, match="there is no stream to start"):
        mill.start()
    # One of the same name is another one, and has had nothing.
    mill.sql("CREATE TABLE other (id BIGINT, a STRING, b BIGINT) WITH (stored = false)")
    mill.sql("CREATE MATERIALIZED VIEW of_other AS SELECT id FROM other")
    mill.stream("other", files(spark, tmp_path / "other", ROW))
    run(mill)
    assert rows(mill, "of_other") == [(1,)]


def test_op_columns(mill, spark, tmp_path):
    lines = (
        '{"op": "c", "id": 1, "a": "x", "b": 1}\n{"op": "c", "id": 2, "a": "x", "b": 2}',
        '{"op": "u", "id": 1, "a": "y", "b": 7}\n{"op": "d", "id": 2}\n{"op": "INSERT", "id": 3, "a": "x", "b": 5}',
    )
    mill.stream("kept", files(spark, tmp_path / "kept", f"op string, {ROW}", *lines), changes="cdc")
    run(mill)
    assert rows(mill, "of_kept") == [("x", 1, 5), ("y", 1, 7)]


@pytest.mark.parametrize("table", ["kept", "passed"])
def test_envelopes_of_debezium(mill, spark, tmp_path, table):
    row = "struct<id: bigint, a: string, b: bigint>"
    schema = f"op string, before {row}, after {row}"
    lines = (
        '{"op": "r", "after": {"id": 1, "a": "x", "b": 1}}\n{"op": "c", "after": {"id": 2, "a": "x", "b": 2}}',
        '{"op": "u", "before": {"id": 1, "a": "x", "b": 1}, "after": {"id": 1, "a": "y", "b": 7}}\n'
        '{"op": "u", "before": {"id": 1, "a": "y", "b": 7}, "after": {"id": 1, "a": "y", "b": 8}}\n'
        '{"op": "d", "before": {"id": 2, "a": "x", "b": 2}}',
    )
    mill.stream(table, files(spark, tmp_path / "changes", schema, *lines), changes="debezium")
    run(mill)
    assert rows(mill, f"of_{table}") == [("y", 1, 8)]


@pytest.mark.parametrize("table", ["kept", "passed"])
def test_the_change_feed_of_delta(mill, spark, tmp_path, table):
    lines = (
        '{"_change_type": "insert", "id": 1, "a": "x", "b": 1}\n{"_change_type": "insert", "id": 2, "a": "x", "b": 2}',
        '{"_change_type": "update_preimage", "id": 1, "a": "x", "b": 1}\n'
        '{"_change_type": "update_postimage", "id": 1, "a": "y", "b": 9}\n'
        '{"_change_type": "delete", "id": 2, "a": "x", "b": 2}',
    )
    schema = f"_change_type string, _commit_version bigint, {ROW}"
    mill.stream(table, files(spark, tmp_path / "changes", schema, *lines), changes="delta")
    run(mill)
    assert rows(mill, f"of_{table}") == [("y", 1, 9)]


def test_a_poisoned_row_stops_the_stream_and_nothing_else(mill, spark, tmp_path):
    mill.insert("kept", [(1, "x", 1)])
    folder = tmp_path / "kept"
    mill.stream("kept", files(spark, folder, ROW, '{"id": 2, "a": "x", "b": 1}', '{"id": 1, "a": "bad", "b": 1}'))
    mill.start(availableNow=True)
    with pytest.raises(DataError, match="two rows with primary key id = 1"):
        mill.await_termination()
    assert rows(mill, "of_kept") == [("x", 2, 2)]
    bad = next(file for file in folder.iterdir() if "bad" in file.read_text())
    bad.write_text('{"id": 4, "a": "x", "b": 1}')
    mill.stop()
    run(mill)
    assert rows(mill, "of_kept") == [("x", 3, 3)]


def test_streams_that_cannot_be(mill, spark, tmp_path):
    stream = files(spark, tmp_path / "kept", ROW)
    with pytest.raises(BindError, match='no change format "updates"'):
        mill.stream("kept", stream, changes="updates")
    with pytest.raises(BindError, match="is not a stream"):
        mill.stream("kept", spark.range(1))
    with pytest.raises(BindError, match="there is no stream to start"):
        mill.start()
    with pytest.raises(DataError, match='have no column "op"'):
        mill.stream("kept", stream, changes="cdc")
    with pytest.raises(DataError, match='column "b" of table "kept" is bigint, and the DataFrame has string'):
        mill.stream("kept", files(spark, tmp_path / "kept", "id bigint, a string, b string"))
    mill.stream("kept", stream)
    with pytest.raises(BindError, match="has a stream already"):
        mill.stream("kept", stream)
    mill.start(processingTime="1 second")
    try:
        with pytest.raises(BindError, match="streams are running"):
            mill.start(processingTime="1 second")
        with pytest.raises(BindError, match="streams are running"):
            mill.stream("passed", stream)
    finally:
        mill.stop()


def test_tables_and_columns_may_have_any_name(spark, tmp_path):
    mill = viewmill.connect(spark=spark, checkpoint=str(tmp_path / "checkpoint"), buckets=2)
    mill.sql("CREATE TABLE `of a.shop` (`the.id` BIGINT PRIMARY KEY, a STRING)")
    mill.sql("CREATE MATERIALIZED VIEW now AS SELECT * FROM `of a.shop`")
    lines = '{"the.id": 1, "a": "x"}\n{"the.id": 2, "a": "x"}'
    mill.stream("of a.shop", files(spark, tmp_path / "in", "`the.id` bigint, a string", lines), changes="upsert")
    run(mill)
    assert rows(mill, "now") == [(1, "x"), (2, "x")]
