"""Changes in the words of other systems: each row is followed or refused, in whatever order rows arrive."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.errors import BindError, DataError, ViewmillError
from viewmill.sources.formats import ChangeFormat, Kind
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE kept (id BIGINT PRIMARY KEY, a STRING, b BIGINT);
CREATE TABLE passed (id BIGINT, a STRING, b BIGINT) WITH (stored = false);
CREATE MATERIALIZED VIEW kept_now AS SELECT * FROM kept;
CREATE MATERIALIZED VIEW passed_now AS SELECT * FROM passed
"""
COLUMNS = "id bigint, a string, b bigint"
ROW = "struct<id: bigint, a: string, b: bigint>"
CDC = f"op string, {COLUMNS}, t bigint, u bigint"
ENVELOPE = f"op string, before {ROW}, after {ROW}, source struct<lsn: bigint>"
FEED = f"_change_type string, {COLUMNS}"
SCHEMAS: dict[Kind, str] = {
    "append": COLUMNS,
    "upsert": f"{COLUMNS}, t bigint",
    "cdc": CDC,
    "debezium": ENVELOPE,
    "delta": FEED,
}
OLD = [(1, "x", 1), (2, "x", 2)]


@pytest.fixture(scope="module")
def mill(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterable[SparkMill]:
    with viewmill.connect(spark=spark, checkpoint=str(tmp_path_factory.mktemp("checkpoint")), buckets=2) as mill:
        mill.sql(TABLES)
        yield mill


def take(mill: SparkMill, table: str, kind: Kind, rows: list[tuple[object, ...]], **how: object) -> list[object]:
    """What a table has after changes, which arrive in two orders; or both times the same error, and nothing."""
    info, found = mill._definitions.table(table, "stream into").info, []
    for number, given in enumerate((rows, rows[::-1])):
        with mill.batch() as batch:
            batch.delete(table, mill.view(f"{table}_now").to_arrow())
            batch.insert(table, OLD)
        frame = mill._engine.session.createDataFrame(given, SCHEMAS[kind]).repartition(2 + number)
        try:
            mill._commit(ChangeFormat(kind, **how).requests(frame, info))
            found.append(sorted(mill.view(f"{table}_now"), key=str))
        except ViewmillError as error:
            assert sorted(mill.view(f"{table}_now")) == OLD
            found.append(f"{type(error).__name__}: {error.message}")
    assert found[0] == found[1]
    if isinstance(found[0], str):
        raise DataError(found[0])
    return found[0]


def cdc(op: str | None, row: tuple[object, ...], t: int = 0, u: int = 0) -> tuple[object, ...]:
    return (op, *row, t, u)


GONE = (1, None, None)


def test_a_key_that_came_and_went_was_never_there(mill):
    rows = [cdc("c", (3, "y", 3), 1), cdc("d", (3, None, None), 2), cdc("u", (2, "y", 2), 1)]
    assert take(mill, "kept", "cdc", rows, order_by=("t",)) == [(1, "x", 1), (2, "y", 2)]


def test_a_key_that_went_twice_is_gone(mill):
    assert take(mill, "kept", "cdc", [cdc("d", GONE), cdc("DELETE", GONE)]) == [(2, "x", 2)]
    assert take(mill, "kept", "cdc", [cdc("d", (7, None, None))]) == OLD


def test_several_columns_tell_which_is_the_last(mill):
    rows = [cdc("u", (1, "z", 1), 1, 1), cdc("u", (1, "y", 1), 1, 2), cdc("d", GONE, 0, 9)]
    assert take(mill, "kept", "cdc", rows, order_by=("t", "u")) == [(1, "y", 1), (2, "x", 2)]


@pytest.mark.parametrize("rows", [[("u", (1, "y", 1)), ("d", GONE)], [("u", (1, "y", 1)), ("u", (1, "z", 1))]])
@pytest.mark.parametrize("order_by", [(), ("t",)])
def test_changes_of_a_key_that_have_no_order_are_refused(mill, rows, order_by):
    with pytest.raises(DataError, match='two changes of the row of table "kept" with id = 1 come together'):
        take(mill, "kept", "cdc", [cdc(*row) for row in rows], order_by=order_by)


def test_upserts_without_an_order(mill):
    assert take(mill, "kept", "upsert", [(1, "y", 1, 0)] * 2 + [(3, "x", 3, 0)]) == [(1, "y", 1), OLD[1], (3, "x", 3)]
    with pytest.raises(DataError, match="id = 1 come together"):
        take(mill, "kept", "upsert", [(1, "y", 1, 1), (1, "z", 1, 2)])


@pytest.mark.parametrize("order_by", [(), ("t",)])
@pytest.mark.parametrize(("op", "word"), [(None, "NULL"), ("upd", '"upd"')])
def test_operations_that_nobody_knows(mill, op, word, order_by):
    """Also of a row that is not the last of its key."""
    rows = [cdc(op, (1, "y", 1), 1), cdc("u", (2, "y", 2), 2), *([cdc("u", (1, "z", 1), 2)] if order_by else [])]
    with pytest.raises(
        DataError, match=f'column "op" of a change of table "kept" is {word}, .* {{"id":1,"a":"y","b":1}}'
    ):
        take(mill, "kept", "cdc", rows, order_by=order_by)


def test_rows_before_an_update_are_passed_over(mill):
    assert take(mill, "kept", "cdc", [cdc("-U", (1, "x", 1)), cdc("+U", (1, "y", 1))]) == [(1, "y", 1), (2, "x", 2)]


NEVER = (None, None, None, None)
"""What Kafka is sent after a delete, so that it forgets the key."""


def envelope(op: str, before: object, after: object, lsn: int = 0) -> tuple[object, ...]:
    return (op, before, after, (lsn,))


@pytest.mark.parametrize("table", ["kept", "passed"])
def test_envelopes_are_added_up(mill, table):
    rows = [envelope("u", (1, "x", 1), (1, "y", 1)), envelope("u", (1, "y", 1), (1, "z", 1))]
    rows += [envelope("d", (2, "x", 2), None), NEVER, envelope("m", None, None), envelope("r", None, (3, "x", 3))]
    assert take(mill, table, "debezium", rows) == [(1, "z", 1), (3, "x", 3)]


def test_envelopes_without_rows_before(mill):
    rows = [envelope("u", None, (1, "y", 1), 1), envelope("u", None, (1, "z", 1), 2), NEVER]
    rows += [envelope("d", (2, None, None), None, 3), envelope("c", None, (4, "x", 4), 4)]
    assert take(mill, "kept", "debezium", rows, order_by=("source.lsn",)) == [(1, "z", 1), (4, "x", 4)]
    with pytest.raises(DataError, match="lacks the row before it"):
        take(mill, "kept", "debezium", rows)
    with pytest.raises(DataError, match="lacks the row after it"):
        take(mill, "kept", "debezium", [envelope("u", (1, "x", 1), None)], order_by=("source.lsn",))
    with pytest.raises(DataError, match="lacks the row before it"):
        take(mill, "kept", "debezium", [envelope("d", None, None)], order_by=("source.lsn",))


@pytest.mark.parametrize("order_by", [(), ("source.lsn",)])
def test_a_table_that_is_truncated(mill, order_by):
    with pytest.raises(DataError, match='column "op" of a change of table "kept" is "t"'):
        take(mill, "kept", "debezium", [envelope("t", None, None), envelope("c", None, (3, "x", 3))], order_by=order_by)


@pytest.mark.parametrize(("kind", "word"), [(None, "NULL"), ("Insert", '"Insert"')])
def test_kinds_of_changes_that_delta_does_not_have(mill, kind, word):
    with pytest.raises(DataError, match=f'"_change_type" of a change of table "kept" is {word}'):
        take(mill, "kept", "delta", [(kind, 3, "x", 3), ("insert", 4, "x", 4)])


def test_what_the_columns_tell_is_refused_before_there_is_a_batch(mill, spark):
    kept = mill._definitions.table("kept", "stream into").info
    passed = mill._definitions.table("passed", "stream into").info
    frame = spark.createDataFrame([], CDC)
    with pytest.raises(DataError, match='have no column "when"'):
        ChangeFormat("cdc", order_by=("when",)).requests(frame, kept)
    with pytest.raises(DataError, match='have no column "kind"'):
        ChangeFormat("cdc", op="kind").requests(frame, kept)
    with pytest.raises(DataError, match='have no column "b"'):
        ChangeFormat("upsert").requests(frame.drop("b"), kept)
    with pytest.raises(DataError, match='have no column "before.b"'):
        ChangeFormat("debezium").requests(spark.createDataFrame([], ENVELOPE.replace(", b: bigint", "")), kept)
    with pytest.raises(BindError, match='"debezium with order_by" need the old rows of table "passed"'):
        ChangeFormat("debezium", order_by=("source.lsn",)).requests(spark.createDataFrame([], ENVELOPE), passed)
    with pytest.raises(DataError, match='column "payload" .* is no struct'):
        ChangeFormat("debezium").requests(spark.createDataFrame([], "payload string"), kept)
    with pytest.raises(DataError, match='column "before" .* is no struct'):
        ChangeFormat("debezium").requests(spark.createDataFrame([], "op string, before string, after string"), kept)
    with pytest.raises(DataError, match='cannot be ordered by "m"'):
        frame = spark.createDataFrame([], f"{COLUMNS}, m map<string, int>")
        ChangeFormat("upsert", order_by=("m",)).requests(frame, kept)
    with pytest.raises(DataError, match='have no column "t..x"'):
        ChangeFormat("upsert", order_by=("t..x",)).requests(frame, kept)
    with pytest.raises(DataError, match='column "id" of table "kept" is bigint, and the DataFrame has array'):
        frame = spark.createDataFrame([], "id array<int>, a string, b bigint, t bigint")
        ChangeFormat("upsert", order_by=("t",)).requests(frame, kept)
    for kind in ("append", "delta"):
        with pytest.raises(BindError, match="order_by says nothing"):
            ChangeFormat(kind, order_by=("t",))


def test_names_are_found_in_any_case(mill, spark):
    """Also in a session that tells cases apart; what else there is may have any name."""
    kept = mill._definitions.table("kept", "stream into").info
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        frame = spark.sql("SELECT 'd' AS op, 1L AS ID, '' AS A, 0L AS b, 1 AS t, 1 AS x, 2 AS X")
        last = ChangeFormat("cdc", order_by=("t",)).requests(frame, kept)
        row = "named_struct('ID', 1L, 'A', '', 'b', 0L)"
        envelope = spark.sql(f"SELECT 'u' AS op, {row} AS before, {row} AS after, 1 AS t")
        rows = [ChangeFormat("debezium", order_by=o).requests(envelope, kept) for o in ((), ("t",))]
        for request in (*last, *rows[0], *rows[1]):
            assert set(request.frame.columns) <= {"id", "a", "b"} and request.frame.count() <= 1
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_keys_are_the_same_as_the_table_has_them(mill, spark, tmp_path):
    """Whatever collation texts come with."""
    with viewmill.connect(spark=spark, checkpoint=str(tmp_path), buckets=2) as other:
        other.sql("CREATE TABLE s (k STRING PRIMARY KEY, b BIGINT); CREATE MATERIALIZED VIEW v AS SELECT * FROM s")
        rows = "VALUES ('a', 1L, 1), ('A', 2L, 2), ('a', 3L, 3) AS x(k, b, t)"
        frame = spark.sql(f"SELECT k COLLATE UTF8_LCASE AS k, b, t FROM {rows}")
        info = other._definitions.table("s", "stream into").info
        other._commit(ChangeFormat("upsert", order_by=("t",)).requests(frame, info))
        assert sorted(other.view("v")) == [("A", 2), ("a", 3)]


def test_columns_may_have_any_name(spark, tmp_path):
    """Also those that formats use for themselves, and some that Spark would read as a way into a struct."""
    with viewmill.connect(spark=spark, checkpoint=str(tmp_path), buckets=2) as mill:
        mill.sql("CREATE TABLE t (`rank_` BIGINT PRIMARY KEY, `gone_` STRING, `a.b` STRING, `op` INT)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        info = mill._definitions.table("t", "stream into").info
        columns = "`rank_` bigint, `gone_` string, `a.b` string, `op` int"
        rows = [("c", 1, "x", "p", 1, 1), ("u", 1, "y", "q", 2, 2), ("c", 2, "x", "p", 1, 1), ("d", 2, "", "", 0, 2)]
        frame = spark.createDataFrame(rows, f"what string, {columns}, t bigint")
        mill._commit(ChangeFormat("cdc", op="what", order_by=("t",)).requests(frame, info))
        assert list(mill.view("v")) == [(1, "y", "q", 2)]
        row = f"struct<{columns.replace(' ', ':').replace(',:', ', ')}>"
        change = spark.createDataFrame(
            [("u", None, (1, "z", "r", 3), 3)], f"op string, before {row}, after {row}, ts int"
        )
        mill._commit(ChangeFormat("debezium", order_by=("ts",)).requests(change, info))
        assert list(mill.view("v")) == [(1, "z", "r", 3)]
