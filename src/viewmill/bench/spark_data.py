"""TPC-H as Spark has it: tables in Parquet, and changes that follow from the keys of orders and parts alone.

The hash of an order says what becomes of it and of its items, all in one batch; that of a part, what becomes of the
suppliers' offers of it:

    0                                                                      1
    | arrive in batch 0, 1, ... | leave in 0, 1, ... | change in 0, 1, ... | stay

The tables at the start, every batch, and the tables at the end are therefore filters over what was generated. Nothing
has to be remembered, at any scale. A batch touches its share of the orders, items and offers: a quarter arrives, a
quarter leaves, half of it is updated, as the old row deleted and the new one inserted. Every query reads a table that
changes.

Batches come as files, as they would from elsewhere: all of them are written before the first is read. A batch that is
a filter over a large table would be in as many pieces as that, and Spark would plan the filter with every batch.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from viewmill.bench.queries import TABLES, arrow_schemas
from viewmill.errors import BindError

_FILES = 2
"""Of what a batch takes from a table, or adds to it."""
_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey", "partsupp": "ps_partkey"}
_FATE = "fate"
_BATCH = "batch"
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
        self._folders = ExitStack()

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
        def rows(name: str, what: str) -> DataFrame:
            files = self._written / name / what / f"{_BATCH}={number}"
            return self._spark.read.parquet(str(files)) if files.exists() else self._table(name).limit(0)

        return {name: Delta(rows(name, "deleted"), rows(name, "inserted")) for name in _KEYS}

    @cached_property
    def _written(self) -> Path:
        """The folder with all batches, by table and by what becomes of the rows."""
        folder = Path(tempfile.mkdtemp(prefix="viewmill-batches-"))
        self._folders.callback(shutil.rmtree, folder, ignore_errors=True)
        number = F.pmod(F.col(_FATE), F.lit(self.batches)).alias(_BATCH)
        for name, key in _KEYS.items():
            rows = self._table(name).withColumn(_FATE, self._fate(F.col(key))).filter(F.col(_FATE) >= 0)
            same = [F.col(column) for column in rows.drop(_FATE).columns]
            new = _updated(name, rows, self._changing)
            for what, where, columns in (("deleted", ~self._arriving, same), ("inserted", ~self._leaving, new)):
                found = rows.filter(where).select(*columns, number).repartition(_FILES)
                found.write.partitionBy(_BATCH).parquet(str(folder / name / what))
        return folder

    def close(self) -> None:
        """Remove the batches."""
        self._folders.close()

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
