"""Whether readers of a view in a bucket would meet an error, told from what a batch has changed; and rows in pieces."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from kept_programs import TABLES, VIEWS, compiled
from kept_turns import pending

from viewmill.arrow import arrow_type
from viewmill.engines.local.fallible import fallible_views
from viewmill.engines.local.kept import Kept
from viewmill.engines.local.placement import place
from viewmill.errors import DataError, InternalError

DDL = "CREATE TABLE t (k int, n decimal(38,0)) WITH (stored = false)"
RATIO = "select k, 10 / sum(n) as r from t group by k"
TEXT = "select k, repeat(cast(10 / sum(n) as string), 2) as r from t group by k"
WIDE = Decimal(2**62)  # four of them are too many for a pool


def took(kept: Kept, rows: dict[tuple[int, Decimal], int], label: str) -> DataError | None:
    """A batch, and what a check of it finds."""
    found = None
    kept.watch(["v0"])
    kept.begin()
    kept.fire(pending([("t", rows)], kept.catalog))
    try:
        kept.check("v0")
    except DataError as error:
        found = error
    kept.commit(label)
    return found


@pytest.mark.parametrize("wide", [False, True], ids=["pools", "wide"])
@pytest.mark.parametrize("view", [RATIO, TEXT], ids=["compiled", "interpreted"])
def test_what_a_batch_changed_is_looked_at(tmp_path: Path, view: str, wide: bool):
    program, catalog = compiled(DDL, view)
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        assert took(kept, {(k, Decimal(5)): 1 for k in range(9)} | ({(9, WIDE): 4} if wide else {}), "1") is None
        assert (kept._engine.wide is not None) == wide
        assert wide or (kept._engine._watch("v0") is None) == (view is TEXT)
        error = took(kept, {(1, Decimal(-5)): 1}, "2")
        assert error is not None and "division by zero" in error.message
        with pytest.raises(DataError, match="division by zero"):
            kept.check_whole("v0")
        assert took(kept, {(2, Decimal(1)): 1}, "3") is None, "the batch before is not this one's fault"
        assert took(kept, {(1, Decimal(2)): 1}, "4") is None, "it is right now, whatever it was"
        kept.check_whole("v0")


def test_there_is_nothing_to_check_outside_a_batch(tmp_path: Path):
    program, catalog = compiled(DDL, RATIO)
    with Kept.create(tmp_path / "bucket", program, catalog) as kept, pytest.raises(InternalError):
        kept.check("v0")


def test_views_that_may_be_in_error():
    program, catalog = compiled(DDL, RATIO, TEXT, "select k, sum(n) as n from t group by k", "select k, n from t")
    assert fallible_views(program, place(program, program.stores, catalog)).ever == {"v0", "v1"}
    program, catalog = compiled(TABLES, VIEWS[0])
    assert fallible_views(program, place(program, program.stores, catalog)).ever == frozenset()


@pytest.mark.parametrize("wide", [False, True], ids=["pools", "wide"])
def test_pieces_are_all_rows(tmp_path: Path, wide: bool):
    program, catalog = compiled(DDL, "select k, n from t", "select k, sum(n) as n from t group by k")
    (store,) = (store for store in program.stores.values() if len(store.keys) == 2)
    rows = {(k if k % 7 else None, Decimal(k % 30)): 1 + k % 3 for k in range(250)}
    rows |= {(9, WIDE): 4} if wide else {}
    schema = pa.schema([(key, arrow_type(type_)) for key, type_ in zip(store.keys, store.types, strict=True)])
    with Kept.create(tmp_path / "bucket", program, catalog) as kept:
        took_rows(kept, rows)
        assert (kept._engine.wide is not None) == wide
        found: Counter[tuple[object, ...]] = Counter()
        pieces = list(kept.pieces(store.name, size=100))
        assert len(pieces) == (1 if wide else -(-len(kept.store(store.name)) // 100))
        for piece in pieces:
            (first,) = piece.columns((0,))
            assert len(first) == len(piece.counts)
            found.update(_rows(piece.repeated(piece.counts, schema)))
            assert not piece.repeated(np.zeros(len(piece.counts), np.int64), schema).num_rows
        assert found == Counter(kept.store(store.name)) == Counter(rows)


def took_rows(kept: Kept, rows: dict[tuple[int | None, Decimal], int]) -> None:
    kept.begin()
    kept.fire(pending([("t", rows)], kept.catalog))
    kept.commit("1")


def _rows(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
