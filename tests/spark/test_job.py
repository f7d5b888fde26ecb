"""The shape of a maintenance job: rows into buckets, two blocks with state in files, what they gather on the driver.

The mill here is a small one, by hand: items by order, joined to the orders' customers, summed up by customer, whose
sums are gathered. What an order's bucket knows has to survive from batch to batch, on disk.
"""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from routed import arrived, routed

from viewmill.catalog import ColumnInfo, RelationInfo
from viewmill.distribute.nodes import WEIGHT, Buckets, Send
from viewmill.engines.spark.anchor import stage
from viewmill.engines.spark.jobs import counting
from viewmill.engines.spark.message import MESSAGES_IN_SPARK, Format, letters, opened, read, route
from viewmill.types import BIGINT

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not see the tests

BUCKETS = 4


def relation(name: str, *columns: str) -> RelationInfo:
    return RelationInfo(name, tuple(ColumnInfo(column, BIGINT) for column in columns))


RELATIONS = {"orders": relation("orders", "id", "customer"), "items": relation("items", "id", "price")}
SENDS = (
    Send("orders", relation("orders@id", "id", "customer"), Buckets(("id",)), True),
    Send("items", relation("items@id", "id", "price"), Buckets(("id",)), True),
)
FORM = Format({name: pa.schema([("customer", pa.int64()), ("weight_", pa.int64())]) for name in ("sum", "top")})


def sums(pairs: Counter[int]) -> pa.RecordBatch:
    columns = [pa.array(list(pairs), pa.int64()), pa.array(list(pairs.values()), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=FORM.schemas["sum"])


def by_order(folder: Path):
    """Block 1: keep orders and items, send on what each customer gains."""

    def run(bucket: int, table: pa.Table) -> pa.Table:
        file = folder / f"orders-{bucket}"
        customers, prices = pickle.loads(file.read_bytes()) if file.exists() else (Counter(), Counter())
        here = {
            name: list(zip(*(column.to_pylist() for column in rows.columns), counts, strict=True))
            for name, (rows, counts) in arrived(SENDS, table).items()
        }
        gained: Counter[int] = Counter()
        for order, customer, count in here.get("orders@id", ()):
            for (other, price), times in prices.items():
                if other == order:
                    gained[customer] += count * times * price
            customers[order, customer] += count
        for order, price, count in here.get("items@id", ()):
            for (other, customer), times in customers.items():
                if other == order:
                    gained[customer] += count * times * price
            prices[order, price] += count
        file.write_bytes(pickle.dumps((customers, prices)))
        routed = route(sums(gained), ("customer",), BUCKETS)
        noted = {"top": sums(Counter({-bucket: sum(map(len, here.values()))}))}
        return letters(FORM, bucket, {target: {"sum": rows} for target, rows in routed.items()}, noted, BUCKETS)

    return run


def by_customer(folder: Path):
    """Block 2: keep the sums, tell the driver what they are now; pass on what block 1 told it."""

    def run(bucket: int, table: pa.Table) -> pa.Table:
        mail = opened(FORM, table)
        file = folder / f"customers-{bucket}"
        kept = pickle.loads(file.read_bytes()) if file.exists() else Counter()
        changed: Counter[int] = Counter()
        if "sum" in mail.batches:
            for customer, gain in zip(*(c.to_pylist() for c in mail.batches["sum"].columns), strict=True):
                kept[customer] += gain
                changed[customer] = kept[customer]
        file.write_bytes(pickle.dumps(kept))
        told = letters(FORM, bucket, {}, {"sum": sums(changed)}, BUCKETS)
        return pa.concat_tables([told, mail.passed_on.cast(told.schema)])

    return run


def frame(spark, rows, *names: str):
    return spark.createDataFrame(rows, ", ".join(f"{name} bigint" for name in (*names, WEIGHT)))


def test_two_hops_are_one_job(spark, anchor, tmp_path):
    batches = [
        ([(1, 10, 1), (2, 20, 1), (3, 10, 1)], [(1, 100, 1), (2, 50, 1)]),
        ([(4, 20, 1)], [(3, 7, 1), (4, 9, 2), (1, 100, -1)]),
        ([(2, 20, -1)], [(5, 1, 1)]),
    ]
    orders, items, known = Counter(), Counter(), {}
    for new_orders, new_items in batches:
        frames = {
            "orders": frame(spark, new_orders, "id", "customer").coalesce(1),
            "items": frame(spark, new_items, "id", "price").coalesce(1),
        }
        with counting(spark) as cost:
            rows = routed(SENDS, frames, RELATIONS, BUCKETS)
            first = stage(anchor, rows, by_order(tmp_path), MESSAGES_IN_SPARK)
            gathered = stage(anchor, first, by_customer(tmp_path), MESSAGES_IN_SPARK).toArrow()
        assert (cost().jobs, cost().stages) == (1, 3)

        told = read(FORM, gathered)
        known |= dict(zip(*(column.to_pylist() for column in told["sum"].columns), strict=True))
        noted = dict(zip(*(column.to_pylist() for column in told["top"].columns), strict=True))
        assert set(noted) == {-bucket for bucket in range(BUCKETS)}, "every bucket was called, rows or not"
        assert sum(noted.values()) == len(new_orders) + len(new_items)

        orders.update({row[:2]: row[2] for row in new_orders})
        items.update({row[:2]: row[2] for row in new_items})
        truth: Counter[int] = Counter()
        for (order, customer), count in orders.items():
            for (other, price), times in items.items():
                truth[customer] += count * times * price if order == other else 0
        assert {c: total for c, total in known.items() if total} == {c: total for c, total in truth.items() if total}
