"""Change formats: a DataFrame of changes, in the words of the system that made it, as requests of ours.

    append      every row is new
    upsert      whole rows, matched by primary key: replaced, or added if the key is new
    cdc         rows with a column that says what happened: insert, update or delete (`op=`)
    debezium    the envelope of Debezium: op, before, after
    delta       rows of Delta's change data feed: _change_type, with the row before an update and after it

`upsert` and `cdc` tell the new row, or only the key; what was there before is looked up, so the table must be stored.
Of several changes of one key in a batch the last one counts; `order_by` names the column that says which is last. The
other two tell rows before and after, and are added up: their order does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from viewmill.catalog import RelationInfo
from viewmill.engines.spark.failure import raised
from viewmill.engines.spark.frames import Request
from viewmill.engines.spark.resolve import Op
from viewmill.errors import BindError, DataError
from viewmill.wording import nearest, quoted, titled

Kind: TypeAlias = Literal["append", "upsert", "cdc", "debezium", "delta"]

_INSERTS = ("i", "c", "r", "insert", "create", "read", "+i")
_UPDATES = ("u", "update", "upsert", "+u", "update_after")
_DELETES = ("d", "delete", "-d")
_PASSED = ("-u", "update_before", "update_preimage")
"""The row before an update, which the key alone finds."""


@dataclass(frozen=True, slots=True)
class ChangeFormat:
    """How to read changes. `op` is the column that says what happened, `order_by` the one that says when."""

    kind: Kind = "append"
    op: str = "op"
    order_by: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise BindError(
                f"there is no change format {quoted(self.kind)}",
                hint=nearest(self.kind, get_args(Kind), "the formats are"),
            )

    def requests(self, frame: DataFrame, info: RelationInfo) -> list[Request]:
        """What is to happen to the rows of a relation."""
        match self.kind:
            case "append":
                return [Request(info.name, Op.INSERT, frame)]
            case "upsert":
                _need_rows(info, self.kind)
                return [Request(info.name, Op.UPSERT, self._last(frame, info).select(*info.names))]
            case "cdc":
                return self._cdc(frame, info)
            case "debezium":
                return _debezium(frame, info)
            case "delta":
                return _delta(frame, info)

    def _last(self, frame: DataFrame, info: RelationInfo) -> DataFrame:
        """The last change of each key."""
        if self.order_by is None:
            return frame
        _need_columns(frame, (self.order_by,), info)
        window = Window.partitionBy(*info.primary_key).orderBy(F.col(self.order_by).desc())
        return frame.withColumn("last_", F.row_number().over(window)).filter("last_ = 1").drop("last_")

    def _cdc(self, frame: DataFrame, info: RelationInfo) -> list[Request]:
        _need_rows(info, self.kind)
        _need_columns(frame, (self.op,), info)
        op = F.lower(F.col(self.op).cast("string"))
        last = self._last(frame.filter(~op.isin(*_PASSED)), info)
        message = f"column {quoted(self.op)} of the changes of {titled(info)} is none of insert, update and delete"
        known = op.isin(*_INSERTS, *_UPDATES, *_DELETES)
        kind = F.when(known, op.isin(*_DELETES)).otherwise(raised(message))
        return [
            Request(info.name, Op.DELETE_KEY, last.filter(kind).select(*info.primary_key)),
            Request(info.name, Op.UPSERT, last.filter(~kind).select(*info.names)),
        ]


def _debezium(frame: DataFrame, info: RelationInfo) -> list[Request]:
    if "payload" in frame.columns:
        frame = frame.select("payload.*")
    _need_columns(frame, ("op", "before", "after"), info)
    for name in ("before", "after"):
        if not isinstance(frame.schema[name].dataType, StructType):
            raise DataError(
                f"column {quoted(name)} of the changes of {titled(info)} is no struct",
                hint="parse the envelope with from_json first",
            )
    return [
        Request(info.name, Op.REMOVE, _image(frame, "before", F.col("op").isin("u", "d"), info)),
        Request(info.name, Op.ADD, _image(frame, "after", F.col("op").isin("c", "r", "u"), info)),
    ]


def _image(frame: DataFrame, name: str, which: Column, info: RelationInfo) -> DataFrame:
    """The rows before, or after. Without one, the change cannot be taken back: the database must be told to send it."""
    chosen = frame.filter(which)
    missing = f"a change of {titled(info)} lacks the row {name} it; set its replica identity to FULL"
    row = F.when(F.col(name).isNotNull(), F.col(name)).otherwise(raised(missing))
    return chosen.select(row.alias("row_")).select(*(F.col(f"row_.{column}").alias(column) for column in info.names))


def _delta(frame: DataFrame, info: RelationInfo) -> list[Request]:
    _need_columns(frame, ("_change_type",), info)
    kind, names = F.col("_change_type"), list(info.names)
    return [
        Request(info.name, Op.REMOVE, frame.filter(kind.isin("delete", "update_preimage")).select(*names)),
        Request(info.name, Op.ADD, frame.filter(kind.isin("insert", "update_postimage")).select(*names)),
    ]


def _need_rows(info: RelationInfo, kind: str) -> None:
    if info.kind != "table" or not info.stored or not info.primary_key:
        raise BindError(
            f"changes of format {quoted(kind)} need the old rows of {titled(info)}, and it "
            + ("has no primary key" if info.stored and info.kind == "table" else "keeps none"),
            hint="create it as a TABLE with a PRIMARY KEY and without stored = false, or send rows before and after",
        )


def _need_columns(frame: DataFrame, names: Sequence[str], info: RelationInfo) -> None:
    there = {name.lower() for name in frame.columns}
    missing = [name for name in names if name.lower() not in there]
    if missing:
        raise DataError(
            f"the changes of {titled(info)} have no column {quoted(missing[0])}",
            hint=nearest(missing[0], frame.columns, "the columns are"),
        )
