"""Views whose thresholds move with every row: single rows and whole columns take the quick way, and are undone by it.

What is evaluated anew goes down an ordered index once, with running sums. For every comparison, with and without
brokers to be within, and with prices that are missing, the views are compared with DuckDB's.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import viewmill
from viewmill.engines.local import engine

pytestmark = pytest.mark.slow  # machine code is made on first use, which takes longer than the tests

BIDS = "(id BIGINT NOT NULL, broker INT NOT NULL, price DECIMAL(10, 2), volume BIGINT NOT NULL)"
COMPARISONS = [(op, test) for op in (">", ">=", "<", "<=") for test in (">", "<=")]


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "COMPILE_AFTER", -1)


def queries() -> dict[str, str]:
    found = {}
    for i, (op, test) in enumerate(COMPARISONS):
        beyond = f"(SELECT coalesce(sum(c.volume), 0) FROM bids c WHERE c.price {op} b.price)"
        found[f"v{i}"] = f"""SELECT sum(b.price * b.volume) AS worth, count(*) AS orders FROM bids b
            WHERE 0.25 * (SELECT sum(volume) FROM bids) {test} {beyond}"""
        found[f"n{i}"] = f"""SELECT count(*) AS orders, sum(volume) AS volume FROM bids b
            WHERE 7 {test} (SELECT sum(c.volume) FROM bids c WHERE c.price {op} b.price AND c.broker = 1)"""
    return found


def new_mill(views: dict[str, str]) -> viewmill.Mill:
    mill = viewmill.connect()
    mill.sql(f"CREATE TABLE bids {BIDS} WITH (stored = false)")
    for name, query in views.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return mill


def answers(rows: Counter[tuple[object, ...]], views: dict[str, str]) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect() as connection:
        connection.sql(f"CREATE TABLE bids {BIDS}")
        for row in rows.elements():
            connection.execute("INSERT INTO bids VALUES (?, ?, ?, ?)", row)
        return {name: connection.sql(query).fetchall() for name, query in views.items()}


def columns(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    types = (pa.int64(), pa.int32(), pa.decimal128(10, 2), pa.int64())
    arrays = [pa.array(values, type_) for values, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    return pa.record_batch(arrays, names=["id", "broker", "price", "volume"])


def general_ways(mill: viewmill.Mill, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The batches that do not take the quick way from now on."""
    taken: list[object] = []
    commit = mill._commit

    def counted(changes, pending):
        taken.append(pending)
        commit(changes, pending)

    monkeypatch.setattr(mill, "_commit", counted)
    return taken


@pytest.mark.parametrize("seed", [1, 2])
def test_single_rows_and_columns_follow_their_queries(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, views = random.Random(seed), queries()
    mill = new_mill(views)
    prices = [None, *(Decimal(cents) / 100 for cents in (-150, 0, 200, 201, 299, 300, 600))]
    present: Counter[tuple[object, ...]] = Counter()
    mill.insert("bids", [(0, 1, prices[2], 3)])
    present[0, 1, prices[2], 3] += 1
    taken = general_ways(mill, monkeypatch)
    for step in range(60):
        volume = chosen.choice([1, 2, 5, 8] if step % 20 < 15 else [1, 2, -4])  # a negative one comes and goes
        row = (chosen.randrange(9), chosen.choice([1, 2]), chosen.choice(prices), volume)
        if present and (step % 3 == 2 or len(present) > 12):
            row = chosen.choice(sorted(present, key=str))
            mill.delete("bids", [row] if step % 2 else columns([row]))
            present[row] -= 1
        else:
            mill.insert("bids", [row] if step % 2 else columns([row, row]))
            present[row] += 1 if step % 2 else 2
        present = +present
        if step % 4 == 3:
            found = {name: list(mill.view(name)) for name in views}
            assert found == answers(present, views)
    assert not taken, "a batch did not take the quick way"


def test_sums_run_along_the_tree() -> None:
    code = new_mill(queries()).explain("v0", stage="code")
    assert "beside(" in code


def test_several_records_with_one_key_are_looked_up() -> None:
    """A tree by price has two nodes for one price where the store has volumes, too: sums cannot run along."""
    query = """SELECT count(*) AS orders, sum(volume) AS volume FROM bids b
        WHERE 5 > (SELECT count(*) FROM bids c WHERE c.price > b.price)"""
    mill, present = new_mill({}), Counter[tuple[object, ...]]()
    mill.sql(f"CREATE MATERIALIZED VIEW v WITH (maintain = 'first_order') AS {query}")
    assert "never_negative(" in mill.explain("v", stage="code")
    for i in range(24):
        row = (i, 1, Decimal(i % 3), i)
        mill.insert("bids", [row])
        present[row] += 1
        assert list(mill.view("v")) == answers(present, {"v": query})["v"]


def test_auto_keeps_what_ordered_indexes_need() -> None:
    """A store by price alone, of which a search finds the sum; of one with volumes, every record would be read."""
    mill = new_mill(
        {
            "v": """SELECT count(*) AS orders, sum(volume) AS volume FROM bids b
        WHERE 5 > (SELECT count(*) FROM bids c WHERE c.price > b.price)"""
        }
    )
    assert "store bids(price, volume)" not in mill.explain("v", stage="program")
    assert "beside(" in mill.explain("v", stage="code")


@pytest.mark.parametrize("way", ["single", "columns", "batch"])
def test_a_refused_row_leaves_no_trace(way: str) -> None:
    """The trigger has run, and so has the first store that is evaluated anew, when the second finds an error."""
    mill = new_mill(
        {
            "v": queries()["v0"],
            "w": """SELECT count(*) AS orders FROM bids b WHERE 12 div (SELECT sum(volume) FROM bids) >
                (SELECT coalesce(sum(c.volume), 0) FROM bids c WHERE c.price > b.price)""",
        }
    )
    for i in range(4):
        mill.insert("bids", [(i, 1, Decimal(i), 1)])
    before = [list(mill.view(name)) for name in "vw"], mill.version
    bad = (9, 1, Decimal(9), -4)
    with pytest.raises(viewmill.DataError, match="zero"):
        if way == "batch":  # after single rows that came the quick way
            with mill.batch() as batch:
                batch.insert("bids", [bad])
        else:
            mill.insert("bids", [bad] if way == "single" else columns([bad]))
    assert ([list(mill.view(name)) for name in "vw"], mill.version) == before
    mill.insert("bids", [(10, 1, Decimal(2), 1)])
    assert list(mill.view("w")) == [(3,)]  # 12 div 5 = 2: those with less than two dearer


def test_ways_take_turns() -> None:
    """The general way ends what the quick way left open, and the other way round."""
    views = {"v": queries()["v0"]}
    mill, present = new_mill(views), Counter[tuple[object, ...]]()
    for i in range(24):
        row = (i, 1, Decimal(i % 5), 1 + i % 4)
        if i % 3:
            mill.insert("bids", [row])
        else:
            with mill.batch() as batch:
                batch.insert("bids", [row])
        present[row] += 1
        assert list(mill.view("v")) == answers(present, views)["v"]
