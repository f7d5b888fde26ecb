"""A very small TPC-H database on which every one of the 22 queries has an answer.

`tpchgen-cli` makes the data at the smallest scale; a thinned part of it is kept, about 60 orders and 250 lineitems,
chosen so that joins still meet. The values that the queries select by (dates, brands, nations, phone prefixes, words
in comments) are then drawn anew from those the queries ask for, since one of 150 customers in one of 25 nations would
hardly ever be the right one.

The rows that are not loaded at first are the pool that later inserts draw from. Updates take values from other rows of
the same table or restore the row as it was, so that the tables keep their character while they change.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tpch_schema import TPCH_SCHEMA
from workload import Row, Table

Record = dict[str, Any]

DDL = {statement.split()[2]: statement for statement in TPCH_SCHEMA.split(";") if statement.strip()}

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
# How many edits a batch makes, and between which sizes the table stays. Few queries survive the loss of their region.
CHURN = {
    "region": (0.4, 5, 5),
    "nation": (1, 25, 25),
    "supplier": (1, 10, 10),
    "customer": (3, 22, 27),
    "part": (2, 15, 18),
    "partsupp": (4, 60, 70),
    "orders": (6, 55, 70),
    "lineitem": (12, 240, 290),
}
PARTS, CUSTOMERS, ORDERS = 20, 30, 90
LOADED = {"customer": 24, "part": 16, "orders": 60}

GERMANY, FRANCE, SAUDI_ARABIA, CANADA, BRAZIL, INDIA = 7, 6, 20, 3, 2, 8
SUPPLIER_NATIONS = (GERMANY, FRANCE, SAUDI_ARABIA, SAUDI_ARABIA, CANADA, CANADA, BRAZIL, INDIA, INDIA, GERMANY)
CUSTOMER_NATIONS = (GERMANY, FRANCE, FRANCE, CANADA, BRAZIL, INDIA, INDIA, INDIA)
# Order dates fall into the periods that queries look at, and most orders of a period come from a few nations.
PERIODS = (
    (date(1993, 7, 1), 90, CUSTOMER_NATIONS),  # Q4
    (date(1993, 10, 1), 90, CUSTOMER_NATIONS),  # Q10
    (date(1994, 1, 5), 250, (INDIA,)),  # Q5, Q6, Q12, Q20
    (date(1994, 1, 5), 250, (INDIA,)),
    (date(1995, 2, 1), 40, (FRANCE, GERMANY, CANADA)),  # Q3, Q7, Q8
    (date(1995, 8, 1), 40, (FRANCE, BRAZIL, CANADA)),  # Q7, Q8, Q14
    (date(1995, 12, 1), 90, (GERMANY, BRAZIL)),  # Q7, Q8, Q15
)
PART_KINDS = (
    ("Brand#23", "MED BOX"),  # Q17, Q19
    ("Brand#12", "SM CASE"),
    ("Brand#34", "LG BOX"),
    ("Brand#45", "WRAP JAR"),
)
PART_TYPES = (
    "STANDARD POLISHED BRASS",
    "SMALL PLATED BRASS",
    "ECONOMY ANODIZED STEEL",
    "PROMO BURNISHED COPPER",
    "MEDIUM POLISHED TIN",
)
PART_NAMES = ("forest green lace", "green linen smoke", "forest misty rose", "honeydew snow tan")
PART_SIZES = (15, 15, 15, 3, 9, 14)
PHONES = ("13", "31", "23", "17", "11", "25")


@dataclass(frozen=True)
class Tpch:
    """The tables, ready for `Churn`, and the rows to load first."""

    tables: tuple[Table, ...]
    initial: dict[str, list[Row]]


@cache
def tpch(seed: int = 7) -> Tpch:
    random = Random(seed)
    schemas, full = _generate()
    records = _skew(random, _thin(random, full))
    tables = tuple(_table(name, schemas[name], records[name]) for name in KEYS)
    return Tpch(tables, {name: _rows(rows) for name, rows in _loaded(records).items()})


def _generate() -> tuple[dict[str, pa.Schema], dict[str, list[Record]]]:
    """What the generator writes, and the types its columns have."""
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    assert program, "tpchgen-cli is not installed"
    with TemporaryDirectory() as folder:
        subprocess.run([program, "parquet", "-s", "0.001", "-o", folder, "-q"], check=True, capture_output=True)
        tables = {name: pq.read_table(Path(folder) / f"{name}.parquet") for name in KEYS}
    schemas = {name: _stored(table.schema) for name, table in tables.items()}
    return schemas, {name: table.to_pylist() for name, table in tables.items()}


def _stored(written: pa.Schema) -> pa.Schema:
    """Strings as strings, where the file has views of them."""
    return pa.schema([(f.name, pa.string() if f.type == pa.string_view() else f.type) for f in written])


def _thin(random: Random, full: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """Some parts with all their suppliers, some customers, and orders of those customers for those parts."""
    parts = full["part"][:PARTS]
    customers = full["customer"][:CUSTOMERS]
    orders = full["orders"][:ORDERS]
    supplies = [record for record in full["partsupp"] if record["ps_partkey"] <= PARTS]
    chosen = {record["o_orderkey"] for record in orders}
    lines = [record for record in full["lineitem"] if record["l_orderkey"] in chosen]
    for line in lines:
        supply = random.choice(supplies)
        line["l_partkey"], line["l_suppkey"] = supply["ps_partkey"], supply["ps_suppkey"]
    return {**full, "part": parts, "customer": customers, "orders": orders, "partsupp": supplies, "lineitem": lines}


def _skew(random: Random, records: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """Draw anew the values that the queries select by."""
    for supplier, nation in zip(records["supplier"], SUPPLIER_NATIONS, strict=True):
        supplier["s_nationkey"] = nation
    records["supplier"][4]["s_comment"] = "sly Customer packages, final Complaints"
    for customer in records["customer"]:
        _skew_customer(random, customer)
    for number, part in enumerate(records["part"]):
        _skew_part(part, number)
    # A third of the customers never order anything: Q13 counts them, Q22 looks for them.
    buyers = [customer for customer in records["customer"] if customer["c_custkey"] % 3]
    for number, order in enumerate(records["orders"]):
        _skew_order(random, order, PERIODS[number % len(PERIODS)], buyers)
    dates = {order["o_orderkey"]: order["o_orderdate"] for order in records["orders"]}
    for line in records["lineitem"]:
        _skew_line(random, line, dates[line["l_orderkey"]])
    _enlarge_orders(random, records["lineitem"])
    return records


def _skew_customer(random: Random, customer: Record) -> None:
    customer["c_nationkey"] = random.choice(CUSTOMER_NATIONS)
    customer["c_phone"] = random.choice(PHONES) + customer["c_phone"][2:]
    customer["c_mktsegment"] = random.choice(("BUILDING", "BUILDING", "MACHINERY"))


def _skew_part(part: Record, number: int) -> None:
    part["p_brand"], part["p_container"] = PART_KINDS[number % 4]
    part["p_type"] = PART_TYPES[number % 5]
    part["p_size"] = PART_SIZES[number % 6]
    part["p_name"] = PART_NAMES[number // 2 % 4]


def _skew_order(random: Random, order: Record, period: tuple[date, int, tuple[int, ...]], buyers: list[Record]) -> None:
    start, days, nations = period
    likely = [customer for customer in buyers if customer["c_nationkey"] in nations]
    order["o_custkey"] = random.choice(likely if random.random() < 0.8 else buyers)["c_custkey"]
    order["o_orderdate"] = start + timedelta(days=random.randrange(days))
    order["o_orderstatus"] = random.choice("FFO")
    if random.random() < 0.3:
        order["o_comment"] = "special pending requests"


def _skew_line(random: Random, line: Record, ordered: date) -> None:
    line["l_shipdate"] = ordered + timedelta(days=random.randrange(5, 60))
    line["l_commitdate"] = line["l_shipdate"] + timedelta(days=random.randrange(-5, 30))
    late = random.random() < 0.3
    line["l_receiptdate"] = max(line["l_shipdate"], line["l_commitdate"]) + timedelta(days=random.randrange(1, 9))
    if not late:
        line["l_commitdate"] = line["l_receiptdate"] + timedelta(days=random.randrange(9))
    line["l_quantity"] = Decimal(random.choice((1, 3, 5, 10, 11, 15, 20, 25, 40, 50)))
    line["l_discount"] = Decimal(random.choice(("0.04", "0.05", "0.06", "0.07", "0.08")))
    line["l_returnflag"] = random.choice("RAN")
    line["l_shipmode"] = random.choice(("AIR", "AIR REG", "MAIL", "SHIP"))
    line["l_shipinstruct"] = random.choice(("DELIVER IN PERSON", "DELIVER IN PERSON", "NONE"))


def _enlarge_orders(random: Random, lines: list[Record]) -> None:
    """Orders of seven lines get enough on each to pass 300 (Q18), even when a line goes."""
    large = {line["l_orderkey"] for line in lines if line["l_linenumber"] == 7}
    for line in lines:
        if line["l_orderkey"] in large:
            line["l_quantity"] = Decimal(random.choice((50, 55, 60)))


def _loaded(records: dict[str, list[Record]]) -> dict[str, list[Record]]:
    loaded = {name: rows[: LOADED.get(name, len(rows))] for name, rows in records.items()}
    orders = {record["o_orderkey"] for record in loaded["orders"]}
    parts = {record["p_partkey"] for record in loaded["part"]}
    loaded["lineitem"] = [record for record in records["lineitem"] if record["l_orderkey"] in orders]
    loaded["partsupp"] = [record for record in records["partsupp"] if record["ps_partkey"] in parts]
    return loaded


def _rows(records: list[Record]) -> list[Row]:
    return [tuple(record.values()) for record in records]


def _table(name: str, schema: pa.Schema, records: list[Record]) -> Table:
    """A table whose new rows come from `records`, and whose rows change by taking values from one of them."""
    pool = _rows(records)
    key = tuple(schema.get_field_index(column) for column in KEYS[name])
    rest = [position for position in range(len(schema)) if position not in key]
    by_key = {_at(row, key): row for row in pool}
    edits, low, high = CHURN[name]

    def fresh(random: Random) -> Row:
        return random.choice(pool)

    def change(random: Random, row: Row) -> Row:
        if row != (original := by_key[_at(row, key)]) and random.random() < 0.6:
            return original
        donor, changed = random.choice(pool), set(random.sample(rest, min(2, len(rest))))
        return tuple(donor[p] if p in changed else value for p, value in enumerate(row))

    return Table(name, DDL[name], schema, key, fresh, change, edits, low, high)


def _at(row: Row, positions: tuple[int, ...]) -> Row:
    return tuple(row[position] for position in positions)
