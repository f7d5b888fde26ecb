"""Record pools against dictionaries.

A pool and a dictionary from keys to weights go through the same batches; after every step they must hold the same rows,
and the pool's indexes must agree with its records (`check`, which reads every array). Weights are small, so that they
often cancel, and keys are few, so that they come back.
"""

from __future__ import annotations

import gc
import math
import struct
import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from two_maps import TwoMaps

from viewmill.engines.local import hashing, kernels, layout, memory, tables
from viewmill.engines.local.generated import compiled
from viewmill.engines.local.indexes import wider
from viewmill.engines.local.journal import LONG
from viewmill.engines.local.libraries import Library
from viewmill.engines.local.memory import LARGE, Anonymous
from viewmill.engines.local.ordered import Order
from viewmill.engines.local.pools import SPARE_SLICES, Pool, WeightOverflow
from viewmill.engines.local.raw import FULL, OVERFLOW, call, peek, poke
from viewmill.engines.local.region import TOP, Region
from viewmill.engines.local.tables import BUCKET, load_limit
from viewmill.errors import InternalError

pytestmark = pytest.mark.slow  # the loops that look things up are compiled for many widths

MOST = 2**63 - 1
NULL = -(2**63)
ABSENT = 987_654_321  # a code that no test uses
INT, REAL = False, True
SHAPES = [
    (0, (INT,), ((),)),
    (0, (REAL, INT), ()),
    (1, (INT,), ((0,),)),
    (1, (INT, INT, REAL), ((), (0,))),
    (2, (INT,), ((0,), (1,))),
    (2, (REAL,), ((1, 0),)),
    (3, (INT, REAL), ((0, 2), (2, 0), (1,))),
    (8, (INT,), ((7,), (0, 1, 2, 3, 4, 5, 6, 7))),
]
CODES = st.sampled_from([0, 1, 2, 3, -1, NULL, MOST, 1 << 40])
INT_WEIGHTS = st.integers(-2, 2)
REAL_WEIGHTS = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 0.1, -0.1, math.inf])

Key = tuple[int, ...]
Weights = tuple[float, ...]
Rows = list[tuple[Key, Weights]]
Contents = dict[Key, Weights]


def bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


def double(code: int) -> float:
    return struct.unpack("<d", struct.pack("<q", code))[0]


