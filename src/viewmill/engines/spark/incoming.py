"""Batches where they come in: DataFrames, filtered and projected by Spark, as `routing.py` takes them.

    c0 ..   the columns that some send of the relation has (see `columns_of`), checked and converted
    w       the count
    k0 ..   for every send with a condition, by its number: whether it takes the row
    h       if rows may be taken in parts: what says in which (`parts.py`)

A relation that is sent several ways is read once, and its rows are Spark's until they are Arrow columns: made by Spark,
every row would be there as often as it is sent, each time as wide as the widest, in code too long to be compiled well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from viewmill.catalog import RelationInfo
from viewmill.distribute.nodes import WEIGHT, Send
from viewmill.engines.spark.columns import Checked, checked
from viewmill.engines.spark.conditions import Condition, condition
from viewmill.engines.spark.parts import HASH
from viewmill.engines.spark.routing import columns_of


class Incoming:
    """What is made of batches where they come in.

    Columns are spelled out once for every kind of batch: each of the thousands of their parts is a call of Spark's
    JVM, which took most of a small batch's time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Steps] = {}

    def rows(
        self,
        sends: Sequence[Send],
        frames: Mapping[str, DataFrame],
        relations: Mapping[str, RelationInfo],
        hashes: Mapping[str, str] | None = None,
    ) -> dict[str, DataFrame]:
        """By relation, what its sends need. A frame has the relation's columns, counts, and hashes if there is a name
        for these.
        """
        found: dict[str, DataFrame] = {}
        for name in dict.fromkeys(send.source for send in sends):
            schema, hash_ = frames[name].schema, (hashes or {}).get(name)
            kind = (name, tuple(sends), schema.json(), relations[name], hash_)
            if kind not in self._known:
                self._known[kind] = _steps(name, sends, schema, relations[name], hash_)
            found[name] = self._known[kind].of(frames[name])
        return found


@dataclass(frozen=True, slots=True)
class _Steps:
    """What is done to a frame: rows filtered, columns computed."""

    kept: Column | None
    columns: tuple[Column, ...]

    def of(self, frame: DataFrame) -> DataFrame:
        return (frame if self.kept is None else frame.filter(self.kept)).select(*self.columns)


def _steps(relation: str, sends: Sequence[Send], schema: StructType, info: RelationInfo, hash_: str | None) -> _Steps:
    given = StructType([field for field in schema.fields if field.name != hash_])
    source, columns = checked(given, info, WEIGHT), columns_of(relation, sends)
    tests = {number: _tests(send, source) for number, send in enumerate(sends) if send.source == relation}
    kept = {number: reduce(Column.__and__, (test.column for test in all_)) for number, all_ in tests.items() if all_}
    read = dict.fromkeys([*columns, *(name for all_ in tests.values() for test in all_ for name in test.names)])
    cells = [source.columns[name].alias(f"c{place}") for place, name in enumerate(columns)]
    cells.append(source.guarded(source.weight, read).alias("w"))
    cells += (test.alias(f"k{number}") for number, test in kept.items())
    if hash_ is not None:
        cells.append(F.col(hash_).alias(HASH))
    return _Steps(reduce(Column.__or__, kept.values()) if len(kept) == len(tests) else None, tuple(cells))


def _tests(send: Send, source: Checked) -> list[Condition]:
    return [kept for test in send.where if (kept := condition(test, source)) is not None]
