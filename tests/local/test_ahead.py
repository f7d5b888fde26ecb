"""Memory that is made ready before it is written to."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import sys
import time
from typing import Any

import numpy as np
import pytest

from viewmill.engines.local import ahead, layout
from viewmill.engines.local.ahead import LARGE_PAGE, Region
from viewmill.engines.local.dictionary import Dictionary
from viewmill.engines.local.memory import Anonymous
from viewmill.engines.local.pools import FIRST_LOOK, Pool

needs_two = pytest.mark.skipif(not ahead._is_worth_it(), reason="there is one processor")


def resident(region: Region, start: int, stop: int) -> bool:
    """Whether all pages of a part are there. Nothing is touched."""
    pages = (stop - start) // mmap.PAGESIZE
    found = (ctypes.c_ubyte * pages)()
    base = np.frombuffer(region, np.uint8).ctypes.data
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(base + start), ctypes.c_size_t(stop - start), found) == 0
    return all(flag & 1 for flag in found)


def soon(region: Region, start: int, stop: int) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if resident(region, start, stop):
            return True
        time.sleep(0.01)
    return False


@needs_two
def test_pages_are_there_before_anybody_writes():
    region = Region(-1, 8 * LARGE_PAGE)
    region.expect(0, LARGE_PAGE + 1)
    assert soon(region, 0, 2 * LARGE_PAGE) and region.ready == 2 * LARGE_PAGE
    assert not resident(region, 2 * LARGE_PAGE, 3 * LARGE_PAGE), "what nobody expects is not there"
    region.expect(0, 100 * LARGE_PAGE)
    assert soon(region, 0, 8 * LARGE_PAGE) and region.ready == 8 * LARGE_PAGE
    assert not np.frombuffer(region, np.uint8).any()


def test_what_was_written_stays():
    memory = Anonymous()
    array = memory.array((LARGE_PAGE // 8,), np.int64)
    array[:] = 7
    memory.expect(array, 0, 4 * len(array))
    longer = memory.longer(array, 4 * len(array))
    time.sleep(0.05)
    assert (longer[: len(array)] == 7).all() and not longer[len(array) :].any()


@needs_two
def test_nothing_is_lost_that_is_written_meanwhile():
    region = Region(-1, 64 * LARGE_PAGE)
    words = np.frombuffer(region, np.int64)
    region.expect(0, len(region))
    words[::512] = 7
    assert soon(region, 0, len(region)) and (words[::512] == 7).all() and words.sum() == 7 * len(words[::512])


def test_small_arrays_have_nothing_to_expect():
    memory = Anonymous()
    memory.expect(memory.array((0, 2), np.int64), 0, 100)
    memory.expect(memory.array((8, 2), np.int64), 0, 100)


def _child(sent: Any) -> None:
    region = Region(-1, 2 * LARGE_PAGE)
    region.expect(0, len(region))
    sent.send(soon(region, 0, len(region)))


@needs_two
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_process_has_its_own_thread():
    test_pages_are_there_before_anybody_writes()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_child, args=(theirs,))
    child.start()
    assert ours.poll(30) and ours.recv()
    child.join(10)


@pytest.mark.skipif(sys.platform != "linux", reason="arrays do not grow where they are")
def test_a_pool_that_grows_looks_ahead():
    pool = Pool(2, (False,), ((0,),))
    block = pool.arrays.block
    seen = {int(block[layout.SOON])}
    total = 8 * FIRST_LOOK
    for start in range(0, total, 5000):
        keys = np.arange(start, min(start + 5000, total), dtype=np.int64)
        pool.merge(np.stack([keys // 3, keys], axis=1), np.ones(len(keys), np.int64))
        pool.begin()
        seen.add(int(block[layout.SOON]))
    assert len(seen) > 4 and min(seen) == FIRST_LOOK and block[layout.SOON] > total
    keys, weights = pool.rows()
    assert sorted(keys[:, 1].tolist()) == list(range(total)) and (weights == 1).all()
    assert len(pool.records_in_slice(0, (5,))) == 3


def test_a_dictionary_that_grows_where_it_is_finds_all_its_strings():
    import pyarrow as pa

    dictionary = Dictionary()
    texts = [f"text number {i}" for i in range(400_000)]
    codes = [dictionary.codes(pa.array(texts[start : start + 20_000])) for start in range(0, len(texts), 20_000)]
    assert np.concatenate(codes).tolist() == list(range(len(texts)))
    assert dictionary.codes(pa.array(texts[::7])).tolist() == list(range(0, len(texts), 7))
    assert dictionary.value(399_999) == texts[-1]
