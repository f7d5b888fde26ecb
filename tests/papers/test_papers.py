"""The examples of the papers, and one of ours, as programs to read, `tests/fixtures/papers`: each is compiled and run.

A file holds the example in our words, the relations, the query and the way of maintenance, a rule, and the program.
Notes and line breaks in the program are the file's own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixture_cases import FIXTURES

import viewmill
from viewmill.algebra.evaluate import Contents, add_databases, collect, evaluate
from viewmill.algebra.nodes import Expr
from viewmill.algebra.schema import relations, schema
from viewmill.algebra.text import parse as parse_expr
from viewmill.algebra.text import show as show_expr
from viewmill.catalog import Catalog, ColumnInfo, RelationInfo
from viewmill.engines.interpreter import Interpreter
from viewmill.errors import UnsupportedError
from viewmill.materialize.canonical import canonical
from viewmill.materialize.compile import ViewSpec, add_view
from viewmill.program.nodes import EMPTY, Program
from viewmill.program.parse import parse, without_notes
from viewmill.program.text import show
from viewmill.rewrite.pipeline import simplify
from viewmill.types import INT

FILES = sorted((FIXTURES / "papers").glob("*.txt"))


@dataclass(frozen=True)
class Example:
    relations: dict[str, tuple[str, ...]]
    name: str
    query: Expr
    maintain: str
    sql: str | None
    program: str

    @property
    def catalog(self) -> Catalog:
        """The papers have no NULLs."""
        return Catalog(
            {
                name: RelationInfo(name, tuple(ColumnInfo(field, INT, nullable=False) for field in fields))
                for name, fields in self.relations.items()
            }
        )

    def compiled(self, maintain: str | None = None) -> Program:
        spec = ViewSpec(self.name, self.query, schema(self.query), maintain or self.maintain)
        return add_view(EMPTY, spec, self.catalog, {})


def example(name: str) -> Example:
    head, rule, program = (FIXTURES / "papers" / f"{name}.txt").read_text().partition("\n----\n")
    assert rule, f"{name}: there is no program"
    given: dict[str, str] = {}
    key = ""
    for line in head[head.index("\nrelations: ") :].strip().splitlines():
        if line.startswith(" "):
            given[key] += line
        else:
            key, _, value = line.partition(": ")
            given[key] = value
    view, _, query = given["query"].partition(" = ")
    product = parse_expr(given["relations"].replace("), ", ") * "))
    factors = getattr(product, "factors", (product,))
    return Example(
        {r.name: r.fields for r in factors}, view, parse_expr(query), given["maintain"], given.get("sql"), program
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_program(file: Path) -> None:
    given = example(file.stem)
    assert without_notes(show(given.compiled())) == without_notes(show(parse(given.program)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_program_follows_its_query(file: Path) -> None:
    """Thirty random batches, some over several relations, against the reference evaluator."""
    given = example(file.stem)
    dice = random.Random(7)
    db = {name: Contents(fields, {}) for name, fields in given.relations.items()}
    engine = Interpreter()
    engine.install(given.compiled(), {name: {} for name in db})
    seen = set()
    for _ in range(30):
        batch = {name: random_change(dice, db[name]) for name in db if dice.random() < 0.7}
        db = add_databases(db, batch)
        engine.apply({name: contents.rows for name, contents in batch.items()})
        truth = evaluate(given.query, db)
        assert engine.contents(given.name) == truth
        seen.add(repr(truth))
    assert len(seen) > 3


def random_change(dice: random.Random, held: Contents) -> Contents:
    """Up to four rows come, up to two go; 10 is the constant of example 3.3."""
    come = [(tuple(dice.choice((1, 2, 4, 5, 10)) for _ in held.fields), 1) for _ in range(dice.randrange(5))]
    rows = sorted(held.rows)
    go = [(row, -1) for row in dice.sample(rows, min(len(rows), dice.randrange(3)))]
    return Contents(held.fields, collect((*come, *go)))


@pytest.mark.parametrize("name", [file.stem for file in FILES if example(file.stem).sql])
def test_sql_keeps_the_same_stores(name: str) -> None:
    """The SQL of the paper, over tables in lower case, needs no store that the algebra does not need."""
    given = example(name)
    mill = viewmill.connect()
    for relation, fields in given.relations.items():
        mill.sql(f"CREATE TABLE {relation} ({', '.join(f'{field} INT NOT NULL' for field in fields)})")
    mill.sql(f"CREATE MATERIALIZED VIEW q WITH (maintain = '{given.maintain}') AS {given.sql}")
    theirs = {form(store.definition) for store in parse(mill.explain("q")).stores.values()}
    ours = {form(parse_expr(show_expr(s.definition).lower())) for s in given.compiled().stores.values()}
    assert theirs == ours


def form(definition: Expr) -> Expr:
    return canonical(simplify(definition))[0]


def test_deltas_touch_only_the_affected_keys() -> None:
    """Example 3.2: of a thousand distinct values one goes and one comes, and only these are looked up."""
    given = example("hot_dog_3_2_nested")
    engine = Interpreter()
    engine.install(given.compiled(), {"R": {(a, 4): 1 for a in range(1000)}})
    looked_up: set[tuple[object, ...]] = set()
    table = engine._tables["M_R"]
    find = table.find

    def watched(columns: tuple[int, ...], values: tuple[object, ...]) -> list[tuple[tuple[object, ...], int]]:
        looked_up.add(values)
        return find(columns, values)

    table.find = watched  # type: ignore[method-assign]
    # 3 goes, 5 moves from B = 4 to B = 9 and stays, 7 gains a row that does not qualify, 2000 is new.
    engine.apply({"R": {(3, 4): -1, (5, 4): -1, (5, 9): 1, (7, 1): 1, (2000, 8): 1}})
    assert looked_up == {(3,), (2000,)}
    assert engine.contents("Q") == {(): 1000}


def test_the_first_row_is_picked_for_affected_keys_only() -> None:
    """Of a thousand customers the batch concerns two, whose orders alone are looked at."""
    engine = Interpreter()
    orders = {(k, day, 10 * k + day): 1 for k in range(1000) for day in (1, 2)}
    engine.install(example("top_1").compiled(), {"C": {(k, -k): 1 for k in range(1000)}, "O": orders})
    looked_up: set[tuple[object, ...]] = set()
    table = engine._tables["M_O"]
    find = table.find

    def watched(columns: tuple[int, ...], values: tuple[object, ...]) -> list[tuple[tuple[object, ...], int]]:
        looked_up.add(values)
        return find(columns, values)

    table.find = watched  # type: ignore[method-assign]
    # The newest order of 3 goes and the one before moves up; 5 gains a newer one; 6 an older one.
    changed = engine.apply({"O": {(3, 2, 32): -1, (5, 9, 59): 1, (6, 0, 60): 1}}, frozenset({"Q"}))
    assert looked_up == {(3,), (5,), (6,)}
    assert changed["Q"] == {(-3, 32): -1, (-3, 31): 1, (-5, 52): -1, (-5, 59): 1}


def test_incremental_is_a_promise() -> None:
    """Example 3.3: it cannot be kept for S, and the refusal says so."""
    given = example("hot_dog_3_3")
    with pytest.raises(UnsupportedError, match='a change of "S" would re-evaluate it') as refusal:
        given.compiled("incremental")
    assert '"R"' not in refusal.value.message
    assert refusal.value.hint is not None
    maintenance = {m.relation: m.how for m in given.compiled("auto").views["Q"].maintenance}
    assert maintenance == {"R": "recursive", "S": "reevaluate"}


def test_an_equality_makes_it_incremental() -> None:
    """Example 3.1 with the same promise."""
    given = example("hot_dog_3_1")
    maintenance = {m.relation: m.how for m in given.compiled("incremental").views["Q"].maintenance}
    assert "reevaluate" not in maintenance.values()
    assert relations(given.query) == set(maintenance)


VWAP = """
select avg(b2.price * b2.volume) as bid_vwap from bids b2
where 0.25 * (select sum(volume) from bids) > (select sum(volume) from bids b1 where b1.price > b2.price)
"""


@pytest.mark.parametrize("maintain", ["recursive", "first_order", "reevaluate", "auto"])
def test_vwap_is_right(maintain: str) -> None:
    """The paper's SQL. The dearest bid has no dearer one: its nested sum is NULL, and it does not count."""
    mill = viewmill.connect()
    mill.sql("CREATE TABLE bids (t INT, id INT PRIMARY KEY, broker_id INT, volume INT, price INT)")
    mill.sql(f"CREATE MATERIALIZED VIEW vwap WITH (maintain = '{maintain}') AS {VWAP}")
    dice = random.Random(3)
    bids: dict[int, tuple[int, ...]] = {}
    answers = set()
    for step in range(40):
        if bids and dice.random() < 0.4:
            mill.delete("bids", [bids.pop(dice.choice(sorted(bids)))])
        else:
            bids[step] = (step, step, 1, dice.randrange(1, 6), dice.randrange(10, 20))
            mill.insert("bids", [bids[step]])
        (row,) = mill.view("vwap")
        assert row == (vwap(list(bids.values())),)
        answers.add(row)
    assert len(answers) > 5


def vwap(bids: list[tuple[int, ...]]) -> float | None:
    whole = sum(volume for *_, volume, _ in bids)
    counted = []
    for *_, volume, price in bids:
        dearer = [v for *_, v, p in bids if p > price]
        if dearer and whole > 4 * sum(dearer):
            counted.append(price * volume)
    return sum(counted) / len(counted) if counted else None
