"""Which strategy is taken, why, and where it stops: `mill.status()` tells."""

from __future__ import annotations

import re
import time

import pytest

import viewmill
from viewmill import UnsupportedError
from viewmill.algebra.schema import relations
from viewmill.algebra.text import parse
from viewmill.catalog import Catalog, ColumnInfo, RelationInfo
from viewmill.materialize import count
from viewmill.materialize.choose import AUTO_LIMIT, RECURSIVE_LIMIT
from viewmill.materialize.compile import ViewSpec, add_view
from viewmill.materialize.cost import estimate
from viewmill.materialize.count import count_stores
from viewmill.program.nodes import EMPTY
from viewmill.types import INT


def chain(length: int) -> tuple[viewmill.Mill, str]:
    """t0 - t1 - t2 - ..., each joined with the next."""
    mill = viewmill.connect()
    for i in range(length):
        mill.sql(f"CREATE TABLE t{i} (k{i} INT, k{i + 1} INT)")
    joins = (f"JOIN t{i} ON t{i - 1}.k{i} = t{i}.k{i}" for i in range(1, length))
    return mill, f"SELECT count(*) AS n FROM t0 {' '.join(joins)}"


def create(mill: viewmill.Mill, query: str, maintain: str, name: str = "v") -> dict[str, tuple[str, str]]:
    """Create a view; for every relation how it is maintained, and why."""
    mill.sql(f"CREATE MATERIALIZED VIEW {name} WITH (maintain = '{maintain}') AS {query}")
    return {m.relation: (m.how, m.reason) for m in mill.status().view(name).maintenance}


def test_a_long_join_is_bounded() -> None:
    mill, query = chain(16)
    start = time.monotonic()
    found = create(mill, query, "auto")
    assert time.monotonic() - start < 60, "an exponential would take hours"
    assert {how for how, _ in found.values()} == {"first_order"}
    assert all(f"the rest would need more than {AUTO_LIMIT} stores" in reason for _, reason in found.values())
    assert len(mill.status().stores) == 17


def test_a_long_join_is_right() -> None:
    mill, query = chain(16)
    create(mill, query, "auto")
    with mill.batch() as batch:
        for i in range(16):
            batch.insert(f"t{i}", [(1, 1), (2, 2), (1, 2)])
    assert mill.view("v").read().to_dicts() == [{"n": 18}]  # one 1, one 2, or one of 16 places to step from 1 to 2
    mill.delete("t7", [(1, 2)])
    assert mill.view("v").read().to_dicts() == [{"n": 17}]


def test_recursive_over_the_bound_is_refused_with_the_number() -> None:
    mill, query = chain(16)
    with pytest.raises(
        UnsupportedError, match=r'cannot maintain view "v" recursively: it would need about \d+ stores'
    ) as e:
        create(mill, query, "recursive")
    assert f"the limit is {RECURSIVE_LIMIT}" in e.value.message
    assert e.value.hint is not None and "first_order" in e.value.hint
    assert mill.status().views == () and mill.status().stores == ()


def test_recursive_under_the_bound_is_not() -> None:
    mill, query = chain(5)
    assert {how for how, _ in create(mill, query, "recursive").values()} == {"recursive"}
    # One for each run of neighbours: 5 + 4 + 3 + 2 + 1.
    assert len(mill.status().stores) == 15


@pytest.mark.parametrize("length", range(1, 8))
def test_the_count_is_about_right(length: int) -> None:
    """Never less than what is built, and at most one more for each relation."""
    mill, query = chain(length)
    create(mill, query, "recursive")
    relations = (f"T{i}(k{i}, k{i + 1})" for i in range(length))
    number = int(count_stores(parse(f"Sum[]({' * '.join(relations)})")).removeprefix("about "))
    assert len(mill.status().stores) <= number <= len(mill.status().stores) + length


def test_counting_stops_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "ENOUGH", 500)
    keys = [f"k{i}" for i in range(24)]
    star = f"Sum[](F({', '.join(keys)}) * " + " * ".join(f"D{i}({key})" for i, key in enumerate(keys)) + ")"
    assert count_stores(parse(star)) == "more than 500"


LIMITED = """
CREATE TABLE c (k INT, n INT);
CREATE TABLE o (k INT, d INT, x INT);
"""
WITHIN = 'which rows of "o" are within a LIMIT depends on all of them'


@pytest.mark.parametrize("maintain", ["auto", "recursive", "first_order"])
def test_the_first_of_all_rows_are_picked_anew(maintain: str) -> None:
    """A limit that is not correlated has no keys: those who join with it follow their own changes as ever."""
    mill = viewmill.connect()
    mill.sql(LIMITED)
    query = "SELECT n, x FROM c JOIN (SELECT k, x FROM o ORDER BY d DESC LIMIT 3) z ON c.k = z.k"
    found = create(mill, query, maintain)
    assert found["o"] == ("reevaluate", WITHIN)
    assert found["c"][0] != "reevaluate"
    with pytest.raises(UnsupportedError, match=f'a change of "o" would re-evaluate it, because {WITHIN}') as refusal:
        create(mill, query, "incremental", "w")
    assert '"c"' not in refusal.value.message


def test_the_first_rows_for_each_row_are_incremental() -> None:
    mill = viewmill.connect()
    mill.sql(LIMITED)
    query = "SELECT n, (SELECT x FROM o WHERE o.k = c.k ORDER BY d DESC LIMIT 1) AS x FROM c"
    assert "reevaluate" not in {how for how, _ in create(mill, query, "incremental").values()}


