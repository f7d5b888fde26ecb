"""Changes that are added up: rows that come, and rows that go, in whatever order.

{op: u, before: (1, 5), after: (1, 7)}, {op: c, after: (1, 5)}     ->     add (1, 7), add (1, 5), remove (1, 5)
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from viewmill.catalog import RelationInfo
from viewmill.engines.spark.frames import Request
from viewmill.engines.spark.resolve import Op
from viewmill.sources.reading import columns, envelope, image, known_as, named, path

_BEFORE = ("delete", "update_preimage")
_AFTER = ("insert", "update_postimage")


def appended(frame: DataFrame, info: RelationInfo) -> list[Request]:
    """Every row is new. What columns there are is checked as for any insert."""
    return [Request(info.name, Op.INSERT, frame)]


def envelopes(frame: DataFrame, info: RelationInfo) -> list[Request]:
    """Debezium's, with whole rows before updates and deletes."""
    frame, said = envelope(frame, info)

    def rows(name: str, kinds: Sequence[str]) -> DataFrame:
        return frame.filter(said.isin(*kinds)).select(*(image(frame, name, column, info) for column in info.names))

    return _summed(info, rows("before", ("u", "d")), rows("after", ("c", "r", "u")))


def delta(frame: DataFrame, info: RelationInfo) -> list[Request]:
    """Rows of Delta's change data feed."""
    frame = named(frame, info)
    name, names = "_change_type", columns(info.names)
    kind = path(frame, name, info)
    said = known_as(F.when(kind.isin(*_BEFORE, *_AFTER), kind), name, kind, F.struct(*names), info)
    return _summed(info, *(frame.filter(said.isin(*kinds)).select(*names) for kinds in (_BEFORE, _AFTER)))


def _summed(info: RelationInfo, before: DataFrame, after: DataFrame) -> list[Request]:
    return [Request(info.name, Op.REMOVE, before), Request(info.name, Op.ADD, after)]
