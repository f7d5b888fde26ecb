"""What is asked of a stored table becomes what an embedded mill makes of it, or the same error."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
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
from viewmill.types import BIGINT, DOUBLE, STRING

INFO = RelationInfo(
    "t", (ColumnInfo("k", BIGINT, nullable=False), ColumnInfo("a", STRING), ColumnInfo("b", BIGINT)), ("k",)
)
TABLE = StoredTable(INFO)


@pytest.fixture
def kept(tmp_path: Path):
    program = with_tables(Distributed({}, EMPTY, EMPTY), [INFO])
    with Kept.create(tmp_path / "bucket", program.buckets, Catalog(program.infos)) as bucket:
        yield bucket


def ask(
    kept: Kept,
    requests: list[tuple[Op, tuple[object, ...]]],
    *,
    table: StoredTable = TABLE,
    together: bool = False,
) -> dict[tuple[object, ...], int]:
    """The net change, committed; or nothing and the error. Requests come one after another, or `together`."""
    schema = arrow_schema(table.asked.columns)
    columns = zip(*(row for _, row in requests), strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    codes = np.array([op.code(0 if together else number) for number, (op, _) in enumerate(requests)])
    kept.begin()
    try:
        rows, counts = resolved(kept, table, pa.RecordBatch.from_arrays(arrays, schema=schema), codes)
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
                        case Op.DISCARD:
                            draft.discard((row[0],))
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


def test_a_key_is_discarded_if_it_is_there(kept):
    assert ask(kept, [(Op.INSERT, (1, "x", 1)), (Op.DISCARD, (2, None, None))]) == {(1, "x", 1): 1}
    assert ask(kept, [(Op.DISCARD, (1, None, None)), (Op.DISCARD, (2, None, None))]) == {(1, "x", 1): -1}
    assert ask(kept, [(Op.UPSERT, (1, "x", 1)), (Op.DISCARD, (1, None, None))]) == {}


DISCARDED = (Op.DISCARD, (1, None, None))
AGREEING = [[(Op.UPSERT, (1, "y", 1))] * 3, [DISCARDED] * 2, [(Op.UPDATE, (1, "y", 1))] * 2]
DIFFERING = [
    [(Op.UPSERT, (1, "y", 1)), (Op.UPSERT, (1, "z", 1))],
    [(Op.UPDATE, (1, "y", 1)), (Op.UPDATE, (1, "y", None))],
    [(Op.UPSERT, (1, "y", 1)), DISCARDED],
    [DISCARDED, (Op.UPSERT, (2, "y", 1)), (Op.UPSERT, (1, "x", 1))],
]


@pytest.mark.parametrize("asked", AGREEING)
def test_what_is_told_several_times_is_told_once(kept, asked):
    ask(kept, [(Op.INSERT, (1, "x", 1))])
    assert ask(kept, asked, together=True) == ({(1, "x", 1): -1} | ({} if DISCARDED in asked else {(1, "y", 1): 1}))


@pytest.mark.parametrize("asked", DIFFERING)
def test_what_has_no_order_and_differs_is_refused_in_any_order(kept, asked):
    """Rows that come together arrive in the order of Spark's shuffle, which may be another one each time."""
    ask(kept, [(Op.INSERT, (1, "x", 1))])
    for together in permutations(asked):
        with pytest.raises(DataError, match=r'two changes of the row of table "t" with k = 1 come together'):
            ask(kept, list(together), together=True)
        assert contents(kept) == {(1, "x", 1): 1}
    ask(kept, [(Op.UPSERT, row) if op == Op.UPDATE else (op, row) for op, row in asked])  # one after another


def test_zeros_are_one_key_whatever_their_sign(tmp_path):
    info = RelationInfo("t", (ColumnInfo("k", DOUBLE, nullable=False), ColumnInfo("a", STRING)), ("k",))
    table, program = StoredTable(info), with_tables(Distributed({}, EMPTY, EMPTY), [info])
    with Kept.create(tmp_path / "bucket", program.buckets, Catalog(program.infos)) as kept:
        for op, message in ((Op.INSERT, "two rows with primary key k = 0.0"), (Op.UPSERT, "come together")):
            with pytest.raises(DataError, match=message):
                ask(kept, [(op, (0.0, "x")), (op, (-0.0, "y")), (op, (1.0, "z"))], table=table, together=True)
        ask(kept, [(Op.INSERT, (-0.0, "x"))], table=table)
        assert sum(ask(kept, [(Op.UPSERT, (0.0, "y"))], table=table).values()) == 0
        assert len(kept.store(table.store)) == 1


def test_rows_with_nan_are_found(tmp_path):
    info = RelationInfo("t", (ColumnInfo("k", BIGINT, nullable=False), ColumnInfo("a", DOUBLE)), ("k",))
    table, program = StoredTable(info), with_tables(Distributed({}, EMPTY, EMPTY), [info])
    with Kept.create(tmp_path / "bucket", program.buckets, Catalog(program.infos)) as kept:
        ask(kept, [(Op.INSERT, (1, math.nan)), (Op.INSERT, (2, -math.nan))], table=table)
        assert sum(ask(kept, [(Op.DELETE, (1, math.nan))], table=table).values()) == -1
        assert ask(kept, [(Op.UPSERT, (2, math.nan))] * 2, table=table, together=True) == {}
        changes = ask(kept, [(Op.DELETE, (2, math.nan)), (Op.INSERT, (2, 1.0))], table=table)
        assert changes.pop((2, 1.0)) == 1 and list(changes.values()) == [-1]
