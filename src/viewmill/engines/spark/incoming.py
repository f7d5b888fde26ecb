"""Batches where they come in: DataFrames, filtered and projected by Spark, as `routing.py` takes them.

    c0 ..   the columns that some send of the relation has (see `columns_of`), checked and converted
    w       the count
    k0 ..   if there are several sends, for each with a condition, by its number: whether it takes the row
    h       if rows may be taken in parts: what says in which (`parts.py`)

A relation that is sent several ways is read once, and its rows are Spark's until they are Arrow columns: made by Spark,
every row would be there as often as it is sent, each time as wide as the widest, in code too long to be compiled well.
Where a NULL may not be, Spark does not look for it: columns of Arrow know how many they have (`routing.check_nulls`).

What goes to Python at once is `packed`: one column `row` with all of these in it. To name a column is a call of Spark's
JVM, a millisecond or two, and handing rows over names every one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from viewmill.catalog import RelationInfo
from viewmill.distribute.nodes import Send
from viewmill.engines.spark.columns import Checked, checked
from viewmill.engines.spark.conditions import Condition, condition
from viewmill.engines.spark.frames import Counted
from viewmill.engines.spark.parts import HASH
from viewmill.engines.spark.routing import ROW, columns_of
from viewmill.types import Type


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
        batch: Mapping[str, Sequence[Counted]],
        relations: Mapping[str, RelationInfo],
        hashes: Mapping[str, str] | None = None,
        *,
        packed: bool = False,
    ) -> dict[str, DataFrame]:
        """By relation, what its sends need. A frame has the relation's columns, and hashes if these have a name.

        Rows with different counts are put together when they are as narrow as they get: what Spark has to go through,
        each time that something is put on top, is less.
        """
        found: dict[str, DataFrame] = {}
        for name in dict.fromkeys(send.source for send in sends):
            hash_ = (hashes or {}).get(name)
            steps = [(given.frame, self._steps(name, sends, given, relations[name], hash_)) for given in batch[name]]
            found[name] = reduce(DataFrame.unionAll, (each.of(frame, packed=packed) for frame, each in steps))
        return found

    def _steps(self, name: str, sends: Sequence[Send], given: Counted, info: RelationInfo, hash_: str | None) -> _Steps:
        schema = given.frame.schema
        kind = (name, tuple(sends), schema.json(), given.count, info, hash_)
        if kind not in self._known:
            self._known[kind] = _steps(name, sends, schema, given.count, info, hash_)
        return self._known[kind]


@dataclass(frozen=True, slots=True)
class _Steps:
    """What is done to a frame: rows filtered, columns computed."""

    kept: Column | None
    columns: tuple[Column, ...]
    row: Column

    def of(self, frame: DataFrame, *, packed: bool) -> DataFrame:
        rows = frame if self.kept is None else frame.filter(self.kept)
        return rows.select(self.row) if packed else rows.select(*self.columns)


def _steps(
    relation: str, sends: Sequence[Send], schema: StructType, count: int, info: RelationInfo, hash_: str | None
) -> _Steps:
    given = StructType([field for field in schema.fields if field.name != hash_])
    source, columns = checked(given, info), columns_of(relation, sends)
    tests = {number: _tests(send, source) for number, send in enumerate(sends) if send.source == relation}
    kept = {number: reduce(Column.__and__, (test.column for test in all_)) for number, all_ in tests.items() if all_}
    read = dict.fromkeys([*columns, *(name for all_ in tests.values() for test in all_ for name in test.names)])
    cells = [source.columns[name].alias(f"c{place}") for place, name in enumerate(columns)]
    cells.append(source.guarded(F.lit(count).cast("bigint"), read, seen=columns).alias("w"))
    if len(tests) > 1:  # else all rows that are left pass
        cells += (test.alias(f"k{number}") for number, test in kept.items())
    if hash_ is not None:
        cells.append(F.col(hash_).alias(HASH))
    any_ = reduce(Column.__or__, kept.values()) if len(kept) == len(tests) else None
    return _Steps(any_, tuple(cells), F.struct(*cells).alias(ROW))


def _tests(send: Send, source: Checked) -> list[Condition]:
    """Those that are quick to decide come first: Spark stops at the first that is false."""
    found = [kept for test in send.where if (kept := condition(test, source)) is not None]
    return sorted(found, key=lambda test: max((_cost(source.types[name]) for name in test.names), default=0))


def _cost(type_: Type) -> int:
    """A number is compared at once; a decimal is an object first."""
    return {"decimal": 1, "string": 2, "binary": 2}.get(type_.name, 0)