def arrays(pool: Pool, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    keys = np.array([key for key, _ in rows], np.int64).reshape(len(rows), pool.width)
    codes = [
        [bits(weight) if real else weight for weight, real in zip(each, pool.doubles, strict=True)] for _, each in rows
    ]
    return keys, np.array(codes, np.int64).reshape(len(rows), pool.lanes)


def decoded(pool: Pool, codes: list[list[int]]) -> list[Weights]:
    """Weights from their codes, where -0.0 must not be."""
    for row in codes:
        assert all(code != NULL for code, real in zip(row, pool.doubles, strict=True) if real)
    return [tuple(double(c) if real else c for c, real in zip(row, pool.doubles, strict=True)) for row in codes]


def contents(pool: Pool) -> Contents:
    keys, weights = pool.rows()
    found = dict(zip(map(tuple, keys.tolist()), decoded(pool, weights.tolist()), strict=True))
    assert len(found) == len(keys) == len(pool)
    return found


@dataclass
class Twin:
    """What a pool should be."""

    lanes: int
    rows: Contents = field(default_factory=dict)
    before: Contents = field(default_factory=dict)

    def begin(self) -> None:
        self.before = dict(self.rows)

    def merge(self, rows: Rows) -> None:
        for key, weights in rows:
            old = self.rows.pop(key, (0,) * self.lanes)
            total = tuple(a + b for a, b in zip(old, weights, strict=True))
            if any(weight != 0 for weight in total):
                self.rows[key] = total

    def set_all(self, rows: Rows) -> None:
        self.rows = {}
        self.merge(rows)

    def rollback(self) -> None:
        self.rows = dict(self.before)

    def changes(self) -> dict[Key, tuple[Weights, Weights]]:
        keys, zero = self.before.keys() | self.rows.keys(), (0,) * self.lanes
        pairs = {key: (self.before.get(key, zero), self.rows.get(key, zero)) for key in keys}
        return {key: (old, new) for key, (old, new) in pairs.items() if old != new}


def word(pool: Pool, name: int) -> int:
    return int(pool.arrays.block[name])


@cache
def generated(source: str):
    """A function as statements are compiled, with a table of what it is given and what it answers."""
    run = compiled(source)

    def answer(*given: int) -> int:
        words = np.array([*given, 0], np.int64)
        run(words.ctypes.data, 0, 0, 0)
        return int(words[-1])

    return answer


def key_of(width: int, first: int) -> str:
    return f"({', '.join(f'peek(env, {first + i})' for i in range(width))}{',' if width else ''})"


def find(block, key):
    """The record as generated code finds it, and whether it lives."""
    lines = [f"r = find(peek(env, 0), {key_of(len(key), 1)})", f"poke(env, {1 + len(key)}, r)"]
    record = generated("def run(env, batch, rows, flags):\n    " + "\n    ".join(lines) + "\n")(block, *key)
    alive = generated("def run(env, batch, rows, flags):\n    poke(env, 2, alive(peek(env, 0), peek(env, 1)))\n")
    return record, alive(block, record) if record >= 0 else 0


def slice_of(block, number, key):
    """The records of a slice as generated code follows them."""
    start = f"poke(env, {2 + len(key)}, first(peek(env, 0), peek(env, 1), {key_of(len(key), 2)}))"
    first = generated(f"def run(env, batch, rows, flags):\n    {start}\n")
    line = "poke(env, 3, after(peek(env, 0), peek(env, 1), peek(env, 2)))"
    after = generated(f"def run(env, batch, rows, flags):\n    {line}\n")
    found, record = [], first(block, number, *key)
    while record >= 0:
        found.append(record)
        record = after(block, number, record)
    return found


def chain(pool: Pool, number: int, key: Key) -> list[int]:
    """The records of a slice, as generated code finds them and as Python does."""
    found = slice_of(pool.address, number, key)
    assert pool.records_in_slice(number, key).tolist() == found
    return found


def check(pool: Pool, expected: Contents) -> None:
    """The rows are as expected, and every index finds exactly them."""
    assert contents(pool) == expected
    a = pool.arrays
    for key, weights in expected.items():
        record = pool.find(key)
        assert find(pool.address, key) == (record, 1)
        assert tuple(a.keys[record].tolist()) == key
        assert decoded(pool, a.weights[[record]].tolist()) == [weights]
    absent = (ABSENT,) * pool.width
    assert pool.find(absent) == (-1 if pool.width or not expected else 0)
    assert find(pool.address, absent)[0] == pool.find(absent)
    assert np.count_nonzero(a.slots) == word(pool, layout.INDEXED) <= load_limit(word(pool, layout.MASK) + 1)
    assert word(pool, layout.MASK) < len(a.slots) == word(pool, layout.SLOT_ROOM)
    assert word(pool, layout.EMITTED) == 0
    assert np.all(a.weights[(a.live & layout.ALIVE) == 0] == 0)
    for number, columns in enumerate(pool.slices):
        check_slice(pool, number, columns, expected)


def check_slice(pool: Pool, number: int, columns: tuple[int, ...], expected: Contents) -> None:
    groups: dict[Key, set[Key]] = {}
    for key in expected:
        groups.setdefault(tuple(key[c] for c in columns), set()).add(key)
    for sub_key, members in groups.items():
        records = chain(pool, number, sub_key)
        assert len(records) == len(members)
        assert {tuple(key) for key in pool.arrays.keys[records].tolist()} == members
    index = pool.slice_index(number)
    assert chain(pool, number, (ABSENT,) * len(columns)) == [] or not columns
    assert np.count_nonzero(index.heads) == index.words[layout.CHAINS] >= len(groups)


def check_at_rest(pool: Pool, expected: Contents) -> None:
    """As `check`, between batches: nothing dead is left, and every record is live or free."""
    check(pool, expected)
    a = pool.arrays
    high = word(pool, layout.HIGH)
    assert set(a.live[:high].tolist()) <= {0, 1}
    assert not a.live[high:].any()
    assert word(pool, layout.INDEXED) == len(expected)
    free, record = set(), word(pool, layout.FIRST_FREE)
    while record >= 0:
        assert record not in free
        free.add(record)
        record = int(a.keys[record, 0]) if pool.width else -1
    assert free == set(np.flatnonzero(a.live[:high] == 0).tolist())
    for number, columns in enumerate(pool.slices):
        chains = {tuple(key[c] for c in columns) for key in expected}
        assert pool.slice_index(number).words[layout.CHAINS] == len(chains)


@st.composite
def histories(draw):
    width, doubles, slices = draw(st.sampled_from(SHAPES))
    weights = st.tuples(*[REAL_WEIGHTS if real else INT_WEIGHTS for real in doubles])
    rows = st.lists(st.tuples(st.tuples(*[CODES] * width), weights), max_size=12)
    step = st.tuples(st.sampled_from(["merge", "merge", "merge", "emit", "set_all", "put", "clear", "slice"]), rows)
    batch = st.tuples(st.lists(step, max_size=4), st.booleans())
    return (width, doubles, slices), draw(st.lists(batch, max_size=6))


TESTS = Library("tests", kept=False)


@TESTS.export
def emit(block, rows, count, stride):
    """As generated code does."""
    for row in range(count):
        if peek(block, layout.EMITTED) == peek(block, layout.OUT_LIMIT):
            poke(block, layout.NEEDED, 0)
            call(peek(block, layout.GROW), peek(block, layout.POOL), layout.GROW_OUT)
            if peek(block, layout.NEEDED) != layout.GROWN:
                return FULL
        at = peek(block, layout.EMITTED)
        for column in range(stride):
            poke(peek(block, layout.OUT), at * stride + column, peek(rows, row * stride + column))
        poke(block, layout.EMITTED, at + 1)
    return 0


@TESTS.export
def run(block, function):
    return call(peek(block, function), block, 0)


@TESTS.export
def call_by_address(function, first, second):
    return call(function, first, second)


def emit_rows(pool: Pool, keys: np.ndarray, weights: np.ndarray) -> None:
    rows = np.concatenate([keys, weights], axis=1)
    assert emit(pool.address, rows.ctypes.data, *rows.shape) == 0


def run_step(pool: Pool, twin: Twin, name: str, rows: Rows) -> None:
    given_ = arrays(pool, rows)
    match name:
        case "merge":
            pool.merge(*given_)
            twin.merge(rows)
        case "emit":
            emit_rows(pool, *given_)
            assert run(pool.address, layout.MERGE) == 0
            twin.merge(rows)
        case "set_all":
            pool.set_all(*given_)
            twin.set_all(rows)
        case "put":
            emit_rows(pool, *given_)
            assert run(pool.address, layout.PUT) == 0
            twin.set_all(rows)
        case "clear":
            pool.clear()
            twin.set_all([])
        case "slice":
            if len(pool.slices) < SPARE_SLICES:
                pool.add_slice(tuple(range(pool.width))[len(rows) % 3 :])


def changes(pool: Pool) -> dict[Key, tuple[Weights, Weights]]:
    keys, old, new = pool.changes()
    pairs = zip(decoded(pool, old.tolist()), decoded(pool, new.tolist()), strict=True)
    found = dict(zip(map(tuple, keys.tolist()), pairs, strict=True))
    assert len(found) == len(keys)
    return found


def follow(pool: Pool, batches, handed: Callable[[Pool], Pool] = lambda pool: pool) -> None:
    """`handed` is asked for the pool whenever another one may go on."""
    twin = Twin(pool.lanes)
    for steps, keep in batches:
        pool = handed(pool)
        pool.begin()
        check_at_rest(pool, twin.rows)
        twin.begin()
        for name, rows in steps:
            run_step(pool, twin, name, rows)
            check(pool, twin.rows)
            assert changes(pool) == twin.changes()
        if not keep:
            pool = handed(pool)
            pool.rollback()
            twin.rollback()
            check_at_rest(pool, twin.rows)
            assert changes(pool) == {}


@given(histories())
def test_pool_is_a_dictionary(history):
    shape, batches = history
    follow(Pool(*shape), batches)


@given(histories())
def test_pool_that_goes_from_hand_to_hand_is_a_dictionary(history):
    shape, batches = history
    with tempfile.TemporaryDirectory() as directory:
        maps = TwoMaps(Path(directory) / "region")
        follow(Pool(*shape, memory=maps.region), batches, maps.handed)


@given(histories())
def test_pool_of_one_batch_is_a_dictionary(history):
    """Without a journal, every batch starts with nothing."""
    shape, batches = history
    pool = Pool(*shape, journalled=False)
    for number, (steps, _) in enumerate(batches):
        twin = Twin(pool.lanes)
        for name, rows in steps:
            run_step(pool, twin, name, rows)
            check(pool, twin.rows)
        [pool.begin, pool.clear, pool.rollback][number % 3]()
        check_at_rest(pool, {})


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([(1, (INT,)), (2, (INT, INT)), (3, (REAL,))]))
def test_growth(seed, shape):
    """Many keys at once, over several chunks, with repeats inside a chunk; then most of them go and others come."""
    random = np.random.default_rng(seed)
    width, doubles = shape
    pool, twin = Pool(width, doubles, ((0,), (width - 1, 0))), Twin(len(doubles))
    for _ in range(3):
        n = int(random.integers(1, 1500))
        keys = random.integers(0, 12 if width > 1 else 700, (n, width))
        weights = random.integers(-1, 2, (n, len(doubles)))
        rows = list(zip(map(tuple, keys.tolist()), map(tuple, weights.tolist()), strict=True))
        keep = dict(twin.rows)
        pool.begin()
        pool.merge(*arrays(pool, rows))
        pool.rollback()
        check_at_rest(pool, keep)
        pool.merge(*arrays(pool, rows))
        twin.merge(rows)
        pool.begin()
        check_at_rest(pool, twin.rows)
    pool.clear()
    pool.begin()
    check_at_rest(pool, {})


