"""The session end to end: tables, views, batches and reading, on whatever engine the mill has."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pandas
import pyarrow as pa
import pytest

import viewmill
from viewmill import BindError, Changes, DataError, UnsupportedError


@pytest.fixture
def mill():
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE customers (id INT PRIMARY KEY, region STRING);
        CREATE TABLE orders (id INT PRIMARY KEY, customer INT, price DECIMAL(10, 2));
        CREATE MATERIALIZED VIEW revenue AS
        SELECT region, count(*) AS n, sum(price) AS total
        FROM orders JOIN customers ON orders.customer = customers.id
        GROUP BY region ORDER BY total DESC
    """)
    return mill


def fill(mill):
    with mill.batch() as batch:
        batch.insert("customers", [(1, "north"), (2, "south")])
        batch.insert("orders", [(10, 1, "120.00"), (11, 2, "80.50"), (12, 2, "19.50")])


def test_a_view_follows_its_tables(mill):
    fill(mill)
    view = mill.view("revenue")
    assert list(view) == [("north", 1, Decimal("120.00")), ("south", 2, Decimal("100.00"))]
    mill.update("orders", [(10, 1, "99.90")])
    mill.delete("orders", [{"id": 12}])
    mill.insert("orders", pandas.DataFrame({"id": [13], "customer": [1], "price": [0.1]}))
    assert list(view) == [("north", 2, Decimal("100.00")), ("south", 1, Decimal("80.50"))]
    assert (len(view), view.version, mill.version) == (2, 4, 4)
    assert mill.verify("revenue")


def test_a_view_created_late_starts_with_what_is_there(mill):
    fill(mill)
    mill.sql("CREATE MATERIALIZED VIEW cheap AS SELECT id FROM orders WHERE price < 100")
    assert sorted(mill.view("cheap")) == [(11,), (12,)]
    assert mill.verify("cheap")


def test_arrow_has_spark_types(mill):
    fill(mill)
    table = mill.view("revenue").to_arrow()
    assert table.schema.field("n") == pa.field("n", pa.int64(), nullable=False)
    assert table.schema.field("total") == pa.field("total", pa.decimal128(20, 2))
    assert table.to_pylist()[0] == {"region": "north", "n": 1, "total": Decimal("120.00")}
    assert list(mill.view("revenue").to_pandas().columns) == ["region", "n", "total"]


