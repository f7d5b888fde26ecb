"""What a batch did to views in the buckets, on its way from their tasks to the driver.

    rows that differ, each with its `weight_`  ->  a message of each bucket and step  ->  the sum of them

A batch goes through a bucket in steps. Each tells what it did; the view differs by the sum of that. Cost follows the
change, not the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from viewmill.arrow import arrow_schema, arrow_table
from viewmill.catalog import ColumnInfo
from viewmill.distribute.nodes import WEIGHT
from viewmill.engines.interpreter.tables import Rows
from viewmill.engines.spark.hash import bucket_keys
from viewmill.engines.spark.message import MESSAGES
from viewmill.engines.spark.work import from_log, to_log

CHANGE = -4
"""The target of such messages."""

_VIEW = b"view"
_COUNT = pa.field(WEIGHT, pa.int64(), nullable=False)


class Untold(Exception):
    """What a batch does to this view is known only from reading it before and after. Nothing was committed."""

    def __init__(self, view: str) -> None:
        super().__init__(view)
        self.view = view


def change_messages(changes: Mapping[str, pa.Table | None], bucket: int, buckets: int) -> pa.Table:
    """Nothing is told where nothing changed."""
    key = bucket_keys(buckets)[bucket]
    rows = [
        {"key": key, "target": CHANGE, "origin": bucket, "data": _told(view, change)}
        for view, change in changes.items()
        if change is None or change.num_rows
    ]
    return pa.Table.from_pylist(rows, MESSAGES)


def _told(view: str, change: pa.Table | None) -> bytes:
    """A change that cannot be told has no columns."""
    table = pa.table({}) if change is None else change
    return to_log(table.replace_schema_metadata({_VIEW: view}))


def gathered_changes(messages: pa.Table, watched: Mapping[str, Sequence[ColumnInfo]]) -> dict[str, pa.Table]:
    """The change of each watched view: its columns and `weight_`, every row once."""
    parts: dict[str, list[pa.Table]] = {view: [] for view in watched}
    for data in messages.column("data").to_pylist():
        part = from_log(data)
        view = part.schema.metadata[_VIEW].decode()
        if not part.num_columns:
            raise Untold(view)
        parts[view].append(part.cast(_schema(watched[view])))
    return {view: _sum(parts[view], columns) for view, columns in watched.items()}


def change_of_rows(rows: Rows, columns: Sequence[ColumnInfo]) -> pa.Table:
    """The same from rows with weights, of which the leading columns matter."""
    net: Rows = {}
    for row, weight in rows.items():
        shown = row[: len(columns)]
        net[shown] = net.get(shown, 0) + int(weight)
    net = {row: weight for row, weight in net.items() if weight}
    return arrow_table(columns, net).append_column(_COUNT, pa.array(list(net.values()), pa.int64()))


def add_rows(total: Rows, rows: Rows) -> None:
    """Changes of a view that come one after another are its change in all."""
    for row, weight in rows.items():
        total[row] = total.get(row, 0) + weight


def _schema(columns: Sequence[ColumnInfo]) -> pa.Schema:
    return arrow_schema(columns).append(_COUNT)


def _sum(parts: Sequence[pa.Table], columns: Sequence[ColumnInfo]) -> pa.Table:
    schema = _schema(columns)
    if not parts:
        return schema.empty_table()
    if len(parts) == 1:
        return parts[0]
    names = [column.name for column in columns]
    together = pa.concat_tables(parts).group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    net = together.select([*names, f"{WEIGHT}_sum"]).rename_columns(schema.names).cast(schema)
    return net.filter(pc.not_equal(net.column(WEIGHT), 0))
