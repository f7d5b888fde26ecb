"""Places asked for, views over views, what a plan leaves out, and how it reads."""

from __future__ import annotations

import pytest
from distribute.stories import Change, changes, compiled, wrong
from workload import SUITE

import viewmill
from viewmill.algebra.text import show
from viewmill.distribute import distribute, plan
from viewmill.distribute.nodes import Buckets, Driver, Everywhere, Here
from viewmill.distribute.text import show_blocks

DDL = tuple(table.ddl for table in SUITE)
SHOP = (
    "CREATE TABLE customer (c BIGINT NOT NULL PRIMARY KEY, city STRING NOT NULL)",
    "CREATE TABLE purchase (p BIGINT NOT NULL PRIMARY KEY, c BIGINT NOT NULL, price BIGINT NOT NULL)",
    "CREATE TABLE line (p BIGINT NOT NULL, i BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (p, i))",
)
BY_CITY = "SELECT city, sum(n * price) AS total FROM customer NATURAL JOIN purchase JOIN line USING (p) GROUP BY city"


def test_views_over_views_follow_on_the_driver():
    views = {
        "per_dept": "SELECT dept, count(*) AS n, sum(salary) AS total FROM emp GROUP BY dept",
        "large": "SELECT d.name, p.total FROM per_dept p JOIN dept d ON p.dept = d.id WHERE p.n > 1",
        "how_many": "SELECT count(*) AS n, max(total) AS most FROM large",
    }
    program, catalog = compiled(DDL, views)
    distributed = distribute(program, catalog)
    assert set(distributed.views.values()) == {Driver()}
    assert any("read by other views" in reason for reason in distributed.reasons.values())
    assert not wrong(program, catalog, distributed, changes(SUITE, 3))


def test_a_place_asked_for_is_taken():
    program, catalog = compiled(SHOP, {"v": BY_CITY})
    assert distribute(program, catalog).places["v"] == Driver()
    assert distribute(program, catalog, chosen={"v": Buckets(("city",))}).places["v"] == Buckets(("city",))
    asked = distribute(program, catalog, chosen={"customer": Everywhere()}).places
    kept = [
        name for name, store in program.stores.items() if store.name.endswith("customer") and store.keys[:1] == ("c",)
    ]
    assert kept and all(asked[name] == Everywhere() for name in kept)


def test_a_place_that_cannot_be_had_is_refused_with_a_reason():
    """All employees are compared with one maximum: rows in buckets would not know it."""
    program, catalog = compiled(DDL, {"v": "SELECT id FROM emp ORDER BY salary DESC, id LIMIT 3"})
    limited = [name for name, store in program.stores.items() if "TopK" in str(store.definition)]
    chosen = {name: Buckets((program.stores[name].keys[0],)) for name in program.stores}
    distributed = distribute(program, catalog, chosen=chosen)
    assert not wrong(program, catalog, distributed, changes(SUITE, 4))
    for name in limited:
        assert distributed.places[name] == Driver() and distributed.reasons[name]


def test_a_batch_of_one_relation_leaves_the_others_out():
    program, catalog = compiled(SHOP, {"v": BY_CITY})
    distributed = distribute(program, catalog)
    for relation in program.triggers:
        alone = plan(distributed, (relation,))
        assert {send.source for send in alone.blocks[0].sends if send.incoming} == {relation}
        assert alone.stages <= plan(distributed, tuple(program.triggers)).stages
    assert plan(distributed, ()).stages == 1 and not plan(distributed, ()).blocks[0].sends


def test_what_waits_for_a_later_block_stays_in_its_bucket():
    """Without copies of customers, purchases meet them first: lines of the same batch may have to wait."""
    program, catalog = compiled(SHOP, {"v": BY_CITY}, "recursive")
    distributed = distribute(program, catalog, passes=(), small=0)
    sends = [send for block in plan(distributed, tuple(program.triggers)).blocks for send in block.sends]
    assert any(send.to == Here() for send in sends)


