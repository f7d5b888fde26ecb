"""TPC-H as Spark has it: tables in Parquet, and changes that follow from the keys of orders and parts alone.

The hash of an order says what becomes of it and of its items, all in one batch; that of a part, what becomes of the
suppliers' offers of it:

    0                                                                      1
    | arrive in batch 0, 1, ... | leave in 0, 1, ... | change in 0, 1, ... | stay

The tables at the start, every batch, and the tables at the end are therefore filters over what was generated. Nothing
has to be remembered, at any scale. A batch touches its share of the orders, items and offers: a quarter arrives, a
quarter leaves, half of it is updated, as the old row deleted and the new one inserted. Every query reads a table that
changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from viewmill.bench.queries import TABLES, arrow_schemas
from viewmill.errors import BindError

_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey", "partsupp": "ps_partkey"}
_FATE = "fate"
_STEPS = 2**20

_UPDATES = {
    "orders": {
        "o_totalprice": "o_totalprice + 1",
        "o_orderpriority": "element_at(array('1-URGENT', '2-HIGH', '3-MEDIUM', '5-LOW'), "
        "cast(pmod(o_orderkey, 4) as int) + 1)",
    },
    "lineitem": {
        "l_quantity": "pmod(l_quantity + 7, 50) + 1",
        "l_extendedprice": "l_extendedprice + 1",
        "l_shipmode": "element_at(array('AIR', 'MAIL', 'RAIL', 'SHIP', 'TRUCK'), "
        "cast(pmod(l_orderkey + l_linenumber, 5) as int) + 1)",
    },
    "partsupp": {"ps_availqty": "pmod(ps_availqty + 77, 9999) + 1", "ps_supplycost": "ps_supplycost + 1"},
}


@dataclass(frozen=True, slots=True)
class Delta:
    """What a batch takes from a table and what it adds to it: whole rows."""

    deleted: DataFrame
    inserted: DataFrame


class Changing:
    """The tables under so many batches, each of which touches this share of the orders, their items, and the offers."""

    def __init__(self, spark: SparkSession, folder: Path, batches: int, share: float) -> None:
        if batches * share > 1:
            raise BindError(
                f"{batches} batches with {share:g} of the rows each would touch rows twice",
                hint="measure fewer or smaller batches",
            )
        self._spark, self._folder = spark, folder
        self.batches, self._share = batches, share

    @property
    def start(self) -> dict[str, DataFrame]:
        """What there is before the first batch."""
        return {name: self._without(name, self._arriving).drop(_FATE) for name in TABLES}

    @property
    def end(self) -> dict[str, DataFrame]:
        """What there is after the last."""
        tables = {name: self._without(name, self._leaving) for name in TABLES}
        return {
            **tables,
            **{name: tables[name].select(*_updated(name, tables[name], self._changing)) for name in _KEYS},
        }

    def batch(self, number: int) -> dict[str, Delta]:
        arrive, leave, change = (F.col(_FATE) == kind * self.batches + number for kind in range(3))
        found = {}
        for name, rows in self._touched.items():
            found[name] = Delta(
                rows.filter(leave | change).drop(_FATE),
                rows.filter(arrive | change).select(*_updated(name, rows, change)),
            )
        return found

    @cached_property
    def _touched(self) -> dict[str, DataFrame]:
        """All rows that any batch touches, kept at hand."""
        found = {}
        for name, key in _KEYS.items():
            rows = self._table(name).withColumn(_FATE, self._fate(F.col(key))).filter(F.col(_FATE) >= 0).cache()
            rows.count()
            found[name] = rows
        return found

    def release(self) -> None:
        for rows in self._touched.values():
            rows.unpersist()

    # --- fates: a number for every kind and batch, -1 for what stays

    def _fate(self, key: Column) -> Column:
        place = F.pmod(F.xxhash64(key), F.lit(_STEPS)) / F.lit(float(_STEPS))
        quarter = self._share / 4
        ends = (self.batches * quarter, 2 * self.batches * quarter, 4 * self.batches * quarter)
        arrive = F.floor(place / quarter)
        leave = self.batches + F.floor((place - ends[0]) / quarter)
        change = 2 * self.batches + F.floor((place - ends[1]) / (2 * quarter))
        last = F.lit(3 * self.batches - 1)  # what rounding would make the batch after the last
        return (
            F.when(place < ends[0], F.least(arrive, F.lit(self.batches - 1)))
            .when(place < ends[1], F.least(leave, F.lit(2 * self.batches - 1)))
            .when(place < ends[2], F.least(change, last))
            .otherwise(F.lit(-1))
            .cast("int")
        )

    @property
    def _arriving(self) -> Column:
        return F.col(_FATE).between(0, self.batches - 1)

    @property
    def _leaving(self) -> Column:
        return F.col(_FATE).between(self.batches, 2 * self.batches - 1)

    @property
    def _changing(self) -> Column:
        return F.col(_FATE) >= 2 * self.batches

    def _without(self, name: str, gone: Column) -> DataFrame:
        """A table without the rows of some fates; `fate` is still there if rows have one."""
        rows = self._table(name)
        if name not in _KEYS:
            return rows
        return rows.withColumn(_FATE, self._fate(F.col(_KEYS[name]))).filter(~gone)

    def _table(self, name: str) -> DataFrame:
        rows = self._spark.read.parquet(str(self._folder / f"{name}.parquet"))
        return rows.select(*arrow_schemas()[name].names)


def _updated(name: str, rows: DataFrame, where: Column) -> list[Column]:
    """The columns of a table, updated where that holds, with the types they had."""
    found = []
    for field in rows.drop(_FATE).schema.fields:
        column = F.col(field.name)
        if field.name in _UPDATES[name]:
            column = F.when(where, F.expr(_UPDATES[name][field.name])).otherwise(column).cast(field.dataType)
        found.append(column.alias(field.name))
    return found
