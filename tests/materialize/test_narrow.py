"""Sets that are kept are compared at the keys that moved."""

from __future__ import annotations

import pytest

import viewmill
from viewmill.algebra.text import parse, show
from viewmill.materialize.narrow import narrow

OFFERS = "Exists(Sum[s](Exists(d_offer(p, s))))"
CHANGE = "Sum[b](Exists(After(M(b, s))) * {offers}) + Sum[b](-1 * Exists({before}(b, s)) * {offers})"
TWO = "Sum[b](Exists(After(M(b, s))) * Exists(After(N(s)))) + Sum[b](-1 * Exists(M(b, s)) * Exists(N(s)))"
MIXED = "Exists(After(M(b))) * Exists(After(N(b))) + -1 * Exists(After(N(b))) + -1 * Exists(M(b)) * Exists(N(b))"
BOTH = CHANGE.format(offers=OFFERS, before="M")


def test_the_change_of_the_store_takes_the_place_of_the_domain():
    assert show(narrow(parse(BOTH), {"M"})) == (
        "Sum[b](Exists(d_M(b, s)) * Exists(After(M(b, s)))) + Sum[b](-1 * Exists(d_M(b, s)) * Exists(M(b, s)))"
    )


def test_other_factors_stay():
    more = BOTH.replace(OFFERS, f"{OFFERS} * N(b, y) * {{y > 3}}")
    found = show(narrow(parse(more), {"M"}))
    assert found.count("N(b, y)") == 2 and found.count("{y > 3}") == 2 and "d_offer" not in found


def test_of_two_domains_none_is_dropped():
    more = BOTH.replace(OFFERS, f"{OFFERS} * Exists(d_other(b))")
    found = show(narrow(parse(more), {"M"}))
    assert found.count("d_M(b, s)") == found.count("d_other(b)") == found.count("d_offer(p, s)") == 2


def test_a_term_is_taken_once():
    both = "Exists(After(M(b))) * Exists(After(N(b)))"
    found = narrow(
        parse(f"{both} + -1 * Exists(M(b)) * Exists(After(N(b))) + -1 * Exists(M(b)) * Exists(N(b))"), {"M", "N"}
    )
    assert show(found).count("d_M(b)") == 2


@pytest.mark.parametrize(
    ("text", "moving"),
    [
        (BOTH, {"N"}),
        (CHANGE.format(offers=OFFERS, before="N"), {"M", "N"}),
        (BOTH.replace("-1 *", "-2 *"), {"M"}),
        (f"Sum[b](Exists(After(M(b, s))) * {OFFERS})", {"M"}),
        (TWO, {"M", "N"}),
        (BOTH.replace("Sum[b](Exists", "Sum[b](-1 * Exists"), {"M"}),
        (MIXED, {"M", "N"}),
    ],
    ids=[
        "does not move",
        "another set",
        "another weight",
        "half of it",
        "two sets",
        "both taken away",
        "one after the other",
    ],
)
def test_what_is_no_change_of_one_set_stays(text: str, moving: set[str]):
    assert narrow(parse(text), moving) == parse(text)


def test_distinct_values_of_a_join_are_followed_by_their_own_changes():
    mill = viewmill.connect()
    mill.sql("""
        CREATE TABLE part (id INT PRIMARY KEY, brand STRING); CREATE TABLE offer (part INT, supplier INT, cost INT);
        CREATE MATERIALIZED VIEW v WITH (maintain = 'recursive') AS
            SELECT brand, count(DISTINCT supplier) AS n FROM part JOIN offer ON part.id = offer.part GROUP BY brand
    """)
    trigger = mill.explain("v", stage="program").split("on offer:")[1].split("on part:")[0]
    assert "Exists(d_offer" not in trigger and trigger.count("Exists(d_M") == 2
