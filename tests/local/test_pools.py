"""Record pools against dictionaries.

A pool and a dictionary from keys to weights go through the same batches; after every step they must hold the same rows,
and the pool's indexes must agree with its records (`check`, which reads every array). Weights are small, so that they
often cancel, and keys are few, so that they come back.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewmill.engines.local import kernels
from viewmill.engines.local.indexes import load_limit
from viewmill.engines.local.memory import Anonymous, Mapped
from viewmill.engines.local.pools import LONG_JOURNAL, Pool, WeightOverflow
from viewmill.errors import InternalError

pytestmark = pytest.mark.slow  # machine code is made on first use, which takes longer than the tests

MOST = 2**63 - 1
NULL = -(2**63)
ABSENT = 5_000  # a code that no test uses
TYPES = {"int": np.int64, "float": np.float64}
# Every combination of width and kind is compiled anew, so there are few of them.
SHAPES = [
    (0, "int", ((),)),
    (0, "float", ()),
    (2, "int", ((0,), (1,))),
    (3, "float", ((0, 2), (2, 0), (1,))),
    (8, "int", ((7,), (0, 1, 2, 3, 4, 5, 6, 7))),
]
CODES = st.sampled_from([0, 1, 2, 3, -1, NULL, MOST, 1 << 40])
INT_WEIGHTS = st.integers(-2, 2)
FLOAT_WEIGHTS = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.1, -0.1, math.inf])

Rows = list[tuple[tuple[int, ...], float]]


def arrays(rows: Rows, width: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    keys = np.array([key for key, _ in rows], np.int64).reshape(len(rows), width)
    return keys, np.array([weight for _, weight in rows], TYPES[kind])


def contents(pool: Pool) -> dict[tuple[int, ...], float]:
    keys, weights = pool.rows()
    found = dict(zip(map(tuple, keys.tolist()), weights.tolist(), strict=True))
    assert len(found) == len(keys) == len(pool)
    return found


@dataclass
class Twin:
    """What a pool should be."""

    rows: dict[tuple[int, ...], float] = field(default_factory=dict)
    before: dict[tuple[int, ...], float] = field(default_factory=dict)

    def begin(self) -> None:
        self.before = dict(self.rows)

    def merge(self, rows: Rows) -> None:
        for key, weight in rows:
            total = self.rows.pop(key, 0) + weight
            if total != 0:
                self.rows[key] = total

    def set_all(self, rows: Rows) -> None:
        self.rows = {}
        self.merge(rows)

    def rollback(self) -> None:
        self.rows = dict(self.before)

    def changes(self) -> dict[tuple[int, ...], tuple[float, float]]:
        keys = self.before.keys() | self.rows.keys()
        pairs = {key: (self.before.get(key, 0), self.rows.get(key, 0)) for key in keys}
        return {key: (old, new) for key, (old, new) in pairs.items() if old != new}


def chain(pool: Pool, columns: tuple[int, ...], key: tuple[int, ...]) -> list[int]:
    index = pool.slice_arrays(columns)
    found = []
    record = kernels.first(pool.arrays, index, key)
    while record >= 0:
        found.append(record)
        record = kernels.after(pool.arrays, index, record)
    return found


def check(pool: Pool, expected: dict[tuple[int, ...], float]) -> None:
    """The rows are as expected, and every index finds exactly them."""
    assert contents(pool) == expected
    assert sum(map(math.isnan, pool.rows()[1].tolist())) == 0
    a = pool.arrays
    for key, weight in expected.items():
        record = kernels.find(a, key)
        assert tuple(a.keys[record].tolist()) == key
        assert a.weights[record] == weight
    assert kernels.find(a, (ABSENT,) * pool.width) == (-1 if pool.width or not expected else 0)
    assert np.count_nonzero(a.slots) == a.counts[kernels.INDEXED] <= load_limit(len(a.slots))
    for columns in pool.slices:
        groups: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for key in expected:
            groups.setdefault(tuple(key[c] for c in columns), set()).add(key)
        for sub_key, members in groups.items():
            records = chain(pool, columns, sub_key)
            assert len(records) == len(members)
            assert {tuple(key) for key in a.keys[records].tolist()} == members
        index = pool.slice_arrays(columns)
        assert chain(pool, columns, (ABSENT,) * len(columns)) == [] or not columns
        assert np.count_nonzero(index.heads) == index.counts[kernels.CHAINS] >= len(groups)


def check_at_rest(pool: Pool, expected: dict[tuple[int, ...], float]) -> None:
    """As `check`, between batches: nothing dead is left, and every record is live or free."""
    check(pool, expected)
    a = pool.arrays
    high = int(a.counts[kernels.HIGH])
    assert set(a.live[:high].tolist()) <= {0, 1}
    assert a.counts[kernels.INDEXED] == len(expected)
    free, record = set(), int(a.counts[kernels.FREE])
    while record >= 0:
        assert record not in free
        free.add(record)
        record = int(a.free[record])
    assert free == set(np.flatnonzero(a.live[:high] == 0).tolist())
    for columns in pool.slices:
        chains = {tuple(key[c] for c in columns) for key in expected}
        assert pool.slice_arrays(columns).counts[kernels.CHAINS] == len(chains)


@st.composite
def histories(draw):
    width, kind, slices = draw(st.sampled_from(SHAPES))
    weights = INT_WEIGHTS if kind == "int" else FLOAT_WEIGHTS
    rows = st.lists(st.tuples(st.tuples(*[CODES] * width), weights), max_size=12)
    step = st.tuples(st.sampled_from(["merge", "merge", "merge", "add", "set_all", "clear"]), rows)
    batch = st.tuples(st.lists(step, max_size=4), st.booleans())
    return width, kind, slices, draw(st.lists(batch, max_size=6))


def run_step(pool: Pool, twin: Twin, name: str, rows: Rows) -> None:
    match name:
        case "merge":
            pool.merge(*arrays(rows, pool.width, pool.kind))
            twin.merge(rows)
        case "add":
            pool.reserve(len(rows))
            for key, weight in rows:
                assert kernels.add(pool.arrays, key, TYPES[pool.kind](weight))
            pool.link_new()
            twin.merge(rows)
        case "set_all":
            pool.set_all(*arrays(rows, pool.width, pool.kind))
            twin.set_all(rows)
        case "clear":
            pool.clear()
            twin.set_all([])


def changes(pool: Pool) -> dict[tuple[int, ...], tuple[float, float]]:
    keys, old, new = pool.changes()
    found = dict(zip(map(tuple, keys.tolist()), zip(old.tolist(), new.tolist(), strict=True), strict=True))
    assert len(found) == len(keys)
    return found


def follow(pool: Pool, batches) -> None:
    twin = Twin()
    for steps, keep in batches:
        pool.begin()
        check_at_rest(pool, twin.rows)
        twin.begin()
        for name, rows in steps:
            run_step(pool, twin, name, rows)
            check(pool, twin.rows)
            assert changes(pool) == twin.changes()
        if not keep:
            pool.rollback()
            twin.rollback()
            check_at_rest(pool, twin.rows)
            assert changes(pool) == {}


@given(histories())
def test_pool_is_a_dictionary(history):
    width, kind, slices, batches = history
    follow(Pool(width, kind, slices), batches)


@given(histories())
def test_mapped_pool_is_a_dictionary(history):
    width, kind, slices, batches = history
    with tempfile.TemporaryDirectory() as directory:
        follow(Pool(width, kind, slices, memory=Mapped(directory)), batches)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([(1, "int"), (2, "int"), (3, "float")]))
def test_growth(seed, shape):
    """Many keys at once, over several chunks, with repeats inside a chunk; then most of them go and others come."""
    random = np.random.default_rng(seed)
    width, kind = shape
    pool, twin = Pool(width, kind, ((0,),)), Twin()
    for _ in range(3):
        n = int(random.integers(1, 1500))
        keys = random.integers(0, 12 if width > 1 else 700, (n, width))
        weights = random.integers(-1, 2, n).astype(TYPES[kind])
        rows = list(zip(map(tuple, keys.tolist()), weights.tolist(), strict=True))
        keep = dict(twin.rows)
        pool.begin()
        pool.merge(keys, weights)
        pool.rollback()
        check_at_rest(pool, keep)
        pool.merge(keys, weights)
        twin.merge(rows)
        pool.begin()
        check_at_rest(pool, twin.rows)
    pool.clear()
    pool.begin()
    check_at_rest(pool, {})


def test_growth_follows_keys_and_not_rows():
    pool = Pool(1, "int")
    pool.merge(np.zeros((100_000, 1), np.int64), np.ones(100_000, np.int64))
    assert contents(pool) == {(0,): 100_000}
    assert pool.nbytes < 50_000


@pytest.mark.parametrize(("start", "delta"), [(MOST, 1), (MOST, MOST), (NULL, -1), (NULL, NULL)])
@pytest.mark.parametrize("how", ["merge", "set_all", "add"])
def test_overflow_names_the_row_and_rolls_back(start, delta, how):
    pool = Pool(2, "int", ((1,),))
    rows: Rows = [((1, 1), start), ((2, 1), 5)]
    pool.merge(*arrays(rows, 2, "int"))
    pool.begin()
    bad: Rows = [((3, 1), 1), ((2, 1), -5), ((1, 1), start if how == "set_all" else 0), ((1, 1), delta), ((4, 4), 1)]
    if how == "add":
        assert not kernels.add(pool.arrays, (1, 1), delta)
    else:
        with pytest.raises(WeightOverflow, match="integer overflow in row 3") as caught:
            getattr(pool, how)(*arrays(bad, 2, "int"))
        assert caught.value.row == 3
    pool.rollback()
    check_at_rest(pool, dict(rows))


def test_weights_at_the_ends_of_the_range():
    pool = Pool(1, "int")
    pool.merge(*arrays([((1,), MOST), ((2,), NULL)], 1, "int"))
    pool.merge(*arrays([((1,), -MOST), ((2,), MOST), ((2,), 1)], 1, "int"))
    pool.begin()
    check_at_rest(pool, {})


def test_infinities_and_nan_are_kept():
    pool = Pool(1, "float")
    pool.merge(*arrays([((1,), math.inf), ((1,), 1e308), ((2,), math.inf), ((2,), -math.inf)], 1, "float"))
    assert pool.weights_of(np.array([[1]]))[0] == math.inf
    assert math.isnan(pool.weights_of(np.array([[2]]))[0])
    pool.rollback()
    assert contents(pool) == {}


@given(st.lists(st.tuples(CODES, CODES), max_size=8), st.lists(st.tuples(CODES, CODES), max_size=8))
def test_lookup(present, wanted):
    pool = Pool(2, "int")
    pool.merge(*arrays([(key, 3) for key in set(present)], 2, "int"))
    found = pool.weights_of(np.array(wanted, np.int64).reshape(len(wanted), 2))
    assert found.tolist() == [3 if key in present else 0 for key in wanted]


def mix_in_python(codes: tuple[int, ...]) -> int:
    state = 0x2545F4914F6CDD1D
    for code in codes:
        state = ((state ^ (code % 2**64)) * 0x9E3779B97F4A7C15) % 2**64
        state = ((state ^ (state >> 29)) * 0xD6E8FEB86659FD93) % 2**64
        state ^= state >> 32
    return state


@given(st.sampled_from([0, 1, 2, 5]).flatmap(lambda n: st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * n)))
def test_hash(key):
    """The three ways to hash a key agree with plain Python."""
    state = mix_in_python(key)
    tag = (state >> 32 << 32) - (2**64 if state >= 2**63 else 0)
    row = np.array([key], np.int64).reshape(1, len(key))
    assert kernels.tag_of_key(key) == tag
    assert kernels.tag_of_row(row, 0) == tag
    assert kernels.tag_of_columns(row, 0, np.arange(len(key))) == tag
    assert kernels.home(tag, 1024) == state >> 54


@pytest.mark.parametrize("step", [1, 7, 256, 2**20, 2**32, 2**44])
@pytest.mark.parametrize("columns", [1, 2])
def test_hash_spreads_regular_keys(step, columns):
    """Keys at equal distances fill a table about as evenly as random ones: 63% of the homes for as many keys."""
    rows = np.zeros((4096, columns), np.int64)
    rows[:, -1] = np.arange(4096) * step
    homes = {kernels.home(kernels.tag_of_row(rows, row), 4096) for row in range(4096)}
    assert 0.60 < len(homes) / 4096 < 0.66


@given(st.lists(st.tuples(st.integers(0, 15), st.booleans()), max_size=60))
def test_erasing_leaves_no_gaps(changes):
    """A table under insertions and removals finds what a set holds, even if all slots want the same place."""
    slots, held = np.zeros(16, np.int64), set()
    for number, near_end in changes:
        slot = ((2**31 - 1 if near_end else number // 4) << 32) | (number + 1)
        if slot in held:
            kernels.erase_at(slots, kernels.place_of(slots, slot))
            held.remove(slot)
        elif len(held) < load_limit(16):
            larger = np.zeros(16, np.int64)
            kernels.copy_slots(np.append(slots, slot), larger)
            slots = larger
            held.add(slot)
        assert set(slots[slots != 0].tolist()) == held
        for each in held:
            at = kernels.home(each & -(2**32), 16)
            while slots[at] != each:
                assert slots[at] != 0
                at = (at + 1) % 16


def test_bytes_are_counted_exactly():
    pool = Pool(3, "float", ((0,), (1, 2)))
    pool.merge(np.arange(3000).reshape(1000, 3), np.ones(1000))
    everything = [*pool.arrays, *pool.slice_arrays((0,)), *pool.slice_arrays((1, 2))]
    assert pool.nbytes == sum(array.size * array.itemsize for array in everything)


def test_mapped_pools_leave_no_old_files(tmp_path):
    pool = Pool(2, "int", ((0,),), memory=Mapped(tmp_path))
    pool.merge(np.arange(4000).reshape(2000, 2), np.ones(2000, np.int64))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == pool.nbytes


def test_a_long_journal_is_given_back():
    n = 2 * LONG_JOURNAL
    pool = Pool(1, "int")
    pool.merge(np.arange(n).reshape(n, 1), np.ones(n, np.int64))
    pool.begin()
    long = len(pool.arrays.journal_records)
    pool.begin()
    assert len(pool.arrays.journal_records) < long
    pool.merge(np.arange(n).reshape(n, 1), np.ones(n, np.int64))
    assert len(pool.changes()[0]) == n


def test_reserved_room_is_enough():
    """Compiled code may merge as many rows as were reserved, whatever their keys."""
    pool = Pool(1, "int", ((0,),))
    for n in (1, 10, 300, 5000):
        pool.begin()
        pool.reserve(n)
        a, index = pool.arrays, pool.slice_arrays((0,))
        start = len(pool)
        keys = np.arange(start, start + n).reshape(n, 1)
        assert kernels.room(a) >= n
        assert kernels.merge(a, keys, np.ones(n, np.int64), 0) == n
        assert kernels.link_new(a, index)
        assert pool.arrays is a
        assert len(pool) == start + n


def test_rows_of_the_wrong_shape_are_refused():
    pool = Pool(2, "int")
    for keys, weights in [
        (np.zeros((1, 1), np.int64), np.ones(1, np.int64)),
        (np.zeros((2, 2), np.int64), np.ones(1, np.int64)),
        (np.zeros((1, 2), np.int64), np.ones(1)),
        (np.zeros((1, 2)), np.ones(1, np.int64)),
    ]:
        with pytest.raises(InternalError):
            pool.merge(keys, weights)


def test_any_layout_is_taken():
    keys = np.asfortranarray(np.arange(6).reshape(3, 2))
    keys.flags.writeable = False
    pool = Pool(2, "int", memory=Anonymous())
    pool.merge(keys, np.arange(6)[::2] + 1)
    assert contents(pool) == {(0, 1): 1, (2, 3): 3, (4, 5): 5}
