"""Stores that move into another number of buckets.

    bucket of the old number -> the rows of its stores, by where they belong -> bucket of the new number -> its snapshot

Where a row belongs follows from the store's place and the row, as it does for a batch. The new buckets are files of
their own, and their snapshots are in a folder of their own: until the commit that names them, the old ones count.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from viewmill.distribute.nodes import Buckets
from viewmill.engines.interpreter.tables import Row, Rows, Table
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.anchor import BucketFunction
from viewmill.engines.spark.failure import Told
from viewmill.engines.spark.hash import bucket_keys, bucket_of
from viewmill.engines.spark.reading import Reader
from viewmill.engines.spark.states import made_somewhere, state_at
from viewmill.engines.spark.task import Report
from viewmill.engines.spark.work import Deployed, Point
from viewmill.engines.spark.worker import settle
from viewmill.errors import ViewmillError

STORES_DDL = "key int, store string, data binary"
REPORTS_DDL = "report binary"
_STORES = pa.schema([("key", pa.int32()), ("store", pa.string()), ("data", pa.binary())])
_REPORTS = pa.schema([("report", pa.binary())])
_AT_ONCE = 100_000
"""Rows of a store that travel in one piece."""

Piece: TypeAlias = list[tuple[Row, object]]


def leaving(point: Point, buckets: int) -> Reader:
    """For `mapInArrow` over the anchor: what the stores of a bucket hold, for each of so many new ones."""

    def read(anchors: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for anchor in anchors:
            for bucket in anchor.column("bucket").to_pylist():
                try:
                    with state_at(point, bucket) as kept:
                        yield from _pieces(point.deployed(), kept, bucket, buckets)
                except ViewmillError as error:
                    raise Told(error) from error
        settle()

    return read


def _pieces(deployed: Deployed, kept: Kept, bucket: int, buckets: int) -> Iterator[pa.RecordBatch]:
    keys = bucket_keys(buckets)
    for name in deployed.program.buckets.stores:
        for target, rows in _parts(deployed, name, kept.store(name), bucket, buckets).items():
            items = iter(rows)
            while piece := list(islice(items, _AT_ONCE)):
                data = pickle.dumps(piece, protocol=pickle.HIGHEST_PROTOCOL)
                yield pa.RecordBatch.from_pylist([{"key": keys[target], "store": name, "data": data}], _STORES)


def _parts(deployed: Deployed, store: str, rows: Rows, bucket: int, buckets: int) -> dict[int, Piece]:
    """The rows of a store by the bucket they go to. What is everywhere is taken from the first bucket."""
    place = deployed.program.places[store]
    if not isinstance(place, Buckets):
        return {target: list(rows.items()) for target in range(buckets)} if bucket == 0 else {}
    keys = deployed.program.buckets.stores[store].keys
    by = [keys.index(field) for field in place.by]
    parts: dict[int, Piece] = {}
    for row, weight in rows.items():
        parts.setdefault(bucket_of([row[i] for i in by], buckets), []).append((row, weight))
    return parts


def arriving(point: Point, version: int) -> BucketFunction:
    """What a new bucket does with what arrives: it is made, with the label of its point, and saved."""

    def make(bucket: int, table: pa.Table) -> pa.Table:
        try:
            return pa.Table.from_pylist([{"report": _made(point, version, bucket, table)}], _REPORTS)
        except ViewmillError as error:
            raise Told(error) from error

    return make


def _made(point: Point, version: int, bucket: int, table: pa.Table) -> bytes:
    deployed = point.deployed()
    stores = deployed.program.buckets.stores
    found: dict[str, dict[Row, object]] = {name: {} for name in stores}
    for name, data in zip(table.column("store").to_pylist(), table.column("data").to_pylist(), strict=True):
        found[name].update(pickle.loads(data))
    tables = {name: Table(store.keys, found[name]) for name, store in stores.items()}

    def make(path: Path) -> int:
        with (
            Kept.create(path, deployed.program.buckets, deployed.known, tables, label=point.label) as kept,
            point.files.output(point.snapshot(bucket, version), in_place=True) as out,
        ):
            kept.save(out)
            return out.tell()

    return json.dumps(asdict(Report(bucket, 0, 0, made_somewhere(point, bucket, make)))).encode()
