"""Places asked for, views over views, what a plan leaves out, and how it reads."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from distribute.stories import Change, changes, compiled, wrong
from workload import SUITE

import viewmill
from viewmill.algebra.nodes import Relation
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


TWO = (
    "CREATE TABLE shop (s BIGINT NOT NULL PRIMARY KEY, city STRING NOT NULL)",
    "CREATE TABLE sale (i BIGINT NOT NULL PRIMARY KEY, s BIGINT NOT NULL, price BIGINT NOT NULL)",
)


@pytest.mark.parametrize(
    ("known", "place"),
    [
        ({}, Buckets(("s",))),
        ({"shop": 20, "sale": 90_000}, Everywhere()),
        ({"shop": 90_000, "sale": 20_000}, Buckets(("s",))),
        ({"shop": 2, "sale": 900}, Buckets(("s",))),
        ({"sale": 90_000}, Buckets(("s",))),
        ({"shop": 20}, Buckets(("s",))),
        ({"shop": 0, "sale": 90_000}, Buckets(("s",))),
    ],
    ids=["nothing", "small", "large", "few", "of one", "of the other", "empty"],
)
def test_counts_of_all_tables_tell_which_is_small(known, place):
    """Where they are not of all, or of few rows, tables are as large as their keys say."""
    by_city = "SELECT city, sum(price) AS total FROM shop JOIN sale USING (s) GROUP BY city"
    program, catalog = compiled(TWO, {"v": by_city}, "first_order")
    places = distribute(program, catalog, known=known).places
    assert {places[name] for name, store in program.stores.items() if store.keys[:1] == ("s",)} == {place}


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


WIDE = "SELECT city, sum(n * price) AS v FROM purchase NATURAL JOIN customer JOIN line USING (p) GROUP BY city"
NARROW = "SELECT city, count(*) AS v FROM purchase NATURAL JOIN customer GROUP BY city"


def shop_story(seed: int) -> Iterator[Change]:
    """Rows of all three tables come and go."""
    random, there = Random(seed), {"customer": {}, "purchase": {}, "line": {}}
    for _ in range(6):
        batch: Change = {name: {} for name in there}
        for name, rows in there.items():
            for key in random.sample(range(12), 5):
                if key in rows:
                    batch[name][rows.pop(key)] = -1
                if random.random() < 0.8:
                    few = random.randrange(4), random.randrange(1, 9)
                    new = {"customer": (key, f"city {few[0]}"), "purchase": (key, *few), "line": (key % 6, key, few[1])}
                    rows[key] = new[name]
                    batch[name][rows[key]] = batch[name].get(rows[key], 0) + 1
        yield batch


def kept_of(relation: str, views: dict[str, str], **options: Any) -> set[tuple[str, ...]]:
    """The keys of the copies of a relation that are in buckets. What is distributed is tried, too."""
    program, catalog = compiled(SHOP, views, "first_order")
    distributed = distribute(program, catalog, known={"customer": 10, "purchase": 10_000, "line": 90_000}, **options)
    assert not wrong(program, catalog, distributed, shop_story(3))
    stores = (store for store in distributed.buckets.stores.values() if isinstance(store.definition, Relation))
    return {store.keys for store in stores if store.definition.name == relation}


def test_a_copy_that_a_wider_one_has_as_well_is_not_kept():
    views = {"wide": WIDE, "narrow": NARROW}
    assert kept_of("purchase", {"narrow": NARROW}) == {("p", "c")}
    assert kept_of("purchase", views) == {("p", "c", "price")}
    assert kept_of("purchase", views, passes=("push_down", "fuse")) == {("p", "c"), ("p", "c", "price")}


def test_a_copy_stays_if_it_lives_elsewhere_or_is_looked_up_by_all_its_fields():
    both = {("p", "c"), ("p", "c", "price")}
    assert kept_of("purchase", {"wide": WIDE, "narrow": NARROW}, chosen={"purchase": Everywhere()}) == both
    looked_up = "SELECT i, count(*) AS v FROM line JOIN purchase USING (p) GROUP BY i"
    assert kept_of("purchase", {"wide": WIDE, "v": looked_up}) == {("p",), ("p", "c", "price")}


def test_rows_with_the_same_in_two_columns_are_no_copy():
    ddl = (
        "CREATE TABLE r (a INT PRIMARY KEY, c INT NOT NULL, e INT NOT NULL)",
        "CREATE TABLE t (b INT NOT NULL, v INT NOT NULL)",
        "CREATE TABLE u (b INT NOT NULL, v INT NOT NULL)",
    )
    views = {
        "w": "SELECT r.a, r.c, r.e, u.v FROM r JOIN u ON r.c = u.b",
        "q": "SELECT t.v, x.n FROM t LEFT JOIN (SELECT a, c, e AS n FROM r) x ON x.a = t.b AND x.c = t.b",
    }
    program, catalog = compiled(ddl, views, "recursive")
    story: list[Change] = [
        {"r": {(1, 1, 5): 1, (2, 1, 7): 1, (3, 1, 4): 1}, "u": {(1, 1): 1}},
        {"t": {(1, 9): 1, (2, 3): 1, (3, 3): 1}},
        {"r": {(1, 1, 5): -1, (4, 4, 1): 1}},
    ]
    distributed = distribute(program, catalog, known={"r": 3, "t": 100_000, "u": 100_000})
    assert not wrong(program, catalog, distributed, iter(story))


@pytest.mark.parametrize("strategy", ["auto", "first_order"])
def test_who_reads_a_copy_does_so_before_the_wider_one_changes(strategy):
    """A self join reads what was there before the batch."""
    ddl = (
        "CREATE TABLE r (g INT, k INT, a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (g, k)) PARTITION BY (g)",
        "CREATE TABLE s (g INT NOT NULL, v INT NOT NULL) PARTITION BY (g)",
    )
    views = {
        "w": "SELECT r.g, sum(r.a * s.v + r.b) AS t FROM r JOIN s ON r.g = s.g WHERE s.v < r.a GROUP BY r.g",
        "n": "SELECT x.g, count(*) AS t FROM r x JOIN r y ON x.g = y.g WHERE x.a <> y.a AND x.k <> y.k GROUP BY x.g",
    }
    program, catalog = compiled(ddl, views, strategy)
    distributed = distribute(program, catalog)
    assert len(distributed.buckets.stores) < len(program.stores)
    story: list[Change] = [
        {"r": {(1, 1, 5, 6): 1, (1, 2, 7, 8): 1}, "s": {(1, 1): 1}},
        {"r": {(1, 3, 9, 1): 1}},
        {"r": {(1, 1, 5, 6): -1}},
    ]
    assert not wrong(program, catalog, distributed, iter(story))


def test_a_copy_without_the_key_stays():
    """It has fewer rows: whoever looks up some of them would find more in the other."""
    rows = "SELECT p, c, price, city FROM purchase NATURAL JOIN customer"
    prices = "SELECT city, price, count(*) AS v FROM purchase NATURAL JOIN customer GROUP BY city, price"
    program, catalog = compiled(SHOP, {"rows": rows, "prices": prices}, "recursive")
    copies = {name: store.keys for name, store in program.stores.items() if isinstance(store.definition, Relation)}
    distributed = distribute(program, catalog, chosen=dict.fromkeys(copies, Buckets(("c",))))
    assert {("p", "c", "price"), ("c", "price")} <= set(copies.values())
    assert copies.keys() <= distributed.buckets.stores.keys()


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
        assert first == "a change of line, purchase: 1 job, 3 stages"
        assert "  look up rows of line, purchase, and go on with what changes as their source" in lines
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
