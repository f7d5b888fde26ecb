"""Refreshing views on Spark against computing them anew with Spark SQL on cached tables, in one run on one machine.

Batches insert, update and delete orders, their items, and offers of parts (`spark_data.py`). They come as files of
Parquet, and are cached when the clock starts, as the tables are that Spark SQL computes from, of which only columns
that a query reads are cached. The first eight batches of a mill and the first run of a query are not counted. In the
end every view is compared with Spark SQL's answer.

Machines are faster at one time than at another. So that many views can be compared with one, the mill that has them all
is there while the others are measured, and takes turns with them: after each it takes a batch, gives it back, and does
both again.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from viewmill.bench import data
from viewmill.bench.place import here
from viewmill.bench.queries import Query, arrow_schemas, schema_sql
from viewmill.bench.spark_data import Changing, Delta
from viewmill.bench.tpch_run import Watch
from viewmill.bench.truth import compare
from viewmill.distribute import ALL_PASSES
from viewmill.engines.spark.anchor import anchored, stage
from viewmill.engines.spark.jobs import Cost, counting
from viewmill.engines.spark.session import maintenance_session, spark_session
from viewmill.spark_mill import SparkMill

T = TypeVar("T")

_WARM_UP = 8
"""Batches that are not measured: a JVM compiles what it runs often, as long as it finds more of it."""


_EVERY = [ALL_PASSES[:count] for count in range(len(ALL_PASSES) + 1)]
"""The passes, switched on one after another."""


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
    wrong: dict[str, str] = field(default_factory=dict)
    passes: tuple[str, ...] = ALL_PASSES

    @property
    def seconds(self) -> float:
        return median(self.batches)

    @property
    def title(self) -> str:
        return _title(self.views)


@dataclass
class SparkRun:
    scale: float
    share: float
    buckets: int
    place: dict[str, Any]
    refreshes: list[Refresh] = field(default_factory=list)
    recomputed: dict[str, float] = field(default_factory=dict)
    empty_batch: float = 0.0
    empty_job: float = 0.0
    turns: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """By what has a mill of its own, seconds of batches of all views just after that one's."""

    @property
    def whole(self) -> list[Refresh]:
        """Of mills that were compiled with all passes."""
        return [refresh for refresh in self.refreshes if refresh.passes == ALL_PASSES]

    def anew(self, refresh: Refresh) -> float:
        """Seconds to compute its views with Spark SQL, one after another."""
        return sum(self.recomputed[name] for name in refresh.views)

    @property
    def together(self) -> tuple[float, ...]:
        """Seconds of every batch of all views that was measured, in turns or not, with the snapshots it waited for."""
        return (*(seconds for turn in self.turns.values() for seconds in turn), *self.whole[0].batches)

    @property
    def wrong(self) -> dict[str, str]:
        return {name: why for refresh in self.refreshes for name, why in refresh.wrong.items() if why}


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """`together` share a mill, each of `alone` has its own. With `passes`, one of these is also compiled without any
    pass of the distributed compiler, with the first, with two, and so on: q03, as in figure 13 of the paper, if it is
    there.
    """

    together: tuple[Query, ...]
    alone: tuple[Query, ...]
    scale: float
    share: float
    batches: int
    buckets: int
    folder: Path
    memory: str
    passes: bool = True

    @property
    def mills(self) -> list[tuple[tuple[Query, ...], tuple[str, ...]]]:
        """The views of each mill, and how it is compiled."""
        together = [(self.together, ALL_PASSES)] if self.together else []
        chosen = sorted(self.alone, key=lambda query: query.name != "q03")[: self.passes]
        alone = [((query,), passes) for query in self.alone for passes in (_EVERY if query in chosen else [ALL_PASSES])]
        return [*together, *alone]

    @property
    def order(self) -> list[int]:
        """The mills in the order they are measured."""
        return sorted(range(len(self.mills)), key=lambda place: len(self.mills[place][0]))

    @property
    def queries(self) -> tuple[Query, ...]:
        return tuple({query.name: query for query in (*self.together, *self.alone)}.values())

    @property
    def all_batches(self) -> int:
        return _WARM_UP + self.batches

    @property
    def steps(self) -> int:
        return len(self.mills) * (self.all_batches + 1) + len(self.queries) + 1