def test_rows_that_nobody_counts_do_not_travel():
    program, catalog = compiled(SHOP, {"v": "SELECT p, sum(n) AS n FROM line WHERE n > 3 OR i = 1 GROUP BY p"})
    (send,) = distribute(program, catalog).incoming
    assert send.info.names == ("p", "i", "n") and len(send.where) == 1
    assert not distribute(program, catalog, passes=("push_down", "fuse")).incoming[0].where


def test_rows_that_the_source_does_not_look_at_are_named():
    """They are filtered by Spark, before Python adds up the others."""
    views = {
        "cheap": "SELECT sum(price) AS total FROM purchase WHERE price < 10 AND p > 0",
        "dear": "SELECT count(*) AS n FROM purchase WHERE price > 100 AND p > 0",
    }
    program, catalog = compiled(SHOP, views)
    distributed = distribute(program, catalog)
    shared, either = map(show, distributed.looked_at["purchase"])
    assert shared == "{p > 0}" and set(either.strip("{}").split(" or ")) == {"price < 10", "price > 100"}
    assert f"where {shared} and {either}:" in show_blocks(distributed, plan(distributed, ("purchase",)))
    assert not distribute(program, catalog, passes=("push_down", "fuse")).looked_at["purchase"]
    assert not wrong(program, catalog, distributed, changes(SUITE, 4))


@pytest.mark.parametrize("stage", ["placed", "blocks"])
def test_explain(stage):
    mill = viewmill.connect()
    for statement in SHOP:
        mill.sql(statement)
    mill.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT p, sum(n * price) AS total FROM purchase JOIN line USING (p) GROUP BY p"
    )
    text = mill.explain("v", stage=stage)
    if stage == "placed":
        assert text.startswith("view v: buckets by p\n") and "store v(p)" in text
    else:
        first, *lines = text.splitlines()
        assert first == "a change of line, purchase: 1 job, 2 stages"
        assert "  send line(p, n) to buckets by p as `line@p`" in lines
        assert lines.index("source:") < lines.index("block 1, in buckets:") < lines.index("  on `line@p`:")


def test_a_change_of_which_nothing_is_left_is_a_change():
    """As many rows are added as are taken away: their number does not change, and what it is taken from does."""
    views = {
        "pairs": "WITH z AS (SELECT * FROM r ORDER BY a DESC LIMIT 6) SELECT x.a, y.b FROM z x JOIN z y ON x.b = y.a",
        "some": "SELECT v FROM (SELECT col1 AS v FROM VALUES (3), (1), (2) ORDER BY 1 LIMIT 2) z JOIN r ON r.a = z.v",
        "how_many": "SELECT count(*) AS n FROM (SELECT a FROM r LIMIT 3) z",
    }
    program, catalog = compiled(("CREATE TABLE r (a INT, b INT)",), views)
    distributed = distribute(program, catalog)
    assert distributed.views["how_many"] == Driver() and isinstance(distributed.views["some"], Buckets)
    story: list[Change] = [{"r": {(i, 0): 1 for i in range(5)}}, {"r": {(0, 0): -1, (9, 0): 1}}]
    assert not wrong(program, catalog, distributed, iter(story), buckets=1)


def test_what_is_made_once_for_two_stores_goes_where_each_of_them_is():
    """The first one has named its columns, of which the second one has other names for."""
    dept = "CREATE TABLE dept (id INT NOT NULL, name STRING, budget INT)"
    view = """
    SELECT min(d4.id) FILTER (WHERE d1.name > 'bob') AS m FROM dept d1 JOIN r ON d1.id = r.b
    JOIN dept d3 ON d1.budget = d3.budget JOIN dept d4 ON d1.budget = d4.budget
    """
    program, catalog = compiled(("CREATE TABLE r (a INT, b INT)", dept), {"v": view}, "recursive")
    distributed = distribute(program, catalog, chosen={"M_dept": Buckets(("budget",))})
    row = {number: (number, "ops", 99) for number in (3, 4)}
    story: list[Change] = [{"dept": {row[3]: 1}}, {"dept": {row[4]: 1}}, {"r": {(1, 4): 1}}, {"dept": {row[3]: -1}}]
    assert not wrong(program, catalog, distributed, iter(story), buckets=2)
