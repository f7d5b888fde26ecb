"""How large everything in the buckets is: one job, which reads no row that it need not count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from viewmill.catalog import ColumnInfo
from viewmill.distribute.nodes import Everywhere
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.reading import Reader, bucket_by_bucket, rows_of_view
from viewmill.engines.spark.resolve import StoredTable
from viewmill.engines.spark.states import at_version
from viewmill.engines.spark.work import Point

SIZES_DDL = "kind string, name string, rows bigint, bytes bigint"


@dataclass(slots=True)
class Sizes:
    """Rows of stored tables, rows and bytes of stores, rows of views. What is everywhere has its rows once."""

    tables: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    stores: dict[str, tuple[int, int]] = field(default_factory=dict)
    views: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, told: pa.Table) -> None:
        for kind, name, rows, size in zip(*(column.to_pylist() for column in told.columns), strict=True):
            match kind:
                case "table":
                    self.tables[name] += rows
                case "view":
                    self.views[name] += rows
                case _:
                    before = self.stores.get(name, (0, 0))
                    self.stores[name] = before[0] + rows, before[1] + size


def sizer(point: Point, views: Mapping[str, Sequence[ColumnInfo]]) -> Reader:
    """For `mapInArrow` over an anchor."""

    def sizes(bucket: int, kept: Kept) -> Iterator[tuple[str, str, int, int]]:
        deployed = point.deployed()
        program, places = deployed.program, deployed.program.places

        def is_told(place: object) -> bool:
            return bucket == 0 or not isinstance(place, Everywhere)

        for name in deployed.stored:
            pieces = kept.pieces(StoredTable(deployed.catalog.relations[name]).store)
            yield "table", name, sum(int(piece.counts.sum()) for piece in pieces), 0
        for name in program.buckets.stores:
            rows, size = kept.size(name)
            yield "store", name, rows if is_told(places.get(name)) else 0, size
        for name, columns in views.items():
            if is_told(program.views[name]):
                yield "view", name, sum(batch.num_rows for batch in rows_of_view(kept, name, columns)), 0

    def told(bucket: int) -> Iterator[pa.RecordBatch]:
        found = at_version(point, bucket, lambda kept: list(sizes(bucket, kept)))
        names = ("kind", "name", "rows", "bytes")
        arrays = [pa.array(values) for values in zip(*found, strict=True)]
        if found:
            yield pa.RecordBatch.from_arrays(arrays, names=list(names))

    return bucket_by_bucket(told)
