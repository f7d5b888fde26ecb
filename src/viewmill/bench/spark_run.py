"""Refreshing views on Spark against computing them anew with Spark SQL on cached tables, in one run on one machine.

Batches insert, update and delete orders and their items (`bench/orders.py`). They are cached DataFrames when the clock
starts, as the tables are that Spark SQL computes from. In the end every view is compared with Spark SQL's answer.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

import pyarrow as pa
from rich.console import Console

from viewmill.bench import data
from viewmill.bench.figures import duration, times
from viewmill.bench.orders import Changed, Orders
from viewmill.bench.place import here
from viewmill.bench.queries import Query, schema_sql
from viewmill.bench.reference import SPARK_JOBS, SPARK_STAGES
from viewmill.bench.tables import Grid
from viewmill.bench.truth import compare
from viewmill.distribute import ALL_PASSES
from viewmill.engines.spark.anchor import anchored, stage
from viewmill.engines.spark.jobs import Cost, counting
from viewmill.engines.spark.session import maintenance_session, spark_session
from viewmill.spark_mill import SparkMill


@dataclass(frozen=True, slots=True)
class Refresh:
    """A mill of some views: seconds to load it and of each batch, what a batch cost Spark, what is wrong in the end."""

    views: tuple[str, ...]
    load: float
    batches: tuple[float, ...]
    rows: int
    jobs: int
    stages: int
    shuffled: int | None
    wrong: dict[str, str]
    passes: tuple[str, ...] = ALL_PASSES

    @property
    def seconds(self) -> float:
        return median(self.batches)


@dataclass
class SparkRun:
    scale: float
    share: float
    buckets: int
    place: dict[str, object]
    refreshes: list[Refresh] = field(default_factory=list)
    recomputed: dict[str, float] = field(default_factory=dict)
    empty_batch: float = 0.0
    empty_job: float = 0.0

    @property
    def wrong(self) -> dict[str, str]:
        return {name: why for refresh in self.refreshes for name, why in refresh.wrong.items() if why}


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """`alone` are queries that have a mill of their own, too, besides the one with all."""

    queries: tuple[Query, ...]
    alone: tuple[Query, ...]
    scale: float
    share: float
    batches: int
    buckets: int
    folder: Path
    memory: str


class SparkBenchmark:
    def __init__(self, plan: SparkPlan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._spark = spark_session(
            master=f"local[{plan.buckets}]", spark_driver_memory=plan.memory, spark_ui_enabled="true"
        )
        self._data = data.load(data.ensure(plan.scale, plan.folder))

    def run(self) -> SparkRun:
        plan = self._plan
        run = SparkRun(plan.scale, plan.share, plan.buckets, asdict(here()))
        orders = self._refresh(run, plan.queries)
        with self._saying("computing every view anew"):
            self._recompute(run, orders)
        for query in plan.alone:
            self._refresh(run, (query,))
        if plan.alone:
            for count in range(len(ALL_PASSES)):
                self._refresh(run, plan.alone[:1], ALL_PASSES[:count])
        return run

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        with self._console.status(what):
            yield

    def _refresh(self, run: SparkRun, queries: Sequence[Query], passes: Sequence[str] = ALL_PASSES) -> Orders:
        names = tuple(query.name for query in queries)
        orders = Orders(self._data)
        with tempfile.TemporaryDirectory(prefix="viewmill-bench-") as folder:
            mill = SparkMill(
                self._spark,
                f"{folder}/checkpoint",
                buckets=self._plan.buckets,
                scratch=f"{folder}/buckets",
                passes=passes,
            )
            mill.sql(schema_sql())
            for query in queries:
                mill.sql(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")
            with self._saying(f"loading {_named(names)}"):
                start = perf_counter()
                mill.apply(**{name: self._spark.createDataFrame(rows) for name, rows in orders.start.items()})
                load = perf_counter() - start
            found, rows, cost = [], 0, Cost(0, 0, 0, None)
            for number, changes in enumerate(orders.batches(self._plan.batches, self._plan.share), 1):
                with self._saying(f"{_named(names)}: batch {number} of {self._plan.batches}"):
                    seconds, cost = self._take(mill, changes)
                found.append(seconds)
                rows = sum(changed.rows for changed in changes.values())
            if not run.empty_batch:
                run.empty_batch, run.empty_job = self._empty(mill)
            wrong = self._check(mill, queries, orders)
        run.refreshes.append(
            Refresh(names, load, tuple(found), rows, cost.jobs, cost.stages, cost.shuffled, wrong, tuple(passes))
        )
        self._console.print(f"{_named(names)}: a batch of {rows:,} rows in {duration(median(found))}", highlight=False)
        return orders

    def _take(self, mill: SparkMill, changes: dict[str, Changed]) -> tuple[float, Cost]:
        frames = {}
        for name, changed in changes.items():
            parts = ([changed.deleted, changed.before], [changed.inserted, changed.after])
            frames[name] = [self._spark.createDataFrame(pa.concat_tables(part)).cache() for part in parts]
        for frame in (frame for pair in frames.values() for frame in pair):
            frame.count()
        with counting(self._spark) as cost:
            start = perf_counter()
            with mill.batch() as batch:
                for name, (deleted, inserted) in frames.items():
                    batch.delete(name, deleted)
                    batch.insert(name, inserted)
            seconds = perf_counter() - start
        for frame in (frame for pair in frames.values() for frame in pair):
            frame.unpersist()
        return seconds, cost()

    def _empty(self, mill: SparkMill) -> tuple[float, float]:
        """Seconds of a batch without rows, and of a job with two Python stages that have nothing to do."""
        nothing = {
            name: self._spark.createDataFrame(pa.table(self._data[name].slice(0, 0))) for name in ("orders", "lineitem")
        }
        session = maintenance_session(self._spark, self._plan.buckets)
        anchor = anchored(session, self._plan.buckets)
        rows = session.createDataFrame([], "key int")

        def job() -> None:
            first = stage(anchor, rows, lambda bucket, table: table, "key int")
            stage(anchor, first, lambda bucket, table: table, "key int").toArrow()

        try:
            return _best(lambda: mill.apply(**nothing)), _best(job)
        finally:
            anchor.release()

    def _recompute(self, run: SparkRun, orders: Orders) -> None:
        for name, rows in orders.tables.items():
            frame = self._spark.createDataFrame(rows).cache()
            frame.count()
            frame.createOrReplaceTempView(name)
        for query in self._plan.queries:
            self._spark.sql(query.sql).toArrow()
            start = perf_counter()
            self._spark.sql(query.sql).toArrow()
            run.recomputed[query.name] = perf_counter() - start

    def _check(self, mill: SparkMill, queries: Sequence[Query], orders: Orders) -> dict[str, str]:
        for name, rows in orders.tables.items():
            self._spark.createDataFrame(rows).createOrReplaceTempView(name)
        found = {}
        for query in queries:
            with self._saying(f"checking {query.name}"):
                answer = self._spark.sql(query.sql).toArrow()
                candidates = answer if query.limit is None else self._spark.sql(query.unlimited).toArrow()
                found[query.name] = compare(mill.view(query.name).to_arrow(), answer, candidates, query.sorted_by)
        return found


def _best(work: object) -> float:
    """The median of a few runs, after one that is not counted."""
    assert callable(work)
    work()
    found = []
    for _ in range(5):
        start = perf_counter()
        work()
        found.append(perf_counter() - start)
    return median(found)


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} views"


def grids(run: SparkRun) -> list[Grid]:
    together = run.refreshes[0]
    total = sum(run.recomputed.values())
    lines = [
        (f"refresh all {len(together.views)} views", duration(together.seconds), ""),
        (f"compute all {len(together.views)} anew", duration(total), times(total / together.seconds)),
    ]
    alone = [r for r in run.refreshes[1:] if len(r.views) == 1 and r.passes == ALL_PASSES]
    for refresh in alone:
        anew = run.recomputed[refresh.views[0]]
        lines.append((f"refresh {refresh.views[0]} alone", duration(refresh.seconds), ""))
        lines.append((f"compute {refresh.views[0]} anew", duration(anew), times(anew / refresh.seconds)))
        more = together.seconds / refresh.seconds
        lines.append((f"all views against {refresh.views[0]} alone", "", times(more)))
    lines.append(("a batch without rows", duration(run.empty_batch), times(run.empty_batch / run.empty_job)))
    lines.append(("a job of two Python stages with nothing to do", duration(run.empty_job), ""))
    note = f"Batches of {together.rows:,} rows, medians of {len(together.batches)}. {run.buckets} buckets."
    found = [Grid(f"Spark, TPC-H at scale factor {run.scale:g}", ("what", "time", "ratio"), tuple(lines), note)]
    costs = [
        (" + ".join(r.views) if len(r.views) < 3 else f"{len(r.views)} views", str(r.jobs), str(r.stages), *_paper(r))
        for r in (together, *alone)
    ]
    found.append(Grid("Spark jobs and stages of a batch", ("views", "jobs", "stages", "paper's"), tuple(costs)))
    passes = [r for r in run.refreshes if r.views == alone[0].views] if alone else []
    if len(passes) > 1:
        rows = tuple((", ".join(r.passes) or "none", duration(r.seconds), str(r.stages), _bytes(r)) for r in passes)
        title = f"What the optimisations are worth: {alone[0].views[0]}"
        found.append(Grid(title, ("passes", "batch", "stages", "shuffled"), rows))
    return found


def _paper(refresh: Refresh) -> tuple[str]:
    if len(refresh.views) > 1:
        return ("-",)
    number = int(refresh.views[0][1:]) - 1
    return (f"{SPARK_JOBS[number]}, {SPARK_STAGES[number]}",)


def _bytes(refresh: Refresh) -> str:
    return "-" if refresh.shuffled is None else f"{refresh.shuffled / 1e6:.2f} MB"


def save(run: SparkRun, folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    place = run.place
    head = f"Commit {place['commit']}, {place['date']}. Machine: {place['machine']}. {place['versions']}."
    method = " ".join((__doc__ or "").split())
    text = "\n\n".join(
        [f"# Views on Spark, scale factor {run.scale:g}", head, method, *(g.markdown() for g in grids(run))]
    )
    files = [folder / f"{name}.md", folder / f"{name}.json"]
    files[0].write_text(text)
    files[1].write_text(json.dumps(asdict(run), indent=1))
    return files