@settings(max_examples=20)
@given(st.lists(st.sampled_from([1, 2, 30, 1000, 5000]), min_size=1, max_size=8), st.integers(0, 99))
def test_batches_of_all_sizes_without_a_journal(sizes, seed):
    """The index in use follows the batch, up and down, in the memory that the largest one took."""
    random = np.random.default_rng(seed)
    pool, most = Pool(2, (INT,), ((1,),), journalled=False), 0
    for size in sizes:
        twin, rows = Twin(1), []
        for start in (0, size // 2):  # the second half arrives in a pool that holds the first
            keys = random.integers(start, size + 1, (size - size // 2, 2))
            rows = [(key, (1,)) for key in map(tuple, keys.tolist())]
            pool.merge(*arrays(pool, rows))
            twin.merge(rows)
        check(pool, twin.rows)
        pool.clear()
        check_at_rest(pool, {})
        most = max(most, size)
        assert word(pool, layout.MASK) + 1 <= 16 * size + 16
    assert pool.nbytes < 4_000 + 300 * most


def test_growth_follows_keys_and_not_rows():
    pool = Pool(1, (INT,))
    pool.merge(np.zeros((100_000, 1), np.int64), np.ones(100_000, np.int64))
    assert contents(pool) == {(0,): (100_000,)}
    assert pool.nbytes < 20_000


@pytest.mark.parametrize(("start", "delta"), [(MOST, 1), (MOST, MOST), (NULL, -1), (NULL, NULL)])
@pytest.mark.parametrize("how", ["merge", "set_all", "compiled"])
@pytest.mark.parametrize("lanes", [1, 2])
def test_overflow_rolls_back(start, delta, how, lanes):
    pool = Pool(2, (INT,) * lanes, ((1,),))
    rest = (0,) * (lanes - 1)
    rows: Rows = [((1, 1), (*rest, start)), ((2, 1), (*rest, 5))]
    pool.merge(*arrays(pool, rows))
    pool.begin()
    again = start if how == "set_all" else 0
    bad: Rows = [
        (key, (*rest, weight))
        for key, weight in [((3, 1), 1), ((2, 1), -5), ((1, 1), again), ((1, 1), delta), ((4, 4), 1)]
    ]
    if how == "compiled":
        emit_rows(pool, *arrays(pool, bad))
        assert run(pool.address, layout.MERGE) == OVERFLOW
    else:
        with pytest.raises(WeightOverflow, match="integer overflow"):
            getattr(pool, how)(*arrays(pool, bad))
    pool.rollback()
    check_at_rest(pool, dict(rows))


def test_weights_at_the_ends_of_the_range():
    pool = Pool(1, (INT,))
    pool.merge(*arrays(pool, [((1,), (MOST,)), ((2,), (NULL,))]))
    pool.merge(*arrays(pool, [((1,), (-MOST,)), ((2,), (MOST,)), ((2,), (1,))]))
    pool.begin()
    check_at_rest(pool, {})


def test_infinities_and_nan_are_kept():
    pool = Pool(1, (REAL,))
    rows: Rows = [((1,), (math.inf,)), ((1,), (1e308,)), ((2,), (math.inf,)), ((2,), (-math.inf,))]
    pool.merge(*arrays(pool, rows))
    first, second = pool.weights_of(np.array([[1], [2]]))[:, 0].tolist()
    assert double(first) == math.inf
    assert math.isnan(double(second))
    pool.rollback()
    assert contents(pool) == {}


@given(st.lists(st.tuples(CODES, CODES), max_size=8), st.lists(st.tuples(CODES, CODES, CODES), max_size=8))
def test_lookup(present, wanted):
    """Many keys at once, those of records that just died among them."""
    pool = Pool(2, (INT, INT))
    pool.merge(*arrays(pool, [(key, (3, -4)) for key in set(present)]))
    pool.merge(*arrays(pool, [((0, 1), (1, 0)), ((0, 1), (-1, 0))]))
    rows = np.array(wanted, np.int64).reshape(len(wanted), 3)
    keys = [key[:2] for key in wanted]
    assert pool.weights_of(rows[:, :2]).tolist() == [[3, -4] if key in present else [0, 0] for key in keys]
    records = np.empty(len(wanted), np.int64)
    request = np.array([rows.ctypes.data, 3, len(wanted), records.ctypes.data])
    assert kernels.find_all(pool.address, request.ctypes.data) == 0
    assert records.tolist() == [pool.find(key) for key in keys]


def mix_in_python(codes: Key) -> int:
    state = hashing.SEED
    for code in codes:
        state = ((state ^ (code % 2**64)) * hashing.FACTOR) % 2**64
        state ^= state >> 32
    return state * hashing.LAST % 2**64


PARTS = Library("parts", kept=False)
home = PARTS.export(hashing.home)
tag_of_words = PARTS.export(hashing.tag_of_words)
tag_of_columns = PARTS.export(hashing.tag_of_columns)
place_for = PARTS.export(tables.place_for)
place_of = PARTS.export(tables.place_of)
erase_at = PARTS.export(tables.erase_at)


@given(st.sampled_from([0, 1, 2, 5]).flatmap(lambda n: st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * n)))
def test_hash(key):
    """Keys in rows and keys in columns of a record have one hash, that of plain Python. `check` looks up tuples."""
    state = mix_in_python(key)
    tag = (state >> 32 << 32 | 2**32) - (2**64 if state >= 2**63 else 0)
    row, columns = np.array(key, np.int64), np.array([len(key), *range(len(key))])
    assert tag_of_words(row.ctypes.data, len(key)) == tag
    assert tag_of_columns(row.ctypes.data, columns.ctypes.data) == tag
    assert home(tag, 1023) == state >> 57 << 3


def crowding(rows: np.ndarray) -> float:
    """The part of the keys that find their bucket full, in a table twice as large as there are keys."""
    tags = [tag_of_words(row.ctypes.data, rows.shape[1]) for row in rows]
    assert len(set(tags)) > 0.998 * len(rows)
    homes = np.bincount([home(tag, 2 * len(rows) - 1) // BUCKET for tag in tags])
    return np.maximum(homes - BUCKET, 0).sum() / len(rows)


@pytest.mark.parametrize("step", [1, 7, 100, 256, 2**20, 2**32, 2**44, 2**50])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_hash_spreads_regular_keys(step, columns):
    """Keys at equal distances fill a table about as evenly as random ones, of which 0.9% find their bucket full."""
    for column in range(columns):
        rows = np.zeros((4096, columns), np.int64)
        rows[:, column] = np.arange(4096) * step
        assert crowding(rows) < 0.015


def test_hash_spreads_doubles():
    assert crowding(np.arange(4096, dtype=np.float64).view(np.int64).reshape(4096, 1)) < 0.015


def test_hash_spreads_two_columns():
    rows = np.array([(i, j) for i in range(64) for j in range(64)])
    assert crowding(rows) < 0.015
    assert crowding(rows * 100 + 20_000_000) < 0.015


SIZE = 32
TAGS = st.sampled_from([1, 2, 2**30 + 1, 2**31 - 1, -1, -2])  # from the first bucket to the last


def check_table(slots: np.ndarray, held: set[int]) -> None:
    """The table holds these, each in the first bucket from its home on that is not full of others."""
    size = len(slots)
    assert sorted(slots[slots != 0].tolist()) == sorted(held)
    for slot in held:
        place = place_of(slots.ctypes.data, size - 1, slot)
        assert slots[place] == slot
        bucket = home(slot & -(2**32), size - 1)
        while bucket != place // BUCKET * BUCKET:
            assert np.all(slots[bucket : bucket + BUCKET] != 0)
            bucket = (bucket + BUCKET) % size


@given(st.lists(st.tuples(TAGS, st.integers(0, 5)), max_size=120))
def test_erasing_leaves_no_gaps(changes):
    """A table under insertions and removals finds what a set holds, even if all slots want the same place."""
    slots, held = np.zeros(SIZE, np.int64), set()
    for tag, number in changes:
        slot = (tag << 32) | (number + 1)
        if slot in held:
            erase_at(slots.ctypes.data, SIZE - 1, place_of(slots.ctypes.data, SIZE - 1, slot))
            held.remove(slot)
        elif len(held) < SIZE - 1:
            slots[place_for(slots.ctypes.data, SIZE - 1, slot & -(2**32))] = slot
            held.add(slot)
        check_table(slots, held)


@given(st.sets(st.tuples(TAGS, st.integers(0, 5)), max_size=16))
def test_growing_a_table_keeps_its_slots(slots):
    held = {(tag << 32) | (number + 1) for tag, number in slots}
    old, new = np.zeros(16, np.int64), np.zeros(SIZE, np.int64)
    for slot in held:
        old[place_for(old.ctypes.data, 15, slot & -(2**32))] = slot
    kernels.copy_slots(old.ctypes.data, 16, new.ctypes.data, SIZE - 1)
    check_table(new, held)


@given(st.sets(st.tuples(TAGS, st.integers(0, 5)), max_size=16), st.sampled_from([32, 64, 128]))
def test_a_table_grows_where_it_is(slots, size):
    """Or says that it is not in order; then, too, all slots are there."""
    held = {(tag << 32) | (number + 1) for tag, number in slots}
    table = np.zeros(size, np.int64)
    for slot in held:
        table[place_for(table.ctypes.data, 15, slot & -(2**32))] = slot
    if kernels.spread_slots(table.ctypes.data, 16, size - 1):
        check_table(table, held)
    else:
        assert sorted(table[table != 0].tolist()) == sorted(held)


@pytest.mark.parametrize("tag", [2**31 - 1, -1])
def test_a_table_that_lost_its_order_is_made_anew(tag):
    """Slots that all want the last bucket go round, over others that have not moved yet."""

    class Roomy(Anonymous):
        def in_place(self, array, length):
            return room[:length]

    room = np.zeros(32, np.int64)
    held = {(tag << 32) | (number + 1) for number in range(16)}
    for slot in held:
        room[place_for(room.ctypes.data, 15, slot & -(2**32))] = slot
    table = wider(Roomy(), room[:16], 16, 20)
    assert (table.ctypes.data == room.ctypes.data) == (tag != -1)
    check_table(table, held)


def test_a_large_pool_grows_where_it_is():
    pool, reference = Pool(1, (INT,), ((0,),)), np.random.default_rng(7).permutation(600_000)
    moves = set()
    for start in range(0, 600_000, 20_000):
        pool.begin()
        pool.merge(reference[start : start + 20_000, None], reference[start : start + 20_000] + 1)
        moves.add((pool.arrays.slots.ctypes.data, pool.slice_index(0).heads.ctypes.data, len(pool.arrays.slots)))
    pool.begin()
    keys = np.arange(-5, 600_005)[:, None]
    present = (keys >= 0) & (keys < 600_000)
    assert (pool.weights_of(keys) == np.where(present, keys + 1, 0)).all()
    assert all(pool.records_in_slice(0, (key,)).size == 1 for key in range(0, 600_000, 9973))
    large = [move for move in moves if 8 * move[2] >= LARGE]
    assert len({size for _, _, size in large}) > 1
    assert len({where for where, _, _ in large}) == 1


def test_bytes_are_counted_exactly():
    pool = Pool(3, (REAL, INT), ((0,), (1, 2)))
    keys = np.arange(3000).reshape(1000, 3)
    pool.merge(keys, np.ones((1000, 2), np.int64))
    emit_rows(pool, keys, np.ones((1000, 2), np.int64))
    a = pool.arrays
    everything = [a.block, a.records, a.live, a.slots, a.journal, a.out]
    for number in range(2):
        index = pool.slice_index(number)
        everything += [index.heads, index.links, np.zeros(2 + number, np.int64)]
    assert len(a.out) >= 1000
    assert pool.nbytes == sum(array.size * array.itemsize for array in everything)


def test_pools_that_come_and_go_take_no_more_room(tmp_path):
    region = Region.create(tmp_path / "region")
    tops = []
    for _ in range(3):
        pool = Pool(2, (INT,), ((0,),), memory=region)
        pool.add_order(Order((0,), 1))
        pool.merge(np.arange(40_000).reshape(20_000, 2), np.ones(20_000, np.int64))
        pool.free()
        region.settle()
        tops.append(int(region.header[TOP]))
    assert tops[0] == tops[1] == tops[2]


@pytest.mark.parametrize("free", [True, False])
def test_addresses_are_taken_only_where_they_are_free(free, monkeypatch):
    """With a limit to them, those that are spare would be missing elsewhere."""
    monkeypatch.setattr(memory, "_are_addresses_free", lambda: free)
    array = Anonymous().array((LARGE,), np.uint8)
    assert (Anonymous().in_place(array, 64 * LARGE) is not None) == free
    assert Anonymous().in_place(array, 8 * LARGE) is not None


def test_large_arrays_grow_where_they_are():
    memory = Anonymous()
    small = memory.array((10, 2), np.int64)
    small[:] = 5
    array = memory.longer(small, LARGE // 16)
    assert array[:10].tolist() == small.tolist()
    array[10:] = 7
    longer = memory.longer(array, LARGE // 8)
    assert longer.ctypes.data == array.ctypes.data
    assert longer.nbytes == 2 * LARGE
    moved = memory.longer(longer, LARGE)
    for each in (longer, moved):
        assert each[:10].min() == 5
        assert each[10 : len(array)].min() == 7
        assert not each[len(array) :].any()


def test_long_journals_and_outputs_are_given_back():
    n = 2 * LONG
    pool = Pool(1, (INT,))
    keys, weights = np.arange(n).reshape(n, 1), np.ones((n, 1), np.int64)
    emit_rows(pool, keys, weights)
    assert run(pool.address, layout.MERGE) == 0
    pool.begin()
    long = len(pool.arrays.journal), len(pool.arrays.out)
    assert min(long) >= n
    pool.begin()
    assert len(pool.arrays.journal) < LONG
    assert len(pool.arrays.out) < LONG
    pool.merge(keys, weights)
    assert len(pool.changes()[0]) == n


class Refusing(Anonymous):
    """Memory that runs out."""

    def __init__(self) -> None:
        self.left = 10**9

    def array(self, shape, dtype):
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > self.left:
            raise MemoryError(f"{size} bytes")
        return super().array(shape, dtype)


@pytest.mark.parametrize("limit", range(100, 40_000, 1700))
def test_no_memory_rolls_back(limit):
    """Whatever array cannot grow, the pool says so, and is as it was."""
    memory = Refusing()
    pool = Pool(2, (INT, INT), ((1,), (0, 1)), memory=memory)
    rows: Rows = [((i, i % 3), (1, i)) for i in range(20)]
    pool.merge(*arrays(pool, rows))
    pool.begin()
    memory.left = limit
    keys, weights = arrays(pool, [((i, -i), (i, 1)) for i in range(3000)])
    with pytest.raises(MemoryError):
        pool.merge(keys, weights)
    assert pool.failure is None
    pool.rollback()
    check_at_rest(pool, dict(rows))
    with pytest.raises(MemoryError):
        pool.set_all(keys, weights)
    pool.rollback()
    check_at_rest(pool, dict(rows))
    memory.left = 10**9
    pool.set_all(keys, weights)
    assert len(pool) == 3000


def test_a_pool_that_is_gone_cannot_grow():
    """Compiled code that outlives a pool is told so, and pools do not live for the sake of growing."""
    pool = Pool(1, (INT,))
    number, grow, alive = word(pool, layout.POOL), word(pool, layout.GROW), weakref.ref(pool)
    del pool
    gc.collect()
    assert alive() is None
    assert call_by_address(grow, number, layout.GROW_OUT) == 0


def test_growing_from_other_threads():
    """Merges let other threads run, and call back for room."""
    pools = [Pool(1, (INT,), ((0,),)) for _ in range(4)]

    def work(pool: Pool) -> None:
        for start in range(0, 20_000, 1000):
            keys = np.arange(start, start + 1000).reshape(1000, 1)
            emit_rows(pool, keys, np.ones((1000, 1), np.int64))
            assert run(pool.address, layout.MERGE) == 0

    threads = [threading.Thread(target=work, args=(pool,)) for pool in pools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(pool) for pool in pools] == [20_000] * 4


def test_reserved_room_is_enough():
    """After `reserve`, as many rows go in without another array, whatever their keys."""
    pool = Pool(1, (INT,), ((0,),))
    for n in (1, 10, 300, 5000):
        pool.begin()
        pool.reserve(n)
        before = pool.nbytes, pool.arrays.records
        start = len(pool)
        pool.merge(np.arange(start, start + n).reshape(n, 1), np.ones(n, np.int64))
        assert pool.nbytes == before[0]
        assert pool.arrays.records is before[1]
        assert len(pool) == start + n


def test_slices_can_be_added_up_to_a_number():
    pool = Pool(3, (INT,), ((0,),))
    pool.merge(np.arange(300).reshape(100, 3) % 7, np.ones(100, np.int64))
    for number in range(SPARE_SLICES):
        assert pool.add_slice((number % 3, 2)) == number + 1
    check(pool, contents(pool))
    with pytest.raises(InternalError, match="slices"):
        pool.add_slice((1,))
    check(pool, contents(pool))


def test_rows_of_the_wrong_shape_are_refused():
    pool = Pool(2, (INT,))
    for keys, weights in [
        (np.zeros((1, 1), np.int64), np.ones(1, np.int64)),
        (np.zeros((2, 2), np.int64), np.ones(1, np.int64)),
        (np.zeros((1, 2), np.int64), np.ones(1)),
        (np.zeros((1, 2), np.int64), np.ones((1, 2), np.int64)),
        (np.zeros((1, 2)), np.ones(1, np.int64)),
    ]:
        with pytest.raises(InternalError):
            pool.merge(keys, weights)
    with pytest.raises(InternalError):
        pool.weights_of(np.zeros((1, 1), np.int64))
    with pytest.raises(InternalError):
        Pool(2, ())


def test_any_layout_is_taken():
    keys = np.asfortranarray(np.arange(6).reshape(3, 2))
    keys.flags.writeable = False
    pool = Pool(2, (INT,), memory=Anonymous())
    pool.merge(keys, np.arange(6)[::2] + 1)
    assert contents(pool) == {(0, 1): (1,), (2, 3): (3,), (4, 5): (5,)}
    assert pool.weights_of(keys[::2]).tolist() == [[1], [5]]


def test_c_functions_are_called_by_address():
    pool = Pool(1, (INT,))
    named = {
        layout.MERGE: kernels.merge,
        layout.PUT: kernels.put,
        layout.BEGIN: kernels.begin,
        layout.ROLLBACK: kernels.rollback,
        layout.CLEAR: kernels.clear,
    }
    assert word(pool, layout.FIND_ALL) == kernels.find_all.address
    for place, function in named.items():
        assert word(pool, place) == function.address
        assert function(pool.address, 0) == 0


def test_a_pool_for_one_batch_rests_after_a_much_larger_one():
    pool = Pool(2, (INT,), ((0,),), journalled=False)
    small, large = (np.arange(2 * n).reshape(n, 2) for n in (100, 200_000))
    pool.merge(large, np.ones(len(large), np.int64))
    pool.rest()
    assert len(pool) == len(large)  # the batch was this large
    size = pool.nbytes
    pool.begin()
    pool.merge(small, np.ones(len(small), np.int64))
    pool.rest()
    assert len(pool) == 0 and pool.nbytes < size / 100
    for rows in (small, large, small):
        pool.begin()
        pool.merge(rows, np.ones(len(rows), np.int64))
        pool.merge(rows[:10], np.ones(10, np.int64))
        keys, weights = pool.rows()
        assert len(keys) == len(rows) and weights.sum() == len(rows) + 10
        assert len(pool.records_in_slice(0, (4,))) == 1
        pool.rest()