def test_every_type_comes_back():
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE t (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(5, 2),
                        i STRING, j BINARY, k DATE, l TIMESTAMP);
        CREATE MATERIALIZED VIEW v AS SELECT * FROM t
    """)
    row = (
        True,
        1,
        2,
        3,
        4,
        0.5,
        0.25,
        Decimal("1.50"),
        "x",
        b"y",
        date(2024, 1, 1),
        pandas.Timestamp("2024-01-01 10:00"),
    )
    mill.insert("t", [row, (None,) * 12])
    types = [pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(5, 2)]
    types += [pa.string(), pa.binary(), pa.date32(), pa.timestamp("us")]
    table = mill.view("v").to_arrow()
    assert table.schema.types == types
    mill.sql("CREATE TABLE copy (" + ", ".join(f"{c.name} {c.type}" for c in mill.tables["t"].columns) + ")")
    mill.insert("copy", table)
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM copy")
    assert sorted(mill.view("w"), key=str) == sorted(mill.view("v"), key=str)


def test_lookup_by_leading_columns(mill):
    fill(mill)
    view = mill.view("revenue")
    assert view["south"] == {"region": "south", "n": 2, "total": Decimal("100.00")}
    assert view["south", 2]["total"] == 100
    with pytest.raises(KeyError):
        view["east"]
    mill.sql("CREATE MATERIALIZED VIEW pairs AS SELECT customer, id FROM orders")
    with pytest.raises(DataError, match="2 rows of view"):
        mill.view("pairs")[2]


def test_limit_and_hidden_order(mill):
    mill.sql("CREATE MATERIALIZED VIEW best AS SELECT id FROM orders ORDER BY price DESC LIMIT 2")
    fill(mill)
    assert list(mill.view("best")) == [(10,), (11,)]
    assert mill.view("best").to_arrow().column_names == ["id"]
    mill.delete("orders", [{"id": 10}])
    assert list(mill.view("best")) == [(11,), (12,)]


STRATEGIES = ("recursive", "first_order", "reevaluate", "auto")


@pytest.mark.parametrize("maintain", STRATEGIES)
def test_views_over_a_limited_view_see_what_its_readers_see(mill, maintain):
    """Two dearest orders, sorted by what they do not show; then a view over that view with a limit of its own."""
    for name, query in {
        "best": "SELECT id FROM orders ORDER BY price DESC, id LIMIT 2",
        "known": "SELECT best.id, region FROM best JOIN orders o ON best.id = o.id JOIN customers c ON c.id = customer",
        "most": "SELECT id FROM best ORDER BY id DESC LIMIT 1 OFFSET 1",
        "number": "SELECT count(*) AS n, sum(id) AS total FROM best",
        "top": "SELECT id FROM most UNION ALL SELECT id FROM best",
    }.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} WITH (maintain = '{maintain}') AS {query}")
    fill(mill)

    def seen():
        assert all(mill.verify(name) for name in mill.views)
        rows = {name: sorted(mill.view(name)) for name in ("best", "known", "most", "number", "top")}
        assert sorted(mill.sql("SELECT id FROM best")) == rows["best"]
        assert sorted(mill.sql("SELECT id FROM best ORDER BY id LIMIT 1")) == rows["best"][:1]
        assert rows["top"] == sorted(rows["most"] + rows["best"])
        assert rows["most"] == rows["best"][:-1]
        return rows["best"], rows["known"], rows["number"]

    assert seen() == ([(10,), (11,)], [(10, "north"), (11, "south")], [(2, 21)])
    mill.delete("orders", [{"id": 10}])  # the next one moves up
    assert seen() == ([(11,), (12,)], [(11, "south"), (12, "south")], [(2, 23)])
    mill.update("orders", [(12, 1, "1000")])  # the same orders, the other way round
    assert seen() == ([(11,), (12,)], [(11, "south"), (12, "north")], [(2, 23)])
    mill.insert("orders", [(1, 1, "80.50"), (2, 1, "0.50")])  # a tie, which the smaller number wins
    assert seen() == ([(1,), (12,)], [(1, "north"), (12, "north")], [(2, 13)])
    mill.delete("orders", [{"id": number} for number in (1, 11, 12)])
    assert seen() == ([(2,)], [(2, "north")], [(1, 2)])


def test_limits_over_many_rows():
    """Enough rows for compiled triggers, beside which the first rows are picked by the interpreter."""
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE t (k INT, v INT);
        CREATE MATERIALIZED VIEW best AS SELECT k FROM t ORDER BY v DESC, k LIMIT 3;
        CREATE MATERIALIZED VIEW over AS SELECT sum(k) AS total FROM best;
        CREATE MATERIALIZED VIEW firsts AS
        SELECT k, (SELECT u.v FROM t u WHERE u.k = t.k ORDER BY u.v LIMIT 1) AS v FROM t GROUP BY k;
        CREATE MATERIALIZED VIEW inside AS SELECT count(*) AS n FROM t WHERE k IN (SELECT k FROM t ORDER BY v LIMIT 2)
    """)
    mill.insert("t", [(i % 50, i) for i in range(2000)])
    assert list(mill.view("over")) == [(49 + 48 + 47,)] and mill.view("firsts")[7] == {"k": 7, "v": 7}
    mill.delete("t", [(49, 1999), (7, 7), (0, 0)])
    assert list(mill.view("over")) == [(48 + 47 + 46,)] and mill.view("firsts")[7] == {"k": 7, "v": 57}
    assert list(mill.view("inside")) == [(80,)]
    assert all(mill.verify(name, by="engine") for name in mill.views)


