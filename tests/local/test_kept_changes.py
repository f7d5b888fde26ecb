"""What a batch does to a view in a bucket, told without reading the view.

The law: what the view held before a batch, and the change, is what it holds after it.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kept_programs import TABLES, VIEWS, as_changes, compiled, many_rows
from kept_turns import pending

import viewmill
from viewmill.catalog import ColumnInfo
from viewmill.engines.local.kept import Kept
from viewmill.errors import DataError, InternalError

WIDE = Decimal(2**62)  # two of them are too many for a pool


def columns_of(ddl: str, *views: str) -> dict[str, tuple[ColumnInfo, ...]]:
    mill = viewmill.connect()
    mill.sql(ddl)
    for number, query in enumerate(views):
        mill.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    return {name: mill.view(name).columns for name in mill.views}


def told(kept: Kept, columns: dict[str, tuple[ColumnInfo, ...]]) -> dict[str, Counter[Any]]:
    found = {}
    for view, known in columns.items():
        table = kept.change(view, known)
        assert table.schema.names == [*(column.name for column in known), "weight_"]
        *values, weights = (column.to_pylist() for column in table.columns)
        rows = list(zip(*values, strict=True))
        assert len(set(rows)) == len(rows), "a row is told of once"
        found[view] = Counter(dict(zip(rows, weights, strict=True)))
        assert 0 not in found[view].values()
    return found


def contents(kept: Kept, columns: dict[str, tuple[ColumnInfo, ...]]) -> dict[str, Counter[Any]]:
    return {view: Counter(kept.contents(view)) for view in columns}


def follow(kept: Kept, columns: dict[str, tuple[ColumnInfo, ...]], changes: Any, label: str) -> None:
    before = contents(kept, columns)
    kept.watch(columns)
    kept.begin()
    for change in changes:  # one after another, as steps of a batch fire them
        kept.fire(pending([change], kept.catalog))
    change_of = told(kept, columns)
    kept.commit(label)
    after = contents(kept, columns)
    for view in columns:
        before[view].update(change_of[view])
        assert +before[view] == after[view], view
        assert not -before[view]


def test_changes_are_the_difference(tmp_path: Path):
    program, catalog = compiled(TABLES, *VIEWS)
    columns = columns_of(TABLES, *VIEWS)
    batches = [many_rows(number, 300) for number in range(3)]
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        for number, batch in enumerate(batches):
            follow(kept, columns, as_changes(batch), f"{number}")
        follow(kept, columns, as_changes(batches[1], -1), "less")
        kept.undo()
        follow(kept, columns, as_changes(batches[0], -1), "less of another")
        follow(kept, columns, [], "nothing")
        assert kept.label == "nothing"


def test_numbers_that_are_too_wide_for_a_pool(tmp_path: Path):
    ddl = "CREATE TABLE t (k int, m decimal(38,0)) WITH (stored = false)"
    view = "select k, sum(m) as m, count(*) as n from t group by k"
    program, catalog = compiled(ddl, view)
    columns = columns_of(ddl, view)
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        follow(kept, columns, [("t", {(1, Decimal(1)): 1, (2, Decimal(2)): 1})], "1")
        follow(kept, columns, [("t", {(1, WIDE): 3, (None, WIDE): 1})], "2")
        follow(kept, columns, [("t", {(1, WIDE): -3, (2, Decimal(2)): -1})], "3")


def test_leading_columns_are_added_up(tmp_path: Path):
    """A column that is left out may be all that changed."""
    program, catalog = compiled(TABLES, VIEWS[0])
    (all_columns,) = columns_of(TABLES, VIEWS[0]).values()
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        kept.begin()
        kept.fire(pending([("t", {(1, "a", Decimal(1), 0.5): 1})], catalog))
        kept.commit("1")
        kept.begin()
        kept.fire(pending([("t", {(2, "a", Decimal(1), 0.5): 1})], catalog))
        assert kept.change("v0", all_columns).num_rows == 2
        assert kept.change("v0", all_columns[:1]).num_rows == 0
        assert kept.change("v0", all_columns[:2]).sort_by("n").to_pydict() == {
            "s": ["a", "a"],
            "n": [1, 2],
            "weight_": [-1, 1],
        }
        kept.rollback()


def test_there_is_no_change_outside_a_batch(tmp_path: Path):
    program, catalog = compiled(TABLES, VIEWS[0])
    with Kept.create(tmp_path / "bucket", program, catalog) as kept, pytest.raises(InternalError):
        kept.change("v0", columns_of(TABLES, VIEWS[0])["v0"])


def test_types_are_those_of_the_view(tmp_path: Path):
    program, catalog = compiled(TABLES, VIEWS[0])
    columns = columns_of(TABLES, VIEWS[0])["v0"]
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        kept.begin()
        kept.fire(pending([("t", {(1, "a", Decimal(1), 0.5): 1})], catalog))
        types = kept.change("v0", columns).schema.types
        kept.rollback()
    assert types == [
        pa.string(),
        pa.int64(),
        pa.decimal128(22, 2),
        pa.float64(),
        pa.int32(),
        pa.string(),
        pa.int64(),
    ]


def test_a_change_that_cannot_be_told_leaves_the_state_alone(tmp_path: Path):
    """Here it is the state before the batch in which the view is an error."""
    ddl = "CREATE TABLE t (k int, n int) WITH (stored = false)"
    view = "select k, 10 / sum(n) as r from t group by k"
    program, catalog = compiled(ddl, view)
    columns = columns_of(ddl, view)["v0"]
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        kept.begin()
        kept.fire(pending([("t", {(1, 0): 1, (2, 5): 1})], catalog))
        kept.commit("1")
        kept.begin()
        kept.fire(pending([("t", {(1, 4): 1})], catalog))
        with pytest.raises(DataError, match="division by zero"):
            kept.change("v0", columns)
        kept.commit("2")
        assert kept.contents("v0") == {(1, 2.5): 1, (2, 2.0): 1}
