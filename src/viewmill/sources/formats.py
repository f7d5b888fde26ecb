"""Change formats: a DataFrame of changes, in the words of the system that made it, as requests of ours.

    append      every row is new
    upsert      whole rows, matched by primary key: replaced, or added if the key is new
    cdc         the same, with a column that says what happened: insert, update or delete (`op=`)
    debezium    the envelope of Debezium: op, before, after
    delta       rows of Delta's change data feed: _change_type, with the row before an update and after it

What happens to a key follows from the rows of a batch, which have no order, in one of two ways:

- `last.py`: rows say what is there now, and the last one of each key counts. `order_by` names columns that say which
  is last; without them, each key has one change in a batch. What was there before is looked up, so the table must be
  stored, and a change that comes twice does no harm.
- `sums.py`: rows say what was there before and what is after, and are added up. Tables need keep nothing.

`upsert` and `cdc` are of the first kind, `append` and `delta` of the second; Debezium's envelopes tell both, and are of
the first kind if `order_by` is given. Every row is one or the other or an error: what a format does not know is never
passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never, get_args

from pyspark.sql import DataFrame

from viewmill.catalog import RelationInfo
from viewmill.engines.spark.frames import Request
from viewmill.errors import BindError
from viewmill.sources.last import cdc, last_envelopes, upserts
from viewmill.sources.sums import appended, delta, envelopes
from viewmill.wording import nearest, quoted, titled

Kind: TypeAlias = Literal["append", "upsert", "cdc", "debezium", "delta"]


@dataclass(frozen=True, slots=True)
class ChangeFormat:
    """How to read changes. `op` is the column that says what happened, `order_by` those that say when."""

    kind: Kind = "append"
    op: str = "op"
    order_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise BindError(
                f"there is no change format {quoted(self.kind)}",
                hint=nearest(self.kind, get_args(Kind), "the formats are"),
            )
        if self.order_by and self.kind in ("append", "delta"):
            raise BindError(
                f"changes of format {quoted(self.kind)} are added up, and order_by says nothing about them",
                hint="leave it out",
            )

    def requests(self, frame: DataFrame, info: RelationInfo) -> list[Request]:
        """What is to happen to the rows of a relation."""
        match self.kind:
            case "append":
                return appended(frame, info)
            case "upsert":
                _need_rows(info, self.kind)
                return upserts(frame, info, self.order_by)
            case "cdc":
                _need_rows(info, self.kind)
                return cdc(frame, info, self.order_by, self.op)
            case "debezium" if self.order_by:
                _need_rows(info, f"{self.kind} with order_by")
                return last_envelopes(frame, info, self.order_by)
            case "debezium":
                return envelopes(frame, info)
            case "delta":
                return delta(frame, info)
            case _:
                assert_never(self.kind)


def _need_rows(info: RelationInfo, kind: str) -> None:
    if info.kind != "table" or not info.stored or not info.primary_key:
        raise BindError(
            f"changes of format {quoted(kind)} need the old rows of {titled(info)}, and it "
            + ("has no primary key" if info.stored and info.kind == "table" else "keeps none"),
            hint="create it as a TABLE with a PRIMARY KEY and without stored = false, or send rows before and after",
        )