def test_what_a_view_over_a_limited_view_costs(mill):
    """Only the change of the limited view is a re-evaluation, however that view itself is maintained."""
    mill.sql("""
        CREATE MATERIALIZED VIEW best WITH (maintain = 'reevaluate') AS SELECT id FROM orders ORDER BY price LIMIT 2;
        CREATE MATERIALIZED VIEW whole WITH (maintain = 'reevaluate') AS SELECT id, price FROM orders;
        CREATE MATERIALIZED VIEW known AS SELECT c.region FROM best JOIN customers c ON c.id = best.id;
        CREATE MATERIALIZED VIEW total WITH (maintain = 'incremental') AS SELECT sum(price) AS total FROM whole
    """)
    how = {m.relation: m.how for m in mill.status().view("known").maintenance}
    assert how["best"] == "reevaluate" and how["customers"] != "reevaluate"
    assert {m.how for m in mill.status().view("total").maintenance} != {"reevaluate"}


def test_subscribers_over_a_limited_view_see_the_change_within_it(mill):
    seen = []
    mill.sql("CREATE MATERIALIZED VIEW best AS SELECT id FROM orders ORDER BY price DESC LIMIT 2")
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT id + 1 AS next FROM best")
    fill(mill)
    mill.view("over").subscribe(seen.append)
    mill.insert("orders", [(13, 1, "1.00")])
    mill.delete("orders", [{"id": 10}])
    assert seen == [Changes(3, added=((13,),), removed=((11,),))]


def test_a_view_over_nothing_of_a_view(mill):
    mill.sql("CREATE MATERIALIZED VIEW none AS SELECT id FROM orders ORDER BY price LIMIT 0")
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT id FROM none")
    fill(mill)
    assert list(mill.view("over")) == [] == list(mill.sql("SELECT id FROM none"))


def test_inserting_the_first_rows_of_a_query(mill):
    fill(mill)
    mill.sql("CREATE MATERIALIZED VIEW best AS SELECT id FROM orders ORDER BY price DESC LIMIT 1")
    mill.sql("INSERT INTO orders SELECT id + 100, customer, price FROM orders ORDER BY price LIMIT 1")
    mill.sql("INSERT INTO customers SELECT id, 'best' FROM best")
    assert sorted(mill.sql("SELECT id FROM orders")) == [(10,), (11,), (12,), (112,)]
    assert sorted(mill.sql("SELECT id FROM customers")) == [(1,), (2,), (10,)]


def test_duplicates_are_repeated():
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    mill.insert("t", [(1,), (1,), (None,), (None,)])
    mill.delete("t", [(1,), (None,)])
    assert sorted(mill.view("v"), key=str) == [(1,), (None,)]
    mill.insert("t", [(1,)])
    assert mill.view("v").to_arrow().num_rows == 3


def test_views_over_views(mill):
    mill.sql("""
        CREATE MATERIALIZED VIEW big AS SELECT region AS place, total * 2 AS twice FROM revenue WHERE n > 1;
        CREATE MATERIALIZED VIEW top (best) AS SELECT max(twice) FROM big
    """)
    fill(mill)
    assert list(mill.view("big")) == [("south", Decimal("200.00"))]
    assert mill.view("top").to_dicts() == [{"best": Decimal("200.00")}]
    mill.insert("orders", [(13, 1, "1000")])
    mill.update("customers", [(2, "north")])
    assert list(mill.view("top")) == [(Decimal("2440.00"),)]
    assert all(mill.verify(name) for name in mill.views)


def test_subscribers_see_the_change_of_the_output(mill):
    fill(mill)
    seen: list[Changes] = []
    end = mill.view("revenue").subscribe(seen.append)
    mill.update("orders", [(12, 2, "20.00")])
    assert seen == [Changes(2, (("south", 2, Decimal("100.50")),), (("south", 2, Decimal("100.00")),))]
    mill.insert("orders", [(99, 77, 1)])  # joins with nobody
    assert len(seen) == 1
    end()
    end()
    mill.delete("orders", [{"id": 10}])
    assert len(seen) == 1


