"""Cells on a little data: what is measured is verified, and what is wrong is said."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import viewmill
from viewmill.bench import measure as measuring
from viewmill.bench import process as processes
from viewmill.bench.measure import Job, Loading, Measuring, measure
from viewmill.bench.process import TooLarge
from viewmill.bench.queries import tpch_queries
from viewmill.bench.results import Cell
from viewmill.bench.worker import _Watched
from viewmill.session import Mill

WANTED = (("inserts", "single"), ("inserts", "10"), ("changes", "single"), ("changes", "1"), ("changes", "10"))
JOB = Job(tpch_queries()["q12"], "auto", 0.001, Path(), WANTED, 0.003, 60.0)


def cells(job, data):
    return [news for news in measure(job, data) if isinstance(news, Cell)]


@pytest.mark.parametrize("query", ["q12", "q03"])
def test_every_cell_is_measured_and_right(query, data):
    found = cells(replace(JOB, query=tpch_queries()[query]), data)
    assert [(cell.phase, cell.size) for cell in found] == list(WANTED)
    for cell in found:
        assert cell.status == "ok", cell.note
        assert cell.rows > 0 and cell.batches > 0 and 0 < cell.p50 <= cell.p99 <= cell.seconds
        assert sum(share.rows for share in cell.relations.values()) == cell.rows
        assert set(cell.maintenance) == set(tpch_queries()[query].reads)


def test_news_come_in_order(data):
    news = list(measure(replace(JOB, wanted=WANTED[:1]), data))
    assert [type(each) for each in news] == [Loading, Measuring, Cell]


def test_growth_is_measured_in_turns(data, monkeypatch):
    monkeypatch.setattr(measuring, "GROWTH", "10")
    job = replace(JOB, wanted=(("changes", "1"), ("changes", "10")), tenth=Path())
    less = {name: rows.slice(0, rows.num_rows // 2) for name, rows in data.items()}
    found = [news for news in measure(job, data, less) if isinstance(news, Cell)]
    assert [(cell.size, cell.scale, cell.status) for cell in found] == [
        ("1", 0.001, "ok"),
        ("10", 0.001, "ok"),
        ("10", 0.0001, "ok"),
    ]


class Lossy(Mill):
    """Loses the first row of every larger batch."""

    def insert(self, table, data):
        super().insert(table, data.slice(1) if len(data) > 1 else data)


def test_a_wrong_answer_is_reported(data, monkeypatch):
    monkeypatch.setattr(viewmill, "connect", Lossy)
    job = replace(JOB, query=tpch_queries()["q13"])  # it counts all customers
    found = cells(job, data)
    assert {cell.status for cell in found} == {"wrong"}
    assert all("missing" in cell.note for cell in found)


class Broken(Mill):
    def insert(self, table, data):
        raise KeyError("no such thing")


def test_an_error_ends_a_cell_and_not_the_run(data, monkeypatch):
    monkeypatch.setattr(viewmill, "connect", Broken)
    assert {(cell.status, cell.note) for cell in cells(JOB, data)} == {("failed", "KeyError: 'no such thing'")}


def test_loading_has_a_limit(data):
    assert {cell.status for cell in cells(replace(JOB, limit=0.0), data)} == {"slow"}


def test_batches_need_rows(data):
    (cell,) = cells(replace(JOB, wanted=(("inserts", "100000"),)), data)
    assert cell.status == "small" and not cell.measured


def test_state_is_the_bytes_of_all_stores():
    class Store:
        def __init__(self, nbytes):
            self.bytes = nbytes

    class Status:
        stores = (Store(3), Store(4))

    assert measuring.state_bytes(Status()) == 7
    Status.stores = (Store(3), Store(None))
    assert measuring.state_bytes(Status()) is None


class Silent:
    """A process that never says anything more."""

    def __init__(self, *news):
        self._news = list(news)

    def poll(self, seconds):
        return bool(self._news)

    def recv(self):
        return self._news.pop(0)


def test_a_phase_that_cannot_be_loaded_is_given_up_as_a_whole():
    watched = _Watched(JOB)
    found = list(watched._follow(Silent(Loading("inserts", "single"))))
    assert [cell.status for cell in found[1:]] == ["slow", "slow"] and watched.done == 2


def test_a_batch_that_hangs_costs_its_cell_only():
    watched = _Watched(JOB)
    found = list(watched._follow(Silent(Loading("inserts", "single"), Measuring("inserts", "single"))))
    assert [cell.status for cell in found[2:]] == ["slow"] and watched.done == 1


def test_a_query_that_cannot_even_start_is_given_up_at_once():
    watched = _Watched(JOB)
    found = list(watched._follow(Silent()))
    assert {cell.status for cell in found} == {"slow"} and watched.done == len(JOB.wanted) == len(found)


class Greedy(Silent):
    """A process that takes more memory than there is."""

    def poll(self, seconds):
        if not self._news:
            raise TooLarge
        return True


def test_a_query_that_takes_all_memory_is_given_up_where_it_does():
    watched = _Watched(JOB)
    found = list(watched._follow(Greedy(Loading("inserts", "single"))))
    assert [cell.status for cell in found[1:]] == ["large", "large"] and watched.done == 2


def test_memory_of_a_process_is_seen(monkeypatch):
    monkeypatch.setattr(processes, "SHARE", 0.0)
    with processes.spawned(Connection.recv) as process:  # which waits
        assert process.share > 0
        with pytest.raises(TooLarge):
            process.poll(30)
