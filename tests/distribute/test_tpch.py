"""The 22 TPC-H queries, distributed: every store and view as in the undistributed program, in no more rounds than
the paper needs (Hot Dog, table 3)."""

from __future__ import annotations

from itertools import combinations

import pytest
from distribute.stories import distributed_at_random, tpch_changes, tpch_program, wrong

from viewmill.algebra.nodes import Relation
from viewmill.algebra.schema import relations
from viewmill.bench.reference import SPARK_JOBS, SPARK_STAGES
from viewmill.distribute import ALL_PASSES, distribute, plan
from viewmill.distribute.copies import Copies
from viewmill.distribute.nodes import Buckets, Driver, Everywhere
from viewmill.distribute.places import SMALL
from viewmill.distribute.waits import Waits
from viewmill.program.nodes import Program, Store

NUMBERS = range(1, 23)
SCALE_ONE = {
    "region": 5,
    "nation": 25,
    "supplier": 10_000,
    "customer": 150_000,
    "part": 200_000,
    "partsupp": 800_000,
    "orders": 1_500_000,
    "lineitem": 6_000_000,
}
SIZES = pytest.mark.parametrize("known", [{}, SCALE_ONE], ids=["guessed", "known"])


@pytest.mark.parametrize("number", NUMBERS)
@SIZES
def test_no_more_rounds_than_the_paper(number, known):
    program, catalog = tpch_program((number,))
    distributed = distribute(program, catalog, known=known)
    everything = plan(distributed, tuple(program.triggers))
    assert everything.jobs <= SPARK_JOBS[number - 1] and everything.stages <= SPARK_STAGES[number - 1]


@pytest.mark.slow
@SIZES
def test_all_queries_together_take_no_more_rounds_than_the_longest(known):
    program, catalog = tpch_program(tuple(NUMBERS))
    everything = plan(distribute(program, catalog, known=known), tuple(program.triggers))
    assert (everything.jobs, everything.stages) == (1, 3)


@pytest.mark.slow
@SIZES
def test_what_follows_items_is_copied_only_where_it_is_compared_with_all_of_them(known):
    """The most that a supplier has sold (Q15); every bucket would do the work of all for what is copied with it."""
    program, catalog = tpch_program(tuple(NUMBERS))
    places = distribute(program, catalog, known=known).places
    items = {name for name, store in program.stores.items() if relations(store.definition) == {"lineitem"}}
    copied = {name for name in items & places.keys() if places[name] == Everywhere()}
    assert copied <= relations(program.views["q15"].output) and len(items) > 20


def copies_of_items(program: Program) -> dict[str, Store]:
    copies = {name: s for name, s in program.stores.items() if isinstance(s.definition, Relation)}
    return {name: store for name, store in copies.items() if relations(store.definition) == {"lineitem"}}


@pytest.mark.slow
@pytest.mark.parametrize("small", [0.03, SMALL], ids=["parts in buckets", "parts everywhere"])
def test_views_share_their_copies_of_items(small, monkeypatch):
    """Q5, Q8 and Q9 join items with much else; each keeps those that it needs, and together they keep those of Q9.

    If parts are everywhere, Q9 would look at items when Q8 has taken the change; it can also do so before.
    """
    program, catalog = tpch_program((5, 8, 9))
    items = copies_of_items(program)
    distributed = distribute(program, catalog, known=SCALE_ONE, small=small)
    (kept,) = items.keys() & distributed.buckets.stores.keys()
    assert len(items) == 3 and len(items[kept].keys) == max(len(store.keys) for store in items.values())
    monkeypatch.setattr(Copies, "_wider", lambda self, units: {})
    apart = distribute(program, catalog, known=SCALE_ONE, small=small)
    assert items.keys() <= apart.buckets.stores.keys()
    assert plan(distributed, tuple(program.triggers)).stages == plan(apart, tuple(program.triggers)).stages
    assert not wrong(program, catalog, distributed, tpch_changes())


