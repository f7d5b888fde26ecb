"""Rows of a batch arrive in their buckets, once for each send, with their counts, and as what they were declared."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from routed import arrived, by_count, form_of, routed

from viewmill.algebra.text import parse
from viewmill.arrow import arrow_schema
from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.distribute.nodes import Anywhere, Buckets, Everywhere, Send
from viewmill.engines.spark import message, routing
from viewmill.engines.spark.anchor import stage
from viewmill.engines.spark.failure import refused
from viewmill.engines.spark.frames import Counted
from viewmill.engines.spark.hash import bucket_of
from viewmill.engines.spark.incoming import Incoming
from viewmill.engines.spark.jobs import counting
from viewmill.engines.spark.routing import Travelling, columns_of, routing_task, sent_rows
from viewmill.errors import DataError
from viewmill.types import BIGINT, DATE, INT, STRING, TIMESTAMP, decimal

BUCKETS = 4
ORDERS = RelationInfo(
    "orders",
    (
        ColumnInfo("id", BIGINT, nullable=False),
        ColumnInfo("customer", INT),
        ColumnInfo("day", DATE),
        ColumnInfo("at", TIMESTAMP),
        ColumnInfo("price", decimal(15, 2)),
        ColumnInfo("note", STRING),
    ),
)
NATION = RelationInfo("nation", (ColumnInfo("nation", BIGINT, nullable=False), ColumnInfo("name", STRING)))
RELATIONS = {"orders": ORDERS, "nation": NATION}
SCHEMA = "id bigint, customer int, day date, at timestamp, price decimal(15,2), note string, weight_ bigint"
ROWS = [
    (
        number,
        number % 7 if number % 5 else None,
        date(2024, 1, 1 + number % 28),
        datetime(2024, 1, 1, number % 24),
        Decimal(number).scaleb(-2),
        f"note {number % 3}" if number % 4 else None,
        1 if number % 3 else -1,
    )
    for number in range(200)
]
NATIONS = [(number, f"n{number}", 2) for number in range(5)]


def restricted(info: RelationInfo, name: str, *columns: str) -> RelationInfo:
    return RelationInfo(name, tuple(column for column in info.columns if column.name in columns))


def orders(to, *columns: str, name: str = "o", where=()) -> Send:
    return Send("orders", restricted(ORDERS, name, *columns), to, True, tuple(map(parse, where)))


SENDS = (
    orders(Buckets(("id",)), "id", "price", "at", name="o@id"),
    orders(Buckets(("customer", "note")), "customer", "note", "day", name="o@customer", where=["{id < 100}"]),
    orders(Anywhere(), "price", name="o@any", where=["{price > 1.50}", "{upper(note) = 'X'}"]),
    Send("nation", restricted(NATION, "n@*", "nation", "name"), Everywhere(), True),
)


@pytest.fixture(scope="module")
def frames(spark):
    rows = [tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row) for row in ROWS]
    return {
        "orders": spark.createDataFrame(rows, SCHEMA).repartition(3),
        "nation": spark.createDataFrame(NATIONS, "nation bigint, name string, weight_ bigint"),
    }


def collected(anchor, frame, sends) -> dict[str, Counter[tuple[object, ...]]]:
    """(bucket, values, count) by the name that rows arrive as; schemas are checked on the way."""

    def run(bucket: int, table: pa.Table) -> pa.Table:
        lines = []
        for name, (rows, counts) in arrived(sends, table).items():
            info = next(send.info for send in sends if send.info.name == name)
            assert rows.schema == arrow_schema(info.columns), name
            values = [tuple(row.values()) for row in rows.to_pylist()] or [()] * rows.num_rows
            lines += [repr((name, bucket, row, count)) for row, count in zip(values, counts, strict=True)]
        return pa.table({"line": pa.array(lines, pa.string())})

    found: dict[str, Counter[tuple[object, ...]]] = {}
    import datetime as datetime_module

    for line in stage(anchor, frame, run, "line string").toArrow().column(0).to_pylist():
        name, *rest = eval(line, {"Decimal": Decimal, "datetime": datetime_module})
        found.setdefault(name, Counter())[tuple(rest)] += 1
    return found


def values(row, *columns: str) -> tuple[object, ...]:
    return tuple(row[ORDERS.names.index(column)] for column in columns)


def test_every_row_arrives_where_it_should(frames, anchor):
    found = collected(anchor, routed(SENDS, frames, RELATIONS, BUCKETS), SENDS)
    by_id = [(values(row, "id", "at", "price"), row[-1], values(row, "id")) for row in ROWS]
    assert found["o@id"] == Counter((bucket_of(key, BUCKETS), row, count) for row, count, key in by_id)
    early = [row for row in ROWS if row[0] < 100]
    by_customer = [(values(row, "customer", "day", "note"), row[-1], values(row, "customer", "note")) for row in early]
    assert found["o@customer"] == Counter((bucket_of(key, BUCKETS), row, count) for row, count, key in by_customer)
    dear = [row for row in ROWS if row[4] > Decimal("1.50")]
    assert Counter(rest[1:] for rest in found["o@any"].elements()) == Counter((values(r, "price"), r[-1]) for r in dear)
    assert found["n@*"] == Counter((bucket, row[:2], 2) for bucket in range(BUCKETS) for row in NATIONS)


@pytest.mark.parametrize("number", range(len(SENDS)))
def test_a_send_alone_is_what_it_is_among_others(frames, anchor, number):
    alone = SENDS[number : number + 1]
    name = alone[0].info.name
    together = collected(anchor, routed(SENDS, frames, RELATIONS, BUCKETS), SENDS)[name]
    by_itself = collected(anchor, routed(alone, frames, RELATIONS, BUCKETS), alone)[name]
    if isinstance(alone[0].to, Anywhere):  # which may be in another bucket
        together, by_itself = (Counter(rest[1:] for rest in found.elements()) for found in (together, by_itself))
    assert by_itself == together


def test_everywhere_beside_a_bucket(frames, anchor):
    sends = (orders(Everywhere(), "note", name="o@*", where=["{id < 2}"]), orders(Buckets(("id",)), "id", name="o@id"))
    found = collected(anchor, routed(sends, frames, RELATIONS, BUCKETS), sends)
    assert found["o@*"] == Counter((b, values(r, "note"), r[-1]) for b in range(BUCKETS) for r in ROWS[:2])
    assert found["o@id"] == Counter((bucket_of(r[:1], BUCKETS), r[:1], r[-1]) for r in ROWS)


def test_rows_without_columns(frames, anchor):
    sends = (orders(Anywhere(), name="o@any"), orders(Buckets(()), name="o@one"))
    found = collected(anchor, routed(sends, frames, RELATIONS, BUCKETS), sends)
    counts = Counter(row[-1] for row in ROWS)
    for name in ("o@any", "o@one"):
        assert Counter(count for _, _, count in found[name].elements()) == counts


def test_rows_that_stay(frames):
    def run(batches):
        for batch in batches:
            for rows, counts in sent_rows("orders", SENDS[:1], batch).values():
                yield pa.record_batch({"id": rows.column("id"), "n": pa.array(counts)})

    frame = Incoming().rows(SENDS[:1], by_count(frames), RELATIONS)["orders"]
    table = frame.mapInArrow(run, "id bigint, n bigint").toArrow()
    assert Counter(zip(*(c.to_pylist() for c in table.columns), strict=True)) == Counter((r[0], r[-1]) for r in ROWS)


def test_only_what_is_sent_leaves_spark(frames):
    """Columns that some send has, and rows that some send takes."""
    sends = (SENDS[1], orders(Anywhere(), "day", "price", name="o@any", where=["{id < 3}"]))
    assert columns_of("orders", sends) == ("customer", "day", "note", "price")
    rows = Incoming().rows(sends, by_count(frames), RELATIONS)["orders"]
    assert rows.columns == ["c0", "c1", "c2", "c3", "w", "k0", "k1"] and rows.count() == 100
    assert Incoming().rows(sends[1:], by_count(frames), RELATIONS)["orders"].count() == 3


def test_rows_that_may_be_anywhere_are_spread_evenly(frames, anchor):
    sends = (orders(Anywhere(), "id", name="o@any"),)
    found = collected(anchor, routed(sends, {"orders": frames["orders"].coalesce(1)}, RELATIONS, BUCKETS), sends)
    counts = Counter(bucket for bucket, *_ in found["o@any"].elements())
    assert len(counts) == BUCKETS and min(counts.values()) > len(ROWS) // BUCKETS // 2


def test_many_rows_are_several_messages(frames, anchor, monkeypatch):
    """The task routes them in parts, and pieces of messages are told apart."""
    sends = SENDS[:1]
    batches = (
        Incoming().rows(sends, by_count(frames), RELATIONS)["orders"].coalesce(1).toArrow().to_batches(max_chunksize=20)
    )
    monkeypatch.setattr(routing, "AT_ONCE", 2**11)
    monkeypatch.setattr(message, "LARGEST", 2**8)
    task = routing_task(lambda: Travelling(form_of(sends), sends, RELATIONS), "orders", BUCKETS)
    table = pa.Table.from_batches(list(task(iter(batches))))
    origins = table.column("origin").to_pylist()
    keys = list(zip(table.column("target").to_pylist(), origins, strict=True))
    assert len(set(keys)) == len(keys) > 20
    rows, counts = arrived(sends, table)["o@id"]
    assert Counter(zip(rows.column("id").to_pylist(), counts, strict=True)) == Counter(
        (row[0], row[-1]) for row in ROWS
    )


def test_a_relation_is_read_once(spark, capsys):
    """However often it is sent: the DataFrame may be expensive, or not the same the second time."""
    numbers = spark.range(3).selectExpr("id", *(f"NULL AS {name}" for name in ORDERS.names[1:]))
    sends = (*SENDS[:3], orders(Everywhere(), "id", name="o@*"))
    Incoming().rows(sends, {"orders": [Counted(numbers, 1)]}, RELATIONS)["orders"].explain()
    assert capsys.readouterr().out.count("Range (") == 1


# --- what is refused


def given(spark, row, schema):
    return {"orders": spark.createDataFrame([row], schema)}


WRONG = {
    "extra": (SCHEMA + ", prise int", 'table "orders" has no column "prise"'),
    "missing": (SCHEMA.replace("day date, ", ""), 'a DataFrame for table "orders" lacks column "day"'),
    "twice": (SCHEMA + ", ID bigint", 'column "id" is given twice for table "orders"'),
    "text": (
        SCHEMA.replace("day date", "day string"),
        'column "day" of table "orders" is date, and the DataFrame has string',
    ),
    "float": (
        SCHEMA.replace("price decimal(15,2)", "price double"),
        r'column "price" of table "orders" is decimal\(15,2\), and the DataFrame has double',
    ),
    "list": (
        SCHEMA.replace("note string", "note array<string>"),
        'column "note" of table "orders" is string, and the DataFrame has array<string>',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "message"), WRONG.values(), ids=WRONG)
def test_what_the_types_tell_is_refused_at_once(spark, schema, message):
    frame = spark.createDataFrame([], schema)
    with counting(spark) as cost, pytest.raises(DataError, match=message):
        routed(SENDS[:1], {"orders": frame}, RELATIONS, BUCKETS)
    assert cost().jobs == 0


@pytest.mark.parametrize(
    ("change", "cell", "message"),
    [
        ({}, ("id", None), 'NULL in column "id" of table "orders", which is NOT NULL'),
        (
            {"customer int": "customer bigint"},
            ("customer", 2**31),
            'a value in column "customer" of table "orders" does not fit int',
        ),
        (
            {"price decimal(15,2)": "price decimal(20,3)"},
            ("price", Decimal("1.005")),
            'a value in column "price" of table "orders" does not fit decimal(15,2)',
        ),
        (
            {"price decimal(15,2)": "price decimal(20,2)"},
            ("price", Decimal("12345678901234567.00")),
            'a value in column "price" of table "orders" does not fit decimal(15,2)',
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_what_only_values_tell_is_refused_in_the_job(spark, anchor, change, cell, message, ansi):
    schema = SCHEMA
    for old, new in change.items():
        schema = schema.replace(old, new)
    row = list(ROWS[1][:3] + (None,) + ROWS[1][4:])
    row[ORDERS.names.index(cell[0])] = cell[1]
    own = spark.newSession()
    own.conf.set("spark.sql.ansi.enabled", ansi)
    frame = own.createDataFrame([tuple(row)], schema)
    send = (orders(Buckets(("id",)), *ORDERS.names, where=["{id < 5}", "{customer < 5}"]),)
    with pytest.raises(PySparkException) as caught:
        collected(anchor, routed(send, {"orders": frame}, RELATIONS, BUCKETS), send)
    found = refused(caught.value)
    assert isinstance(found, DataError)
    assert found.message == message


def test_other_failures_are_not_ours(spark):
    with pytest.raises(PySparkException) as caught:
        spark.range(1).select(F.raise_error(F.lit("theirs"))).collect()
    assert refused(caught.value) is None
    assert refused(ValueError("x")) is None


def test_a_python_without_us_is_named(spark):
    def find(batches):
        raise ModuleNotFoundError("No module named 'viewmill'")

    with pytest.raises(PySparkException) as caught:
        spark.range(1).mapInArrow(find, "id long").collect()
    found = refused(caught.value)
    assert found is not None and "does not find viewmill" in str(found) and "PYSPARK_PYTHON" in str(found)


def test_names_in_any_case_and_order_and_types_that_fit(spark, anchor):
    frame = spark.createDataFrame(
        [(1, Decimal("2.50"), "x", 7, None, date(2024, 1, 1), 3)],
        "weight_ int, PRICE decimal(20,3), Note string, Id int, at timestamp_ntz, day date, customer bigint",
    )
    send = (orders(Buckets(("id",)), *ORDERS.names),)
    found = collected(anchor, routed(send, {"orders": frame}, RELATIONS, BUCKETS), send)
    row = (7, 3, date(2024, 1, 1), None, Decimal("2.50"), "x")
    assert found["o"] == Counter([(bucket_of((7,), BUCKETS), row, 1)])


def test_rows_that_may_be_anywhere_go_where_they_went_before():
    """A task that is run again may find its rows in another order."""
    send = orders(Anywhere(), "id", "price", "note", name="o@any")
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in ROWS], pa.int64()),
            pa.array([row[4] for row in ROWS], pa.decimal128(15, 2)),
            pa.array([row[5] for row in ROWS], pa.string()),
            pa.array([row[-1] for row in ROWS], pa.int64()),
        ],
        names=["c0", "c1", "c2", "w"],
    )
    task = routing_task(lambda: Travelling(form_of([send]), [send], RELATIONS), "orders", BUCKETS)

    def sent(batch: pa.RecordBatch) -> dict[int, Counter[str]]:
        table = pa.Table.from_batches(list(task(iter([batch]))))
        return {
            bucket: Counter(
                map(str, arrived([send], table.filter(pa.compute.field("target") == bucket))["o@any"][0].to_pylist())
            )
            for bucket in set(table.column("target").to_pylist())
        }

    backwards = rows.take(pa.array(range(rows.num_rows)[::-1]))
    assert sent(rows) == sent(backwards)
    sizes = [sum(found.values()) for found in sent(rows).values()]
    assert len(sizes) == BUCKETS and sum(sizes) == len(ROWS) and min(sizes) > len(ROWS) // BUCKETS // 2
