"""Ordered indexes against sorted lists.

A pool with ordered indexes and a dictionary go through the same batches; after every step, sums over ranges and walks
from either end must be those of the dictionary, sorted. Keys are few, so that they come back and stand at both ends of
ranges; among them are NULL, which is in no range, and doubles of either sign.
"""

from __future__ import annotations

import math
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from two_maps import TwoMaps

from viewmill.engines.local import kernels, layout
from viewmill.engines.local.ordered import Order
from viewmill.engines.local.pools import Pool
from viewmill.engines.local.raw import OVERFLOW
from viewmill.errors import InternalError

MOST = 2**63 - 1
NULL = -(2**63)
LEFT, RIGHT = 0, 1
INT, REAL = False, True


def bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


def double(code: int) -> float:
    return struct.unpack("<d", struct.pack("<q", code))[0]


NAN = bits(math.nan)
NUMBERS = [0, 1, 2, 3, -1, -2, NULL, NULL + 1, MOST, 1 << 40]
DOUBLES = [bits(x) for x in (0.0, 0.5, -0.5, 1.0, -1.0, 1e300, -1e300, math.inf, -math.inf)] + [NULL, NAN]
# Width, lanes, and orders: within nothing, within one column, within a column that stands behind, by doubles.
SHAPES = [
    (1, (INT,), (Order((), 0),)),
    (1, (REAL, INT), (Order((), 0, double=True),)),
    (2, (INT, INT), (Order((0,), 1), Order((), 1))),
    (2, (INT,), (Order((1,), 0), Order((), 0))),
    (3, (INT, REAL, INT), (Order((0, 2), 1), Order((0,), 1), Order((), 2))),
]

Key = tuple[int, ...]
Rows = list[tuple[Key, tuple[float, ...]]]
Contents = dict[Key, tuple[float, ...]]


def rank(code: int, order: Order) -> float:
    """What orders as the key does."""
    if not order.double:
        return code
    return math.inf if code == NAN else min(double(code), 1.7e308)


def ordering(code: int, order: Order) -> int:
    """What ranges of an index are given in."""
    return code ^ MOST if order.double and code < 0 else code


def members(rows: Contents, order: Order, within: Key) -> list[Key]:
    """The keys of one tree, in order."""
    found = [key for key in rows if tuple(key[c] for c in order.within) == within and key[order.column] != NULL]
    return sorted(found, key=lambda key: rank(key[order.column], order))


def root(pool: Pool, number: int, within: Key) -> int:
    return kernels.root(pool.address, number, np.array(within, np.int64).ctypes.data)


def total(pool: Pool, number: int, within: Key, lane: int, low: int, high: int) -> float:
    flags = np.zeros(1, np.int64)
    code = kernels.add_up(pool.address, number, root(pool, number, within), lane, low, high, flags.ctypes.data)
    assert flags[0] == 0
    return double(code) if pool.doubles[lane] else code


def walk(pool: Pool, number: int, within: Key, lane: int, side: int) -> list[Key]:
    """All records of a tree that have a weight in a lane, from one side."""
    found = []
    record = kernels.outermost(pool.address, number, root(pool, number, within), lane, side)
    while record >= 0:
        found.append(tuple(pool.arrays.keys[record].tolist()))
        record = kernels.following(pool.address, number, record, lane, side)
    return found


def check(pool: Pool, rows: Contents) -> None:
    for number, order in enumerate(pool.orders):
        for within in {tuple(key[c] for c in order.within) for key in rows}:
            check_tree(pool, number, within, rows)
        absent = (777,) * len(order.within)
        assert root(pool, number, absent) < 0 or not order.within


def check_tree(pool: Pool, number: int, within: Key, rows: Contents) -> None:
    order = pool.orders[number]
    inside = members(rows, order, within)
    column = order.column
    ends = [NULL, MOST, *{ordering(key[column], order) for key in inside}]
    for lane, real in enumerate(pool.doubles):
        for low in ends:
            for high in ends:
                wanted = [key for key in inside if low < ordering(key[column], order) <= high]
                expected = sum(rows[key][lane] for key in wanted)
                found = total(pool, number, within, lane, low, high)
                assert found == (pytest.approx(expected, nan_ok=True) if real else expected)
        heavy = [key for key in inside if rows[key][lane] != 0]
        for side in (LEFT, RIGHT):
            found_keys = walk(pool, number, within, lane, side)
            assert sorted(found_keys) == sorted(heavy)
            ranks = [rank(key[column], order) for key in found_keys]
            assert ranks == sorted(ranks, reverse=side == RIGHT)


