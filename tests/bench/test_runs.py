"""Whole runs, as small as they can be: TPC-H through its processes, VWAP, and the soak."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from random import Random

import pytest
from typer.testing import CliRunner

from viewmill.bench import soak
from viewmill.bench.baseline import DuckBaseline
from viewmill.bench.measure import create_and_insert
from viewmill.bench.queries import tpch_queries
from viewmill.bench.soak import Shelf, Soak
from viewmill.bench.vwap import OrderBook, run_vwap
from viewmill.cli import app
from viewmill.session import Mill


def bench(*arguments, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_tpch_from_the_command_line(folder, tmp_path):
    choice = "--scale 0.001 --queries q13 --strategies auto --sizes 10 --seconds 0.01 --no-first-use --no-growth"
    bench("tpch", *choice.split(), "--data", folder, "--output", tmp_path)
    found = json.loads((tmp_path / "tpch-sf0.001.json").read_text())
    assert [(cell["phase"], cell["status"]) for cell in found["cells"]] == [("inserts", "ok"), ("changes", "ok")]
    assert found["baselines"][0]["refresh"] > 0 and found["place"]["commit"]
    assert "| q13 |" in (tmp_path / "tpch-sf0.001.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tpch", "--queries", "q99"), "there is no query 'q99'"),
        (("tpch", "--strategies", "magic"), "there is no way of maintenance 'magic'"),
        (("tpch", "--sizes", "many"), "'many' is no batch size"),
    ],
)
def test_mistakes_are_messages(arguments, message):
    assert message in bench(*arguments, code=1).stderr


def test_duckdb_is_left_as_it_was(data):
    duckdb = DuckBaseline(data, 1)
    before = {name: duckdb._connection.sql(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in data}
    found = duckdb.measure(tpch_queries()["q12"], ("single", "1", "10", "100000"))
    assert found.refresh > 0 and found.relation == "lineitem" and set(found.apply) == {"1", "10"}
    assert before == {name: duckdb._connection.sql(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in data}
    assert duckdb.threads == 1


def test_first_use_makes_a_view_of_all_relations(data):
    assert create_and_insert(tpch_queries()["q12"], "auto", data) > 0


def test_vwap_is_right_after_every_size():
    book = OrderBook(24, "auto")
    for size in ("single", "1", "4"):
        found = book.measure(size, 0.01)
        assert found.status == "ok", found.note
        assert found.updates > 0 and found.seconds > 0
    assert book.measure("1000", 0.05).status == "small"


def test_vwap_notices_lost_orders():
    book = OrderBook(40, "auto")
    book.mill.delete("bids", book._rows.slice(0, 20))
    assert book.disagreement()


def test_a_book_that_cannot_be_made_is_reported():
    (book,) = run_vwap(100, ("1",), "by magic", 0.01, 60.0, Quiet()).books
    assert book.status == "failed" and "BindError" in book.note


class Quiet:
    def at(self, text):
        pass

    def step(self):
        pass


def test_a_short_soak_is_right():
    found = soak.soak(60, 3, Quiet())
    assert (found.changes, found.checks, found.wrong) == (60, 3, "")


class Forgetful(Mill):
    """Keeps what it should delete."""

    def delete(self, table, data):
        pass


def test_a_soak_stops_where_it_is_wrong(monkeypatch):
    monkeypatch.setattr(soak.viewmill, "connect", Forgetful)
    found = soak.soak(150, 3, Quiet())
    assert found.wrong.startswith("after ") and "view " in found.wrong


class Recorder:
    """Takes changes as a mill does, and checks that they are possible."""

    def __init__(self):
        self.rows = Counter()
        self.kinds = Counter()

    def insert(self, table, rows):
        self.kinds["insert"] += 1
        self.rows.update((table, *row) for row in rows)

    def delete(self, table, rows):
        self.kinds["delete"] += 1
        for row in rows:
            assert self.rows[table, *row] > 0
            self.rows[table, *row] -= 1

    def update(self, table, rows):
        ((key, *_),) = rows
        (old,) = [row for row, count in self.rows.items() if count and row[:2] == (table, key)]
        self.kinds["update"] += 1
        self.delete(table, [old[1:]])
        self.insert(table, rows)

    @contextmanager
    def batch(self):
        yield self


def test_the_soak_makes_valid_changes_of_all_kinds():
    soaking = Soak()
    soaking.mill = recorder = Recorder()
    for _ in range(3000):
        soaking.change()
    kept = Counter((table, *row) for table, shelf in soaking.rows.items() for row in shelf)
    assert +recorder.rows == kept
    assert min(recorder.kinds[kind] for kind in ("insert", "delete", "update")) > 50


def test_a_shelf_is_a_multiset():
    shelf, plain, random = Shelf(10), [], Random(1)
    for _ in range(500):
        if plain and random.random() < 0.5:
            row = shelf.any(random)
            shelf.remove(row)
            plain.remove(row)
        else:
            row = (random.randrange(3), random.randrange(3))
            shelf.add(row)
            plain.append(row)
        assert sorted(shelf) == sorted(plain) and len(shelf) == len(plain)