@dataclass(frozen=True, slots=True)
class _Answer:
    """What Spark SQL says that a view holds; `candidates` are the rows that LIMIT chooses from."""

    rows: pa.Table
    candidates: pa.Table


_Frames = Mapping[str, tuple[DataFrame, DataFrame]]
"""By table, what a batch takes from it and what it adds to it."""


@dataclass
class _Measured:
    """A mill that is open, and what its batches have cost so far."""

    mill: SparkMill
    views: tuple[str, ...]
    passes: tuple[str, ...]
    reads: frozenset[str]
    load: float
    seconds: list[float] = field(default_factory=list)
    rows: int = 0
    cost: Cost = Cost(0, 0, 0, None)

    @property
    def title(self) -> str:
        return _title(self.views)

    def take(self, changes: _Frames) -> float:
        """Seconds of a batch."""
        start = perf_counter()
        with self.mill.batch() as batch:
            for name, (deleted, inserted) in changes.items():
                batch.delete(name, deleted)
                batch.insert(name, inserted)
        return perf_counter() - start


class SparkBenchmark:
    def __init__(self, plan: SparkPlan, watch: Watch) -> None:
        self._plan = plan
        self._watch = watch
        watch.at(f"data at scale {plan.scale:g}")
        folder = data.ensure_parquet(plan.scale, plan.folder)
        self._spark = spark_session(
            master=f"local[{plan.buckets}]", spark_driver_memory=plan.memory, spark_ui_enabled="true"
        )
        self._tables = Changing(self._spark, folder, plan.all_batches, plan.share)

    def run(self) -> SparkRun:
        plan = self._plan
        run = SparkRun(plan.scale, plan.share, plan.buckets, asdict(here()))
        with closing(self._tables):
            found = self._refreshed(run)
        answers = self._computed_anew(run)
        for refresh, views in found:
            for name, view in views.items():
                query = next(query for query in plan.queries if query.name == name)
                refresh.wrong[name] = compare(view, answers[name].rows, answers[name].candidates, query.sorted_by)
            run.refreshes.append(refresh)
        return run

    def _refreshed(self, run: SparkRun) -> list[tuple[Refresh, dict[str, pa.Table]]]:
        """What batches cost every mill, and its views after the last."""
        plan, measured = self._plan, dict[int, tuple[Refresh, dict[str, pa.Table]]]()
        *others, last = plan.order  # a JVM that has just started is still compiling what Spark plans with
        with ExitStack() as stack:
            together = stack.enter_context(self._opened(*plan.mills[last])) if plan.together else None
            if together is not None:
                self._take_some(together, range(_WARM_UP))
            for place in others if together is not None else plan.order:
                with self._opened(*plan.mills[place]) as mill:
                    self._take_some(mill, range(plan.all_batches))
                    if together is not None and mill.passes == ALL_PASSES:
                        run.turns[mill.title] = self._turn(together, mill.title)
                    measured[place] = self._finished(run, mill)
            if together is not None:
                self._take_some(together, range(_WARM_UP, plan.all_batches))
                measured[last] = self._finished(run, together)
        return [measured[place] for place in range(len(plan.mills))]

    @contextmanager
    def _opened(self, queries: Sequence[Query], passes: tuple[str, ...]) -> Iterator[_Measured]:
        """A mill with these views, loaded."""
        with (
            tempfile.TemporaryDirectory(prefix="viewmill-bench-") as folder,
            SparkMill(self._spark, f"{folder}/checkpoint", buckets=self._plan.buckets, passes=passes) as mill,
        ):
            mill.sql(schema_sql())
            for query in queries:
                mill.sql(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")
            views = _names(queries)
            reads = frozenset(table for query in queries for table in query.reads)
            self._watch.at(f"{_title(views)}: loading")
            load = _seconds(lambda: mill.apply(**_of(self._tables.start, reads)))
            self._watch.step()
            yield _Measured(mill, views, passes, reads, load)

    def _take_some(self, mill: _Measured, numbers: range) -> None:
        for number in numbers:
            self._watch.at(f"{mill.title}: batch {number + 1} of {self._plan.all_batches}")
            with _cached(_of(self._tables.batch(number), mill.reads)) as changes:
                mill.rows = sum(frame.count() for pair in changes.values() for frame in pair)
                with counting(self._spark) as cost:
                    mill.seconds.append(mill.take(changes))
                mill.cost = cost()
            self._watch.step()

    def _turn(self, mill: _Measured, other: str) -> tuple[float, ...]:
        """Seconds of batches, just after another mill's. In the end the mill is as it was."""
        self._watch.at(f"{mill.title}: a turn after {other}")
        with _cached(_of(self._tables.batch(_WARM_UP), mill.reads)) as there:
            for pair in there.values():
                for frame in pair:
                    frame.count()
            back = {name: (inserted, deleted) for name, (deleted, inserted) in there.items()}
            return tuple(mill.take(changes) for changes in (there, back, there, back))

    def _finished(self, run: SparkRun, mill: _Measured) -> tuple[Refresh, dict[str, pa.Table]]:
        if mill.views == _names(self._plan.mills[0][0]) and mill.passes == ALL_PASSES:
            self._watch.at(f"{mill.title}: batches without rows")
            run.empty_batch, run.empty_job = self._empty(mill.mill, mill.reads)
        cost, seconds = mill.cost, tuple(mill.seconds[_WARM_UP:])
        views = {name: mill.mill.view(name).to_arrow() for name in mill.views}
        refresh = Refresh(mill.views, mill.load, seconds, mill.rows, cost.jobs, cost.stages, cost.shuffled)
        return replace(refresh, passes=mill.passes), views

    def _empty(self, mill: SparkMill, reads: Iterable[str]) -> tuple[float, float]:
        """Seconds of a batch without rows, and of a job with two Python stages that have nothing to do."""
        nothing = {
            name: self._spark.createDataFrame(arrow_schemas()[name].empty_table())
            for name in ("orders", "lineitem")
            if name in reads
        }
        session = maintenance_session(self._spark, self._plan.buckets)
        anchor = anchored(session, self._plan.buckets)
        rows = session.createDataFrame([], "key int")

        def job() -> None:
            first = stage(anchor, rows, lambda bucket, table: table, "key int")
            stage(anchor, first, lambda bucket, table: table, "key int").toArrow()

        try:
            return _typical(lambda: mill.apply(**nothing)), _typical(job)
        finally:
            anchor.release()

    def _computed_anew(self, run: SparkRun) -> dict[str, _Answer]:
        """Every query by Spark SQL over the tables as they are in the end; the better of two runs after the first."""
        self._watch.at("Spark SQL: caching the tables")
        for name, frame in self._tables.end.items():
            columns = _columns_in(frame, self._plan.queries)
            kept = frame.select(*columns).cache() if columns else frame
            kept.count()
            kept.createOrReplaceTempView(name)
        self._watch.step()
        answers = {}
        for query in self._plan.queries:
            self._watch.at(f"{query.name} by Spark SQL")
            answer = self._spark.sql(query.sql).toArrow()
            run.recomputed[query.name] = min(_seconds(self._spark.sql(query.sql).toArrow) for _ in range(2))
            candidates = answer if query.limit is None else self._spark.sql(query.unlimited).toArrow()
            answers[query.name] = _Answer(answer, candidates)
            self._watch.step()
        return answers


@contextmanager
def _cached(changes: Mapping[str, Delta]) -> Iterator[_Frames]:
    """What a batch takes and adds, kept by executors from when it is first computed."""
    frames = {name: (delta.deleted.cache(), delta.inserted.cache()) for name, delta in changes.items()}
    try:
        yield frames
    finally:
        for pair in frames.values():
            for frame in pair:
                frame.unpersist(blocking=True)


def _names(queries: Sequence[Query]) -> tuple[str, ...]:
    return tuple(query.name for query in queries)


def _title(views: Sequence[str]) -> str:
    return views[0] if len(views) == 1 else f"{len(views)} views"


def _of(found: Mapping[str, T], names: Iterable[str]) -> dict[str, T]:
    return {name: found[name] for name in found if name in set(names)}


def _columns_in(frame: DataFrame, queries: Sequence[Query]) -> list[str]:
    """The columns that a query names: in TPC-H, no two tables share a name."""
    words = {word for query in queries for word in re.findall(r"\w+", query.sql)}
    return [name for name in frame.columns if name in words]


def _seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _typical(work: Callable[[], object]) -> float:
    """The median of a few runs, after one that is not counted."""
    work()
    return median(_seconds(work) for _ in range(5))