def arrays(pool: Pool, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    keys = np.array([key for key, _ in rows], np.int64).reshape(len(rows), pool.width)
    codes = [[bits(w) if real else w for w, real in zip(each, pool.doubles, strict=True)] for _, each in rows]
    return keys, np.array(codes, np.int64).reshape(len(rows), pool.lanes)


def merged(contents: Contents, rows: Rows) -> Contents:
    result = dict(contents)
    for key, weights in rows:
        old = result.pop(key, (0,) * len(weights))
        new = tuple(a + b for a, b in zip(old, weights, strict=True))
        if any(new):
            result[key] = new
    return result


@st.composite
def histories(draw):
    width, doubles, orders = draw(st.sampled_from(SHAPES))
    real_columns = {order.column for order in orders if order.double}
    columns = [st.sampled_from(DOUBLES if c in real_columns else NUMBERS) for c in range(width)]
    weights = st.tuples(*[st.sampled_from([0.0, 0.5, -0.5, 2.0]) if real else st.integers(-2, 2) for real in doubles])
    rows = st.lists(st.tuples(st.tuples(*columns), weights), max_size=10)
    step = st.tuples(st.sampled_from(["merge", "merge", "merge", "set_all", "clear", "order"]), rows)
    batch = st.tuples(st.lists(step, max_size=3), st.booleans())
    return (width, doubles, orders), draw(st.lists(batch, max_size=5))


def follow(pool: Pool, orders: tuple[Order, ...], batches, handed=lambda pool: pool) -> None:
    """`handed` is asked for the pool whenever another one may go on."""
    rows: Contents = {}
    for steps, keep in batches:
        pool = handed(pool)
        pool.begin()
        before = rows
        for name, given_ in steps:
            match name:
                case "merge":
                    pool.merge(*arrays(pool, given_))
                    rows = merged(rows, given_)
                case "set_all":
                    pool.set_all(*arrays(pool, given_))
                    rows = merged({}, given_)
                case "clear":
                    pool.clear()
                    rows = {}
                case "order":
                    missing = [order for order in orders if order not in pool.orders]
                    for order in missing[:1]:
                        pool.add_order(order)
            check(pool, rows)
        if not keep:
            pool.rollback()
            rows = before
            check(pool, rows)
    pool.begin()
    check(pool, rows)
    for number, order in enumerate(pool.orders):
        trees = {tuple(key[c] for c in order.within) for key in rows if key[order.column] != NULL}
        assert pool.ordered_index(number).words[layout.CHAINS] == len(trees)


@settings(max_examples=60)
@given(histories(), st.booleans())
def test_index_is_a_sorted_list(history, from_the_start):
    (width, doubles, orders), batches = history
    pool = Pool(width, doubles)
    for order in orders if from_the_start else ():
        pool.add_order(order)
    follow(pool, orders, batches)


@settings(max_examples=20)
@given(histories())
def test_index_that_goes_from_hand_to_hand(history):
    (width, doubles, orders), batches = history
    with tempfile.TemporaryDirectory() as directory:
        maps = TwoMaps(Path(directory) / "region")
        follow(Pool(width, doubles, memory=maps.region), orders, batches, maps.handed)


@pytest.mark.parametrize("groups", [1, 700])
def test_growth(groups):
    """Thousands of keys in one tree or in many, most of which go again."""
    random = np.random.default_rng(4)
    pool = Pool(2, (INT,))
    pool.add_order(Order((0,), 1))
    rows: Contents = {}
    for step in range(6):
        keys = np.stack([random.integers(0, groups, 2000), random.integers(-5000, 5000, 2000)], axis=1)
        weights = random.integers(-2, 3, 2000)
        given_ = [(tuple(key), (weight,)) for key, weight in zip(keys.tolist(), weights.tolist(), strict=True)]
        if step % 2:  # most of what is there goes, in the same batch
            given_ += [(key, (-rows[key][0],)) for key in list(rows)[::2]]
        pool.begin()
        pool.merge(*arrays(pool, given_))
        pool.rollback()
        pool.merge(*arrays(pool, given_))
        rows = merged(rows, given_)
        inside = sorted(key for key in rows if key[0] == 0)
        assert walk(pool, 0, (0,), 0, LEFT) == inside
        for low, high in random.integers(-6000, 6000, (30, 2)).tolist():
            wanted = sum(rows[key][0] for key in inside if low < key[1] <= high)
            assert total(pool, 0, (0,), 0, low, high) == wanted
    own = sum(array.nbytes for array in pool.arrays.all())
    assert pool.nbytes == own + sum(array.nbytes for array in pool.ordered_index(0).arrays)


def test_tree_is_shallow():
    """Keys that come in order make no list of the tree."""
    pool = Pool(1, (INT,))
    pool.add_order(Order((), 0))
    keys = np.arange(20_000).reshape(-1, 1)
    pool.merge(keys, np.ones(len(keys), np.int64))
    nodes, depth, level = pool.ordered_index(0).nodes, 0, [root(pool, 0, ())]
    while level:
        depth += 1
        level = [int(child) for at in level for child in nodes[at, :2] if child >= 0]
    assert depth < 60


def test_sum_that_does_not_fit_is_flagged():
    pool = Pool(1, (INT,))
    pool.add_order(Order((), 0))
    pool.merge(np.array([[1], [2], [3]]), np.array([MOST, MOST, -5]))
    flags = np.zeros(1, np.int64)
    kernels.add_up(pool.address, 0, root(pool, 0, ()), 0, NULL, MOST, flags.ctypes.data)
    assert flags[0] == OVERFLOW


def test_infinity_leaves_no_trace():
    pool = Pool(1, (REAL,))
    pool.add_order(Order((), 0))
    pool.merge(np.array([[1], [2]]), np.array([bits(1.5), bits(math.inf)]))
    assert total(pool, 0, (), 0, NULL, MOST) == math.inf
    pool.rollback()
    pool.merge(np.array([[1]]), np.array([bits(1.5)]))
    assert total(pool, 0, (), 0, NULL, MOST) == 1.5


def test_pool_of_one_batch_has_no_order():
    with pytest.raises(InternalError):
        Pool(1, (INT,), journalled=False).add_order(Order((), 0))


def test_index_that_cannot_grow():
    """Records that found no place in the index are undone with the batch."""
    pool = Pool(1, (INT,))
    pool.add_order(Order((0,), 0))
    pool.merge(np.arange(5).reshape(-1, 1), np.ones(5, np.int64))
    pool.begin()
    pool.ordered_index(0).reserve = _refuse  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        pool.merge(np.arange(200).reshape(-1, 1), np.ones(200, np.int64))
    pool.rollback()
    check(pool, {(key,): (1,) for key in range(5)})


def _refuse(trees: int) -> None:
    raise MemoryError
