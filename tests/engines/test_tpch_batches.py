"""The 22 TPC-H views at scale factor 0.01, under batches that mix inserts, deletes and updates, against DuckDB.

Nine rows of ten are there at first; the others come and go. Batches are Arrow, and reach compiled code as columns. Most
are small; every tenth changes a good part of all tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import viewmill
from viewmill.bench.data import ensure, load
from viewmill.bench.queries import KEYS, TABLES, schema_sql, tpch_queries
from viewmill.bench.truth import disagreement

BATCHES = 30
Edits = dict[str, tuple[pa.Table, pa.Table]]
"""By table, the rows that go and the rows that come."""


class World:
    """All rows there ever are, and which of them are in the tables now."""

    def __init__(self, folder: Path) -> None:
        self._random = np.random.default_rng(22)
        self._rows = {name: pa.Table.from_batches([batch]) for name, batch in load(folder).items()}
        self._here = {name: self._random.random(len(rows)) < 0.9 for name, rows in self._rows.items()}
        self._spent = {name: np.zeros(len(rows), bool) for name, rows in self._rows.items()}

    def tables(self) -> dict[str, pa.Table]:
        return {name: rows.filter(pa.array(self._here[name])) for name, rows in self._rows.items()}

    def batches(self) -> Iterator[Edits]:
        for number in range(BATCHES):
            share = 0.1 if number % 10 == 9 else 0.002
            names = [name for name in TABLES if len(self._rows[name]) > 30 or number % 7 == 3]
            yield {name: self._edit(name, share) for name in names}

    def _edit(self, name: str, share: float) -> tuple[pa.Table, pa.Table]:
        here, absent = self._here[name], ~self._here[name] & ~self._spent[name]
        count = 1 + int(share * here.sum())
        gone, updated, new = self._some(here, count), self._some(here, count), self._some(absent, count)
        updated = np.setdiff1d(updated, gone)
        rows, changed = self._rows[name], self._changed(name, updated)
        leaves, comes = rows.take(np.concatenate([gone, updated])), pa.concat_tables([rows.take(new), changed])
        here[gone] = here[updated] = False
        here[new] = True
        self._spent[name][updated] = True  # there would be two rows with its key
        self._rows[name] = pa.concat_tables([rows, changed])
        self._here[name] = np.concatenate([here, np.ones(len(changed), bool)])
        self._spent[name] = np.concatenate([self._spent[name], np.zeros(len(changed), bool)])
        return leaves, comes

    def _some(self, mask: np.ndarray, count: int) -> np.ndarray:
        places = np.flatnonzero(mask)
        return self._random.choice(places, min(count, len(places)), replace=False)

    def _changed(self, name: str, places: np.ndarray) -> pa.Table:
        """Rows with the same key, and the value that some other row has in one column."""
        rows = self._rows[name].take(places)
        column = self._random.choice([column for column in rows.column_names if column not in KEYS[name]])
        donors = self._random.integers(0, len(self._rows[name]), len(places))
        values = pc.take(self._rows[name][column], pa.array(donors))
        return rows.set_column(rows.column_names.index(column), rows.schema.field(column), values)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["compiled"], indirect=True)
@pytest.mark.parametrize("strategy", ["auto"])
def test_views_follow_their_queries(executor: str, strategy: str, tmp_path: Path) -> None:
    world, mill = World(ensure(0.01, tmp_path)), viewmill.connect()
    mill.sql(schema_sql())
    for query in tpch_queries().values():
        mill.sql(query.create(strategy))
    with mill.batch() as first:
        for name, rows in world.tables().items():
            first.insert(name, rows)
    assert not _wrong(mill, world)
    for number, edits in enumerate(world.batches()):
        with mill.batch() as batch:
            for name, (gone, new) in edits.items():
                batch.delete(name, gone)
                batch.insert(name, new)
        wrong = _wrong(mill, world)
        assert not wrong, f"after batch {number}\n" + "\n".join(wrong)


def _wrong(mill: viewmill.Mill, world: World) -> list[str]:
    tables = world.tables()
    compared = {
        query.name: disagreement(query, mill.view(query.name).to_arrow(), tables) for query in tpch_queries().values()
    }
    return [f"{name}: {difference}" for name, difference in compared.items() if difference]