def test_subscribers_of_a_limited_view_see_what_readers_see(mill):
    fill(mill)
    mill.sql("CREATE MATERIALIZED VIEW best AS SELECT id FROM orders ORDER BY price DESC LIMIT 1")
    seen: list[Changes] = []
    mill.view("best").subscribe(seen.append)
    mill.insert("orders", [(13, 1, "1.00")])
    assert seen == []
    mill.insert("orders", [(14, 1, "999.00")])
    assert seen == [Changes(3, ((14,),), ((10,),))]


def test_a_failing_subscriber_does_not_undo_the_batch(mill):
    seen: list[Changes] = []
    mill.view("revenue").subscribe(lambda changes: 1 / 0)
    mill.view("revenue").subscribe(seen.append)
    with pytest.raises(ExceptionGroup, match="the batch was committed"):
        fill(mill)
    assert mill.version == 1 and len(seen) == 1 and mill.verify("revenue")


def test_a_batch_is_in_order_and_atomic(mill):
    with mill.batch() as batch:
        batch.insert("orders", [(1, 1, 5)])
        batch.update("orders", [(1, 2, 6)])
        batch.insert("orders", [(2, 1, 7)])
        batch.delete("orders", [(2, 1, 7)])
    assert mill.sql("SELECT * FROM orders").rows == ((1, 2, Decimal("6.00")),)
    with pytest.raises(RuntimeError), mill.batch() as batch:
        batch.insert("orders", [(3, 1, 5)])
        raise RuntimeError
    with pytest.raises(DataError), mill.batch() as batch:
        batch.insert("orders", [(3, 1, 5)])
        batch.insert("customers", [(1, "x"), (1, "y")])
    assert mill.version == 1 and len(mill.sql("SELECT * FROM orders")) == 1
    with pytest.raises(DataError, match="this batch has ended"):
        batch.insert("orders", [(3, 1, 5)])


def test_a_batch_that_changes_nothing_is_no_version(mill):
    mill.insert("orders", [])
    with mill.batch() as batch:
        batch.insert("orders", [(1, 1, 5)])
        batch.delete("orders", [(1, 1, 5)])
    assert mill.version == 0


def test_a_batch_notices_that_it_is_out_of_date(mill):
    with pytest.raises(DataError, match="changed while this batch was open"), mill.batch() as batch:
        batch.insert("orders", [(1, 1, 5)])
        mill.insert("orders", [(1, 1, 6)])
    assert mill.sql("SELECT price FROM orders").rows == ((Decimal("6.00"),),)


def test_an_error_of_the_engine_rejects_the_batch():
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT, b INT); CREATE MATERIALIZED VIEW v AS SELECT a div b AS q FROM t")
    mill.insert("t", [(6, 2)])
    with pytest.raises(DataError, match="division by zero"):
        mill.insert("t", [(9, 3), (1, 0)])
    assert list(mill.view("v")) == [(3,)] and len(mill.sql("SELECT * FROM t")) == 1 and mill.version == 1
    mill.insert("t", [(9, 3)])
    assert sorted(mill.view("v")) == [(3,), (3,)]


def test_streams_only_grow():
    mill = viewmill.connect()
    mill.sql("CREATE STREAM s (a INT); CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS total FROM s")
    mill.insert("s", [(1,), (2,)])
    assert list(mill.view("v")) == [(3,)]
    with pytest.raises(BindError, match='cannot delete from stream "s"'):
        mill.delete("s", [(1,)])
    with pytest.raises(UnsupportedError, match="are not kept"):
        mill.sql("SELECT * FROM s")
    with pytest.raises(UnsupportedError, match="are not kept"):
        mill.verify("v")
    with pytest.raises(UnsupportedError, match="would miss the rows"):
        mill.sql("CREATE MATERIALIZED VIEW late AS SELECT count(*) AS n FROM s")


