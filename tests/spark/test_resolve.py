"""What is asked of a stored table becomes what an embedded mill makes of it, or the same error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from viewmill.arrow import arrow_schema
from viewmill.catalog import Catalog, ColumnInfo, RelationInfo
from viewmill.distribute.nodes import Distributed
from viewmill.engines.local.kept import Kept
from viewmill.engines.spark.resolve import Op, StoredTable, resolved, with_tables
from viewmill.errors import DataError
from viewmill.program.nodes import EMPTY
from viewmill.tables import BaseTable, Draft
from viewmill.types import BIGINT, STRING

INFO = RelationInfo(
    "t", (ColumnInfo("k", BIGINT, nullable=False), ColumnInfo("a", STRING), ColumnInfo("b", BIGINT)), ("k",)
)
TABLE = StoredTable(INFO)


@pytest.fixture
def kept(tmp_path: Path):
    program = with_tables(Distributed({}, EMPTY, EMPTY), [INFO])
    with Kept.create(tmp_path / "bucket", program.buckets, Catalog(program.infos)) as bucket:
        yield bucket


def ask(kept: Kept, requests: list[tuple[Op, tuple[object, ...]]]) -> dict[tuple[object, ...], int]:
    """The net change, committed; or nothing and the error."""
    schema = arrow_schema(TABLE.asked.columns)
    columns = zip(*(row for _, row in requests), strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    codes = np.array([op.code(number) for number, (op, _) in enumerate(requests)])
    kept.begin()
    try:
        rows, counts = resolved(kept, TABLE, pa.RecordBatch.from_arrays(arrays, schema=schema), codes)
    except BaseException:
        kept.rollback()
        raise
    kept.commit("next")
    net: Counter[tuple[object, ...]] = Counter()
    for row, count in zip(zip(*(c.to_pylist() for c in rows.columns), strict=True), counts.tolist(), strict=True):
        net[row] += count
    return {row: count for row, count in net.items() if count}


def contents(kept: Kept) -> dict[tuple[object, ...], int]:
    return {row: int(count) for row, count in kept.store(TABLE.store).items()}


KEYS = st.integers(0, 5)
ROWS = st.tuples(KEYS, st.sampled_from((None, "x", "y")), st.sampled_from((None, 1)))
BATCHES = st.lists(st.lists(st.tuples(st.sampled_from(Op), ROWS), min_size=1, max_size=5), max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES)
def test_a_bucket_does_as_an_embedded_mill(batches, tmp_path_factory):
    program = with_tables(Distributed({}, EMPTY, EMPTY), [INFO])
    base = BaseTable(INFO)
    path = tmp_path_factory.mktemp("buckets") / "bucket"
    with Kept.create(path, program.buckets, Catalog(program.infos)) as kept:
        for batch in batches:
            draft = Draft(base)
            try:
                for op, row in batch:
                    match op:
                        case Op.INSERT:
                            draft.insert(row)
                        case Op.DELETE:
                            draft.delete(row)
                        case Op.UPDATE:
                            draft.update(row)
                        case Op.UPSERT:
                            draft.upsert(row)
                        case Op.DELETE_KEY:
                            draft.delete_key((row[0],))
                        case Op.ADD:
                            draft.add(row, 1)
                        case Op.REMOVE:
                            draft.add(row, -1)
                draft.check()
            except DataError as error:
                with pytest.raises(DataError) as raised:
                    ask(kept, batch)
                assert raised.value.message == error.message
            else:
                assert ask(kept, batch) == draft.changes
                base.commit(draft.changes)
            assert contents(kept) == base.rows


def test_keys_that_differ_are_resolved_together(kept):
    assert ask(kept, [(Op.INSERT, (1, "x", 1)), (Op.INSERT, (2, None, None)), (Op.UPSERT, (3, "z", 3))]) == {
        (1, "x", 1): 1,
        (2, None, None): 1,
        (3, "z", 3): 1,
    }
    asked = [(Op.UPDATE, (1, "y", 1)), (Op.DELETE, (2, None, None)), (Op.DELETE_KEY, (3, None, None))]
    assert ask(kept, asked) == {(1, "x", 1): -1, (1, "y", 1): 1, (2, None, None): -1, (3, "z", 3): -1}
    assert contents(kept) == {(1, "y", 1): 1}


def test_null_in_a_key_is_refused(kept):
    with pytest.raises(DataError, match='NULL in column "k" of table "t"'):
        ask(kept, [(Op.INSERT, (None, "x", 1))])


def test_the_first_mistake_is_named(kept):
    ask(kept, [(Op.INSERT, (1, "x", 1))])
    with pytest.raises(DataError, match="no row has primary key k = 7"):
        ask(kept, [(Op.UPDATE, (1, "y", 1)), (Op.UPDATE, (7, "y", 1))])
    assert contents(kept) == {(1, "x", 1): 1}
