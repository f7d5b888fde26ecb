"""What a distributed program has to live through: tables that fill, change, empty and fill again, batch by batch.

Batches are over all tables or over a few of them, so that plans for many sets of relations are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

from distribute.simulate import Simulation
from tpch_data import DDL, tpch
from workload import Churn, Row, Table

import viewmill
from viewmill.catalog import Catalog
from viewmill.definitions import Definitions
from viewmill.distribute import ALL_PASSES, distribute
from viewmill.distribute.nodes import Buckets, Distributed, Driver, Everywhere, Place
from viewmill.engines.interpreter import Interpreter
from viewmill.program.nodes import Program

Change = dict[str, dict[Row, int]]

QUERIES = sorted((Path(__file__).parents[1] / "fixtures" / "tpch").glob("q*.sql"))


@cache
def tpch_program(numbers: tuple[int, ...], strategy: str = "auto") -> tuple[Program, Catalog]:
    views = {f"q{number}": QUERIES[number - 1].read_text().strip().rstrip(";") for number in numbers}
    return compiled(tuple(DDL.values()), views, strategy)


def compiled(ddl: Sequence[str], views: Mapping[str, str], strategy: str = "auto") -> tuple[Program, Catalog]:
    """A mill's program, and what it is over."""
    mill = viewmill.connect()
    for statement in ddl:
        mill.sql(statement)
    for name, sql in views.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} WITH (maintain = '{strategy}') AS\n{sql}")
    definitions: Definitions = mill._definitions
    return definitions.program, definitions.kept


def changes(tables: Sequence[Table], seed: int, first: Mapping[str, list[Row]] | None = None) -> Iterator[Change]:
    churn, random = Churn(tuple(tables), seed), Random(seed)
    before = {name: Counter[Row]() for name in churn.database}

    def taken(names: Collection[str]) -> Change:
        found: Change = {}
        for name in names:
            after = Counter(churn.database[name])
            difference = {row: n for row in {**before[name], **after} if (n := after[row] - before[name][row])}
            before[name] = after
            if difference:
                found[name] = difference
        return found

    def start(rows: int) -> None:
        churn.load({name: list(given) for name, given in first.items()}) if first else churn.start(rows)

    everything = tuple(before)
    start(12)
    yield taken(everything)
    for step in range(4):
        churn.step()
        yield taken(everything if step == 1 else random.sample(everything, random.randint(1, len(everything) // 2)))
    churn.clear()
    yield taken(everything)
    start(8)
    yield taken(everything)


def tpch_changes(seed: int = 1) -> Iterator[Change]:
    return changes(tpch().tables, seed, tpch().initial)


def wrong(
    program: Program,
    catalog: Catalog,
    distributed: Distributed,
    story: Iterator[Change],
    *,
    buckets: int = 3,
    late: bool = False,
) -> str:
    """What is not as in the undistributed program, after the first batch that shows it.

    `late`: the first batch is there already when the cluster starts.
    """
    truth = Interpreter()
    truth.install(program, {})
    fields = {name: info.names for name, info in catalog.relations.items()}
    simulation: Simulation | None = None
    for number, batch in enumerate(story):
        ours = {name: rows for name, rows in batch.items() if name in program.triggers}
        if late and simulation is None:
            truth.apply(ours)
            simulation = Simulation(distributed, truth, buckets)
            continue
        simulation = simulation or Simulation(distributed, truth, buckets)
        truth.apply(ours)
        simulation.apply(ours, fields)
        if complaints := simulation.complaints(truth):
            return f"after batch {number}: " + "\n".join(complaint[:1000] for complaint in complaints[:5])
    return ""


def anywhere(program: Program, random: Random) -> dict[str, Place]:
    """A place for most stores, good or bad."""
    found: dict[str, Place] = {}
    for name, store in program.stores.items():
        choices: list[Place] = [Driver(), Everywhere(), *(Buckets((key,)) for key in store.keys for _ in range(2))]
        if len(store.keys) > 1:
            choices.append(Buckets(tuple(random.sample(store.keys, 2))))
        if random.random() < 0.85:
            found[name] = random.choice(choices)
    return found


def distributed_at_random(program: Program, catalog: Catalog, seed: int) -> Distributed:
    random = Random(seed)
    passes = [name for name in ALL_PASSES if random.random() < 0.7]
    return distribute(program, catalog, passes=passes, chosen=anywhere(program, random))