def test_how_many_rows_are_within_a_limit_is_incremental() -> None:
    """For the number no rows are picked: it follows from the count."""
    mill = viewmill.connect()
    mill.sql(LIMITED)
    query = "SELECT count(*) AS n FROM (SELECT x FROM o ORDER BY d LIMIT 3) z"
    assert "reevaluate" not in {how for how, _ in create(mill, query, "incremental").values()}


def test_the_estimate_of_the_first_rows() -> None:
    """To pick them is to visit all."""
    infos = {"R": RelationInfo("R", (ColumnInfo("A", INT),)), "S": RelationInfo("S", (ColumnInfo("B", INT),))}
    spec = ViewSpec("Q", parse("R(A) * TopK[B; 3](S(B))"), ("A", "B"), "first_order")
    program = add_view(EMPTY, spec, Catalog(infos), {})
    work = estimate(program, Catalog(infos), {"R": 10, "S": 10_000}).work
    assert work["S"] > 10_000


SIZED = """
CREATE TABLE big (id INT, kind INT, amount INT);
CREATE TABLE kinds (kind INT, name INT);
"""


def test_a_small_relation_is_joined_on_the_spot() -> None:
    mill = viewmill.connect()
    mill.sql(SIZED)
    mill.insert("big", [(i, i % 3, i) for i in range(1000)])
    mill.insert("kinds", [(k, k * 10) for k in range(3)])
    query = "SELECT name, sum(amount) AS total FROM big JOIN kinds ON big.kind = kinds.kind GROUP BY name"
    found = create(mill, query, "auto")
    how, reason = found["kinds"]
    assert how == "first_order"
    assert reason == '"kinds" is small (3 rows) and changes seldom: joined on the spot'
    assert found["big"][0] == "recursive"
    mill.insert("kinds", [(1, 99)])
    assert mill.verify("v")


def test_the_reason_has_numbers_to_compare() -> None:
    mill = viewmill.connect()
    mill.sql(SIZED)
    found = create(mill, "SELECT kind, sum(amount) AS total FROM big GROUP BY kind", "auto")
    how, reason = found["big"]
    numbers = r"\d+ stores, at most [\d,]+ rows visited for one changed"
    assert how == "recursive"
    others = "; ".join(f"{name}: {numbers}" for name in ("higher-order within keys", "first-order"))
    assert re.fullmatch(f"higher-order: {numbers}; {others}", reason)


@pytest.mark.parametrize("maintain", ["recursive", "first_order", "reevaluate"])
def test_what_is_asked_for_is_what_is_done(maintain: str) -> None:
    mill = viewmill.connect()
    mill.sql(SIZED)
    found = create(mill, "SELECT sum(amount) AS total FROM big JOIN kinds ON big.kind = kinds.kind", maintain)
    assert {how for how, _ in found.values()} == {maintain}
    assert mill.status().view("v").asked == maintain


def test_the_estimate_of_a_join() -> None:
    """A look-up by all keys visits one row, a slice as many as there are for a value, one by primary key one."""
    columns = {"R": ("A", "B"), "S": ("B", "C")}
    infos = {
        name: RelationInfo(name, tuple(ColumnInfo(f, INT, nullable=False) for f in fields))
        for name, fields in columns.items()
    }
    spec = ViewSpec("Q", parse("Sum[B](R(A, B) * S(B, C) * A * C)"), ("B",), "first_order")
    plain = Catalog(infos)
    program = add_view(EMPTY, spec, plain, {})
    # On R: the batch and a slice of S by B, each row of which is written; then the batch for R itself, and written.
    # A column has the square root of the rows as values, if nothing is known of it.
    sizes = {"R": 100, "S": 10_000}
    cost = estimate(program, plain, sizes)
    assert cost.work == {"R": (1 + 100) + 100 + 2, "S": (1 + 10) + 10 + 2}
    assert cost.stores == 3
    keyed = Catalog({**infos, "S": RelationInfo("S", infos["S"].columns, primary_key=("B",))})
    assert estimate(program, keyed, sizes).work["R"] == (1 + 1) + 1 + 2


def test_only_bounded_joins_are_kept_where_others_explode() -> None:
    """Orders and suppliers have only the nation in common: together they are a product for each nation."""
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE nation (n INT NOT NULL PRIMARY KEY, name STRING NOT NULL);
        CREATE TABLE customer (c INT NOT NULL PRIMARY KEY, n INT NOT NULL);
        CREATE TABLE supplier (s INT NOT NULL PRIMARY KEY, n INT NOT NULL);
        CREATE TABLE orders (o INT NOT NULL PRIMARY KEY, c INT NOT NULL);
        CREATE TABLE item (o INT NOT NULL, s INT NOT NULL, price INT NOT NULL)
    """)
    query = """
        SELECT name, sum(price) AS total FROM item
        JOIN orders ON item.o = orders.o JOIN customer ON orders.c = customer.c
        JOIN supplier ON item.s = supplier.s AND supplier.n = customer.n JOIN nation ON nation.n = customer.n
        GROUP BY name
    """
    found = create(mill, query, "auto")
    assert all("higher-order within keys: " in reason for _, reason in found.values())
    kept = [store for store in mill._definitions.program.stores.values() if store.name not in ("v",)]
    joined = [relations(store.definition) for store in kept]
    assert not any({"orders", "supplier"} <= names and "item" not in names for names in joined)