def test_what_is_not_stored_is_trusted():
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE t (id INT PRIMARY KEY, a INT) WITH (stored = false);
        CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(a) AS total FROM t
    """)
    mill.insert("t", [(1, 10), (2, 20)])
    mill.delete("t", [(1, 10)])
    assert list(mill.view("v")) == [(1, 20)]
    with pytest.raises(BindError, match="its rows are not kept"):
        mill.update("t", [(2, 5)])
    with pytest.raises(DataError, match="by key"):
        mill.delete("t", [{"id": 2}])


def test_select(mill):
    fill(mill)
    answer = mill.sql("SELECT region, n FROM revenue WHERE n > 1")
    assert answer.rows == (("south", 2),)
    assert answer.to_arrow().to_pydict() == {"region": ["south"], "n": [2]}
    assert mill.sql("SELECT count(*) FROM orders o JOIN customers c ON o.customer = c.id").rows == ((3,),)
    assert mill.sql("SELECT id, id FROM orders ORDER BY price LIMIT 1").rows == ((12, 12),)
    assert mill.sql("CREATE TABLE other (a INT)").columns == ()


def test_explain(mill):
    assert "GROUP BY region" in mill.explain("revenue", stage="sql")
    assert "d_orders(" in mill.explain("revenue", stage="delta")
    assert "on customers:" in mill.explain("Revenue")
    for stage in ("sql", "bound", "algebra", "delta", "program"):
        assert mill.explain("revenue", stage=stage)


def test_explain_in_sql(mill):
    for stage in ("sql", "bound", "algebra", "delta", "program"):
        assert mill.sql(f"EXPLAIN {stage} revenue").rows == ((mill.explain("revenue", stage=stage),),)
    assert "on orders:" in mill.sql("EXPLAIN SELECT sum(price) AS s FROM orders").rows[0][0]
    assert mill.views == ("revenue",)


def test_sql_changes(mill):
    mill.sql("INSERT INTO orders VALUES (1, 1, 5), (2, 1, 7.5); INSERT INTO orders (id, price) VALUES (3, 1)")
    assert sorted(mill.sql("SELECT * FROM orders")) == [
        (1, 1, Decimal("5.00")),
        (2, 1, Decimal("7.50")),
        (3, None, Decimal("1.00")),
    ]
    mill.sql("UPDATE orders SET price = price * 2 WHERE customer = 1")
    mill.sql("DELETE FROM orders WHERE price > 10")
    assert sorted(mill.sql("SELECT id, price FROM orders")) == [(1, Decimal("10.00")), (3, Decimal("1.00"))]
    mill.sql("INSERT INTO orders SELECT id + 10, customer, price FROM orders")
    assert sorted(mill.sql("SELECT id FROM orders")) == [(1,), (3,), (11,), (13,)]
    with pytest.raises(DataError, match="two rows with primary key id = 1"):
        mill.sql("INSERT INTO orders VALUES (1, 9, 9)")
    mill.sql("DELETE FROM orders")
    assert len(mill.sql("SELECT * FROM orders")) == 0


def test_status_says_how_and_why(mill):
    fill(mill)
    status = mill.status()
    assert status.version == 1
    assert [(r.name, r.rows) for r in status.relations] == [("customers", 2), ("orders", 3)]
    view = status.view("revenue")
    assert view.rows == 2 and {line.relation for line in view.maintenance} == {"customers", "orders"}
    assert all(line.how and line.reason for line in view.maintenance)
    assert status.stores and all(store.rows >= 0 for store in status.stores)
    assert "revenue" in str(status) and max(map(len, str(status).splitlines())) <= 80


def test_verify_finds_what_differs(mill):
    fill(mill)
    mill._definitions.tables["orders"].rows.popitem()
    check = mill.verify("revenue")
    assert not check
    assert check.missing == {("south", 1, Decimal("80.50")): 1}
    assert check.extra == {("south", 2, Decimal("100.00")): 1}
    assert "extra   1 x ('south', 2," in str(check)


def test_what_is_not_there_yet_is_refused():
    with pytest.raises(UnsupportedError, match="is not there yet"):
        viewmill.connect("somewhere")


@pytest.mark.parametrize("arguments", [{"checkpoint": "x"}, {"buckets": 2}])
def test_what_belongs_to_spark(arguments):
    with pytest.raises(BindError, match="belong to a mill on Spark"):
        viewmill.connect(**arguments)


def test_columns_may_take_the_names_of_other_columns():
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE t (a INT, b INT);
        CREATE MATERIALIZED VIEW swapped AS SELECT b AS a, a AS b FROM t;
        CREATE MATERIALIZED VIEW shadowed AS SELECT a AS b FROM t WHERE b > 1;
        CREATE MATERIALIZED VIEW above AS SELECT a - b AS b, b AS c FROM swapped
    """)
    mill.insert("t", [(1, 10), (2, 1)])
    assert sorted(mill.view("swapped")) == [(1, 2), (10, 1)]
    assert sorted(mill.view("shadowed")) == [(1,)]
    assert sorted(mill.view("above")) == [(-1, 2), (9, 1)]
    assert all(mill.verify(name) for name in mill.views)