@pytest.mark.slow
def test_a_copy_that_somebody_would_wait_for_is_kept(monkeypatch):
    """Q9 looks at offers late, since nations and suppliers are in buckets; Q16 has a copy that it need not wait for.

    In a batch of everything there is so much else to wait for that it would not matter.
    """
    program, catalog = tpch_program((8, 9, 16))
    everything = tuple(program.triggers)
    some = [names for count in (1, 2, 7) for names in combinations(everything, count)]

    def stages() -> tuple[list[int], int, int]:
        found = distribute(program, catalog, small=0.005)
        assert not wrong(program, catalog, found, tpch_changes())
        return [plan(found, names).stages for names in some], plan(found, everything).stages, len(found.places)

    careful, all_, stores = stages()
    with monkeypatch.context() as patch:
        patch.setattr(Waits, "can_be_one", lambda self, stores, other, relation: True)
        careless, same, fewer = stages()
        assert any(more > least for more, least in zip(careless, careful, strict=True)) and same == all_
        assert fewer < stores
    monkeypatch.setattr(Copies, "_wider", lambda self, units: {})
    apart, same, more = stages()
    assert (careful, all_) == (apart, same) and stores < more


def test_rows_that_wait_for_others_are_filtered_where_they_come_in():
    """Of the items that Q20 looks at on the driver, those of one year travel."""
    program, catalog = tpch_program((20,))
    (send,) = (send for send in distribute(program, catalog).incoming if send.info.name == "lineitem@driver")
    assert len(send.where) == 2


@pytest.mark.parametrize("number", NUMBERS)
def test_distributed_equals_undistributed(number):
    program, catalog = tpch_program((number,))
    assert not wrong(program, catalog, distribute(program, catalog, known=SCALE_ONE), tpch_changes())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "passes", [(), ALL_PASSES[:-1], ("fuse",), ALL_PASSES], ids=lambda names: ",".join(names) or "no"
)
@pytest.mark.parametrize("number", NUMBERS)
def test_passes_change_nothing_but_the_cost(number, passes):
    program, catalog = tpch_program((number,))
    assert not wrong(program, catalog, distribute(program, catalog, passes=passes), tpch_changes(2), buckets=4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", ["recursive", "first_order"])
@pytest.mark.parametrize("number", NUMBERS)
def test_every_strategy(number, strategy):
    program, catalog = tpch_program((number,), strategy)
    assert not wrong(program, catalog, distribute(program, catalog), tpch_changes(3), late=True)


@pytest.mark.slow
@SIZES
def test_all_queries_together(known):
    program, catalog = tpch_program(tuple(NUMBERS))
    assert not wrong(program, catalog, distribute(program, catalog, known=known), tpch_changes(4))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", NUMBERS)
def test_stores_anywhere(number, seed):
    program, catalog = tpch_program((number,), ("auto", "recursive", "first_order")[seed])
    distributed = distributed_at_random(program, catalog, 100 * number + seed)
    assert not wrong(program, catalog, distributed, tpch_changes(seed), buckets=2 + seed)


def test_places_follow_the_paper():
    """Orders and their lines meet by the order's key, small relations are everywhere, totals are on the driver."""
    program, catalog = tpch_program((4, 5, 18))
    places = distribute(program, catalog, known=SCALE_ONE).places
    assert places["M_orders"] == Buckets(("o_orderkey",)) and places["M_lineitem"] == Buckets(("l_orderkey",))
    assert places["nation"] == places["supplier"] == Everywhere()
    assert places["q4"] == places["q5"] == Driver()


def test_without_passes_there_are_more_rounds():
    program, catalog = tpch_program((3,))
    stages = {}
    for left_out in ("", *ALL_PASSES):
        passes = [name for name in ALL_PASSES if name != left_out]
        distributed = distribute(program, catalog, passes=passes, small=0)
        stages[left_out] = plan(distributed, tuple(program.triggers)).stages
    assert stages[""] == 3 and stages["fuse"] > 3
    assert all(stages[name] >= stages[""] for name in ALL_PASSES)
