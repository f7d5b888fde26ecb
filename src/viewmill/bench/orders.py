"""Orders and their items come, change and go, as TPC-H made them: the changes of the demo and of the Spark benchmark.

The newest tenth of the orders is held back. Each batch brings some of them, changes items and orders that are there,
and takes others away with all their items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HELD_BACK = 0.1


@dataclass(frozen=True, slots=True)
class Changed:
    """What a batch does to one table. Updates have the row before and after, at the same place."""

    inserted: pa.Table
    deleted: pa.Table
    before: pa.Table
    after: pa.Table

    @property
    def rows(self) -> int:
        return sum(len(part) for part in (self.inserted, self.deleted, self.after))


class Orders:
    """`start` is what there is at first, `tables` what there is now; `batches` change it."""

    def __init__(self, tables: Mapping[str, pa.RecordBatch], seed: int = 7) -> None:
        whole = {name: pa.table(batch) for name, batch in tables.items()}
        keys = np.sort(whole["orders"].column("o_orderkey").to_numpy())
        first_new = keys[int(len(keys) * (1 - _HELD_BACK))]
        self._new = {name: _keyed(whole[name], lambda key: pc.greater_equal(key, first_new)) for name in _KEYS}
        old = {name: _keyed(whole[name], lambda key: pc.less(key, first_new)) for name in _KEYS}
        self.tables = self.start = {**whole, **old}
        self._random = np.random.default_rng(seed)

    def batches(self, count: int, share: float) -> Iterator[dict[str, Changed]]:
        """So many batches, each of which changes about this share of the orders and their items."""
        arriving = np.array_split(np.sort(self._new["orders"].column("o_orderkey").to_numpy()), count)
        for keys in arriving:
            some = max(1, int(self.tables["orders"].num_rows * share / 4))
            yield self._batch(keys[:some], some)

    def _batch(self, arriving: np.ndarray, some: int) -> dict[str, Changed]:
        gone = self._random.choice(self.tables["orders"].column("o_orderkey").to_numpy(), some, replace=False)
        found = {}
        for name in _KEYS:
            inserted = _keyed(self._new[name], lambda key: pc.is_in(key, pa.array(arriving)))
            there = self.tables[name]
            leaving = pc.is_in(there.column(_KEYS[name]), pa.array(gone))
            deleted, staying = there.filter(leaving), there.filter(pc.invert(leaving))
            picked = np.zeros(staying.num_rows, bool)
            picked[self._random.choice(staying.num_rows, 2 * some, replace=False)] = True
            before = staying.filter(pa.array(picked))
            after = _CHANGES[name](before, self._random)
            self.tables = {
                **self.tables,
                name: pa.concat_tables([staying.filter(pa.array(~picked)), after, inserted]).combine_chunks(),
            }
            found[name] = Changed(inserted, deleted, before, after)
        return found


_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}


def _keyed(table: pa.Table, test: object) -> pa.Table:
    key = next(name for name in _KEYS.values() if name in table.column_names)
    return table.filter(test(table.column(key)))  # type: ignore[operator]


def _other_items(items: pa.Table, random: np.random.Generator) -> pa.Table:
    """Another quantity, price and way of shipping."""
    modes = pa.array(["AIR", "MAIL", "RAIL", "SHIP", "TRUCK"]).take(pa.array(random.integers(0, 5, len(items))))
    quantity = pa.array(random.integers(1, 51, len(items))).cast(pa.decimal128(19, 0))
    price = _raised(items, "l_extendedprice")
    return _with(items, {"l_quantity": quantity, "l_shipmode": modes, "l_extendedprice": price})


def _other_orders(orders: pa.Table, random: np.random.Generator) -> pa.Table:
    """Another priority and price."""
    names = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
    urgency = pa.array(names).take(pa.array(random.integers(0, 5, len(orders))))
    return _with(orders, {"o_orderpriority": urgency, "o_totalprice": _raised(orders, "o_totalprice")})


_CHANGES = {"orders": _other_orders, "lineitem": _other_items}


def _raised(table: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.add(table.column(name), pa.scalar(Decimal("1.00"), pa.decimal128(3, 2)))


def _with(table: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    for name, column in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), column.cast(table.schema.field(place).type))
    return table