def test_a_view_over_a_view_that_sorts_by_a_hidden_column():
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE t (a INT, b INT);
        CREATE MATERIALIZED VIEW sorted AS SELECT a FROM t ORDER BY b DESC;
        CREATE MATERIALIZED VIEW counted AS SELECT a, count(*) AS n FROM sorted GROUP BY a
    """)
    mill.insert("t", [(1, 1), (1, 2), (2, 3)])
    assert list(mill.view("sorted")) == [(2,), (1,), (1,)]
    assert sorted(mill.view("counted")) == [(1, 2), (2, 1)]
    mill.sql("CREATE MATERIALIZED VIEW late AS SELECT a, count(*) AS n FROM sorted GROUP BY a")
    mill.delete("t", [(1, 2)])
    assert sorted(mill.view("counted")) == sorted(mill.view("late")) == [(1, 1), (2, 1)]
    seen: list[Changes] = []
    mill.view("sorted").subscribe(seen.append)
    with mill.batch() as batch:  # the hidden column changes, and nothing that readers see
        batch.delete("t", [(2, 3)])
        batch.insert("t", [(2, 9)])
    assert seen == []
    assert all(mill.verify(name) and mill.verify(name, by="engine") for name in mill.views)


def test_a_view_that_fails_on_the_rows_there_are_is_not_created():
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a INT)")
    mill.insert("t", [(0,)])
    with pytest.raises(DataError, match="division by zero"):
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT 1 div a AS q FROM t")
    assert mill.views == ()
    mill.delete("t", [(0,)])
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT 1 div a AS q FROM t")
    mill.insert("t", [(1,)])
    assert list(mill.view("v")) == [(1,)]


def test_nan_is_one_value():
    mill = viewmill.connect()
    mill.sql("CREATE TABLE t (a DOUBLE); CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
    mill.insert("t", [(float("nan"),), (float("nan"),), (None,)])
    mill.delete("t", pandas.DataFrame({"a": [float("nan")]}))
    assert sorted((str(a), n) for a, n in mill.view("v")) == [("None", 1), ("nan", 1)]
    assert mill.verify("v")


def test_a_table_may_be_called_query():
    mill = viewmill.connect()
    mill.sql("CREATE TABLE query (a INT); INSERT INTO query VALUES (1), (2)")
    assert mill.sql("SELECT sum(a) AS s FROM query").rows == ((3,),)


def test_dialects():
    mill = viewmill.connect(dialect="duckdb")
    mill.sql("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (7)")
    assert mill.sql("SELECT a // 2 AS half FROM t").to_dicts() == [{"half": 3}]
