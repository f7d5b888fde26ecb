"""Laws of distribution, for random expressions: what `locate` says is so, and places never change a result."""

from __future__ import annotations

from random import Random

from distribute.simulate import bucket
from distribute.stories import anywhere, wrong
from hypothesis import given
from hypothesis import strategies as st
from laws.strategies import RELATIONS, changes, databases, exprs
from laws.test_program import CATALOG, STRATEGIES

from viewmill.algebra.evaluate import Contents, evaluate
from viewmill.algebra.schema import relations, schema
from viewmill.distribute import ALL_PASSES, distribute
from viewmill.distribute.located import is_whole, locate
from viewmill.distribute.nodes import Buckets, Everywhere
from viewmill.materialize.compile import ViewSpec, add_view
from viewmill.program.nodes import EMPTY

COUNT = 2

PLACES = st.fixed_dictionaries(
    {
        name: st.sampled_from([*(Buckets((field,)) for field in fields), Everywhere()])
        for name, fields in RELATIONS.items()
    }
)


def in_bucket(number, db, places):
    """What one bucket has of a database."""
    found = {}
    for name, contents in db.items():
        rows = dict(contents.rows)
        if isinstance(places[name], Buckets):
            at = contents.fields.index(places[name].by[0])
            rows = {row: n for row, n in rows.items() if bucket([row[at]], COUNT) == number}
        found[name] = Contents(contents.fields, rows)
    return found


@given(expr=exprs(), db=databases(), places=PLACES)
def test_what_is_located_is_there(expr, db, places):
    everything = evaluate(expr, db)

    def place_of(atom):
        return places[atom.name]

    parts = [evaluate(expr, in_bucket(number, db, places)) for number in range(COUNT)]
    if is_whole(expr, place_of):
        assert all(part == everything for part in parts)
    for at, name in enumerate(schema(expr)):
        found = locate(expr, (frozenset((name,)),), place_of)
        for number, part in enumerate(parts):
            if found.right:
                mine = {row: n for row, n in everything.items() if bucket([row[at]], COUNT) == number}
                assert {row: part.get(row, 0) for row in mine} == mine
                assert all(row in mine for row in part if bucket([row[at]], COUNT) == number)
            if found.right and found.zero:
                assert all(bucket([row[at]], COUNT) == number for row in part)


@given(expr=exprs(), data=changes(), strategy=st.sampled_from(STRATEGIES), seed=st.integers(0, 1000))
def test_places_do_not_matter(expr, data, strategy, seed):
    db, batch = data
    if not relations(expr):
        return
    program = add_view(EMPTY, ViewSpec("q", expr, schema(expr), strategy), CATALOG, {})
    random = Random(seed)
    passes = [name for name in ALL_PASSES if random.random() < 0.8]
    distributed = distribute(program, CATALOG, passes=passes, chosen=anywhere(program, random))
    story = [{name: dict(contents.rows) for name, contents in one.items()} for one in (db, batch)]
    assert not wrong(program, CATALOG, distributed, iter(story), buckets=COUNT)
