"""The compiled engine does what the interpreter does: the same batches leave the same rows in every store.

Two mills, the *twins*, are told the same; one interprets and the other compiles from the first row on. After each
step all stores, views, and what subscribers were told are compared.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal, localcontext
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from follow import STRATEGIES
from tpch_data import tpch
from workload import Churn, apply

import viewmill
from viewmill.engines.local import engine, pools, run
from viewmill.errors import DataError

QUERIES = Path(__file__).parents[1] / "fixtures" / "tpch"
INTERPRETED, COMPILED = sys.maxsize, -1
NAN, INFINITE = float("nan"), float("inf")
LONG = Decimal("12345678901234.5678")  # as a double it is rounded, so compiled code declines it

Rows = Counter[Any]


class Twin:
    """A mill, when it compiles, and what subscribers have been told so far."""

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self._patch = patch
        self._after = after
        self.mill = viewmill.connect()
        self.told: dict[str, Rows] = {}

    def do(self, step: Callable[[viewmill.Mill], object]) -> str:
        """Run a step; what it says if it is refused."""
        self._patch.setattr(engine, "COMPILE_AFTER", self._after)
        try:
            step(self.mill)
        except DataError as error:
            return str(error)
        return ""

    def follow(self, view: str) -> None:
        told = self.told[view] = shown(self.mill.read(view))

        def listen(changes: Any) -> None:
            told.update(shown(changes.added))
            told.subtract(shown(changes.removed))

        self.mill.view(view).subscribe(listen)

    def seen(self) -> dict[str, Any]:
        """Everything that can be asked of the mill."""
        mill = self.mill
        views = {name: shown(mill.read(name)) for name in mill.views}
        stores = {name: shown(mill._engine.store(name).items()) for name in mill._definitions.program.stores}
        told = {name: +rows for name, rows in self.told.items()}
        return {"views": views, "stores": stores, "told": told, "version": mill.version}


def shown(rows: Any) -> Rows:
    """Rows with their multiplicity."""
    return Counter(plain(row) for row in rows)


def plain(value: Any) -> Any:
    """Something equal for equal values: NaN is itself here, and True is not 1."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return repr(value) if value != value or isinstance(value, bool) else value


class Twins:
    def __init__(self, patch: pytest.MonkeyPatch, after: int = COMPILED) -> None:
        self.plain, self.fast = Twin(patch, INTERPRETED), Twin(patch, after)

    def do(self, step: Callable[[viewmill.Mill], object]) -> str:
        said = self.plain.do(step)
        assert self.fast.do(step) == said
        assert self.fast.seen() == self.plain.seen()
        return said

    def sql(self, text: str) -> None:
        assert not self.do(lambda mill: mill.sql(text))

    def view(self, name: str, query: str, maintain: str = "auto") -> None:
        self.sql(f"CREATE MATERIALIZED VIEW {name} WITH (maintain = '{maintain}') AS {query}")
        for twin in (self.plain, self.fast):
            twin.follow(name)

    def insert(self, table: str, *rows: tuple[Any, ...]) -> None:
        assert not self.do(lambda mill: mill.insert(table, list(rows)))

    def delete(self, table: str, *rows: tuple[Any, ...]) -> None:
        assert not self.do(lambda mill: mill.delete(table, list(rows)))

    def rows(self, view: str) -> list[Any]:
        return sorted(self.fast.mill.read(view), key=repr)

    @property
    def compiled(self) -> bool:
        return self.fast.mill._engine.is_compiled


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Twins:
    return Twins(monkeypatch)


@pytest.fixture
def declined(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The batches that compiled code gave up."""
    batches: list[str] = []
    interpreted = run.CompiledEngine._interpreted

    def noted(self: Any, batch: Any, *others: Any) -> Any:
        batches.append(", ".join(pending.relation for pending in batch))
        return interpreted(self, batch, *others)

    monkeypatch.setattr(run.CompiledEngine, "_interpreted", noted)
    yield batches


# --- programs of TPC-H queries


# One of each kind: EXISTS; a moved threshold; an outer join; MAX over a CTE; a nested average; EXISTS by inequality.
@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("query", ["q04", "q11", "q13", "q15", "q17", "q21"])
def test_stores_are_those_of_the_interpreter(query: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    twins, churn = Twins(monkeypatch), Churn(tpch().tables, 5)
    for table in tpch().tables:
        twins.sql(table.ddl)
    twins.view("v", (QUERIES / f"{query}.sql").read_text(), strategy)
    batches = [churn.load(tpch().initial), *(churn.step() for _ in range(5))]
    for batch in batches:
        assert not twins.do(lambda mill, batch=batch: apply(mill, batch))
    assert twins.compiled


@pytest.mark.parametrize("after", [1, 4, 6])
def test_stores_move_with_what_is_in_them(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    twins = Twins(monkeypatch, after)
    twins.sql("CREATE TABLE t (k int, s string, f double, m decimal(12,2), d date)")
    twins.view("v", "select k, count(*) as n, sum(f) as f, sum(m) as m, min(s) as s, max(d) as d from t group by k")
    twins.view("w", "select x.k, y.s from t x join t y on x.k = y.k where x.s < y.s")
    random = Random(3)
    for step in range(8):
        row = (
            random.choice([None, 1, 2]),
            random.choice([None, "", "a", "😀", "a\0b"]),
            random.choice([None, 0.5, -0.0, INFINITE]),
            random.choice([None, Decimal("1.25"), Decimal("-3.00")]),
            random.choice([None, date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)]),
        )
        twins.insert("t", row)
        assert twins.compiled == (step + 1 > after)
    assert twins.rows("v")


# --- batches that are refused, declined, or too wide


def test_a_refused_batch_leaves_everything_and_the_batch_before_it(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, a int); CREATE TABLE u (k int, b int)")
    twins.view("v", "select k, sum(a) as s, sum(a) / (count(*) - 3) as q from t group by k")
    twins.view("w", "select t.k, sum(t.a * u.b) as s from t join u on t.k = u.k group by t.k", "recursive")
    twins.insert("t", (1, 10), (2, 20))
    twins.insert("t", (1, 11))
    for _ in range(2):
        assert "division by zero" in twins.do(lambda mill: mill.insert("t", [(1, 12), (3, 30)]))

        def both(mill: viewmill.Mill) -> None:
            with mill.batch() as batch:
                batch.insert("u", [(1, 5), (2, 6)])
                batch.insert("t", [(1, 12)])

        assert "division by zero" in twins.do(both)
    twins.insert("u", (1, 2))
    assert twins.rows("w") == [(1, 42)]
    twins.insert("t", (2, 1))
    assert twins.compiled


def test_an_overflow_is_refused_in_the_middle_of_a_batch(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, a bigint)")
    twins.view("v", "select k, sum(a) as s, min(a) as lo from t group by k")
    twins.view("w", "select a * a as sq, count(*) as n from t group by a * a")
    twins.insert("t", (1, 3), (2, 4))
    rows = [(3, 5)] * 300 + [(1, 4), (4, 2**40), (2, 9)]
    assert "does not fit" in twins.do(lambda mill: mill.insert("t", rows))
    twins.insert("t", (1, 4), (2, 9))
    twins.delete("t", (1, 3), (2, 4))
    assert twins.rows("v") == [(1, 4, 4), (2, 9, 9)]


def test_what_compiled_code_declines_is_interpreted_on_the_same_stores(twins: Twins, declined: list[str]) -> None:
    twins.sql("CREATE TABLE t (k int, m decimal(18,4), f double)")
    twins.view("v", "select cast(m as double) as d, count(*) as n from t group by cast(m as double)")
    twins.view("w", "select k, sum(f) as f, max(m) as m from t group by k")
    twins.insert("t", (1, Decimal(1), 0.5), (2, LONG, INFINITE))
    assert declined == ["t"]
    twins.insert("t", (1, Decimal(2), 0.25))
    assert declined == ["t"]
    twins.insert("t", (2, LONG, 1.0), (3, LONG, NAN))
    twins.delete("t", (2, LONG, 1.0), (1, Decimal(1), 0.5))
    assert declined == ["t"] * 3
    assert twins.rows("w") == [
        (1, 0.25, Decimal("2.0000")),
        (2, INFINITE, LONG),
        (3, pytest.approx(NAN, nan_ok=True), LONG),
    ]
    assert twins.compiled


def test_doubles_are_the_same_whoever_computes_them(twins: Twins) -> None:
    """A view over rows that are there is filled by the interpreter; compiled code has to find the groups again."""
    twins.sql("CREATE TABLE t (k int, m decimal(18,4))")
    rows = [(i, LONG + i * Decimal("0.0001")) for i in range(200)]
    twins.insert("t", *rows)
    twins.view("v", "select cast(m as double) as d, count(*) as n from t group by cast(m as double)")
    twins.delete("t", *rows)
    assert twins.rows("v") == []


def test_numbers_of_more_than_64_bits_send_the_mill_back_for_good(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, m decimal(38,4), a bigint)")
    twins.view("v", "select k, sum(m) as s, max(m) as hi from t group by k")
    twins.view("w", "select sum(a) as s from t")
    twins.insert("t", (1, Decimal("1.5"), 1))
    assert twins.compiled
    twins.insert("t", (1, Decimal("12345678901234567890.25"), 2), (2, Decimal("-1"), 3))
    assert not twins.compiled
    twins.delete("t", (1, Decimal("12345678901234567890.25"), 2))
    twins.view("x", "select m, count(*) as n from t group by m")
    twins.insert("t", (2, Decimal("-1"), 4))
    assert twins.rows("v") == [(1, Decimal("1.5000"), Decimal("1.5000")), (2, Decimal("-2.0000"), Decimal("-1.0000"))]
    assert not twins.compiled


def test_what_does_not_fit_is_forgotten_with_the_batch_that_brought_it(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, a bigint) WITH (stored = false)")
    twins.sql("CREATE MATERIALIZED VIEW v AS select k, count(*) as n, sum(a) as s from t group by k")
    twins.insert("t", (1, 2**62))
    assert "does not fit" in twins.do(lambda mill: mill.insert("t", [(1, 2**62)]))
    twins.insert("t", (2, 5))
    twins.insert("t", (2, 5), (3, 6))
    assert twins.rows("v") == [(1, 1, 2**62), (2, 2, 10), (3, 1, 6)]
    assert twins.compiled


def test_single_rows_are_checked_like_others(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, s string, m decimal(12,2)) WITH (stored = false)")
    twins.sql("CREATE MATERIALIZED VIEW v AS select k, s, sum(m) as m from t group by k, s")
    twins.insert("t", (1, "a", Decimal("1.00")))
    with localcontext(prec=4):
        twins.insert("t", (1, "a", Decimal("12345.67")))
    for row in [(1, "a", Decimal("sNaN")), (1, "a", Decimal("0.001")), (2**31, "a", None), (1, b"a", None), (1, "a")]:
        assert twins.do(lambda mill, row=row: mill.insert("t", [row]))
    twins.insert("t", (1, "a", Decimal("1E+2")))
    assert twins.rows("v") == [(1, "a", Decimal("12446.67"))]


def test_half_of_a_surrogate_pair_is_refused_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    twins = Twins(monkeypatch, after=1)
    twins.sql("CREATE TABLE t (s string)")
    twins.view("v", "select s, count(*) as n from t group by s")
    assert "surrogate" in twins.do(lambda mill: mill.insert("t", [("\ud800",)]))
    twins.insert("t", ("😀",), ("a",))
    assert twins.compiled


@pytest.mark.parametrize(
    "query", ["select a - 1 as x from t", "select sum(a) as x from t", "select -a - 2 as x from t"]
)
def test_the_least_integer_is_not_null(query: str, twins: Twins) -> None:
    twins.sql("CREATE TABLE t (a bigint)")
    twins.view("v", query)
    twins.insert("t", (-(2**63) + 1,))
    twins.insert("t", (-1,))
    twins.delete("t", (-1,))
    twins.delete("t", (-(2**63) + 1,))
    twins.insert("t", (2**63 - 2,))


# --- several tables and several ways in one batch


def test_several_tables_change_in_one_batch(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, a int); CREATE TABLE u (k int, b int); CREATE TABLE w (k int)")
    for strategy in STRATEGIES:
        twins.view(
            f"v_{strategy}",
            "select t.k, a, b from t left join u on t.k = u.k where not exists (select 1 from w where w.k = t.k)",
            strategy,
        )
    random = Random(8)
    rows: dict[str, list[Any]] = {"t": [], "u": [], "w": []}
    for _ in range(8):
        edits = []
        for name, width in (("t", 2), ("u", 2), ("w", 1)):
            here = rows[name]
            gone = [here.pop(random.randrange(len(here))) for _ in range(min(len(here), random.randrange(3)))]
            new = [tuple(random.choice([None, 1, 2, 3]) for _ in range(width)) for _ in range(random.randrange(4))]
            here += new
            edits.append((name, gone, new))

        def step(mill: viewmill.Mill, edits: Any = edits) -> None:
            with mill.batch() as batch:
                for name, gone, new in edits:
                    batch.delete(name, gone)
                    batch.insert(name, new)

        assert not twins.do(step)
    assert twins.compiled


def test_one_table_is_given_as_columns_and_as_rows_in_one_batch(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, s string, m decimal(10,2)) WITH (stored = false)")
    twins.view("v", "select k, s, sum(m) as m, count(*) as n from t group by k, s")
    twins.view("u", "select distinct s from t")

    def columns(*rows: tuple[Any, ...]) -> pa.Table:
        kinds = {"k": pa.int32(), "s": pa.string(), "m": pa.decimal128(10, 2)}
        return pa.table(
            {name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())}
        )

    first = [(1, "a", Decimal("1.00")), (1, "a", Decimal("2.00")), (None, None, None), (2, "", Decimal("0.00"))]
    twins.do(lambda mill: mill.insert("t", columns(*first)))

    def step(mill: viewmill.Mill) -> None:
        with mill.batch() as batch:
            batch.insert("t", columns((3, "b", Decimal("5.00")), (1, "a", Decimal("4.00"))))
            batch.delete("t", columns(first[0], first[2], (3, "b", Decimal("5.00"))))
            batch.insert("t", [(2, "", Decimal("1.50"))])
            batch.delete("t", [first[3]])

    assert not twins.do(step)
    assert twins.rows("v") == [(1, "a", Decimal("6.00"), 2), (2, "", Decimal("1.50"), 1)]
    assert twins.compiled


def test_rows_that_cancel_in_one_batch_are_nothing(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, a int)")
    twins.view("v", "select k, min(a) as lo, count(distinct a) as n from t group by k")

    def step(mill: viewmill.Mill) -> None:
        with mill.batch() as batch:
            batch.insert("t", [(1, 1), (2, 2)])
            batch.delete("t", [(1, 1), (2, 2)])

    assert not twins.do(step)
    assert twins.rows("v") == []


def test_pools_grow_inside_of_loops(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, a int); CREATE TABLE u (k int, b int)")
    twins.view("v", "select t.a, u.b, count(*) as n from t join u on t.k = u.k group by t.a, u.b", "recursive")
    twins.insert("t", *((i % 3, i) for i in range(150)))
    twins.insert("u", *((i % 3, i) for i in range(60)))
    assert len(twins.rows("v")) == 3000
    twins.delete("t", *((i % 3, i) for i in range(0, 150, 2)))
    assert len(twins.rows("v")) == 1500


# --- views that come and go


def test_views_over_views(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, a int)")
    twins.view("u", "select k, sum(a) as s from t group by k")
    twins.view("v", "select s, count(*) as n from u group by s")
    twins.insert("t", (1, 5), (2, 5), (3, None))
    twins.view("w", "select t.k, t.a, u.s, v.n from t join u on t.k = u.k join v on u.s = v.s")
    for rows in ([(1, 1)], [(2, 1), (2, 2)], [(4, 6), (4, None)]):
        twins.insert("t", *rows)
    twins.delete("t", (1, 5), (2, 1))
    assert twins.rows("v") == [(1, 1), (6, 1), (7, 1), (None, 1)]
    assert twins.compiled


def test_views_come_and_go_while_compiled(twins: Twins) -> None:
    queries = [
        "select t.k, sum(x * w) as a from t join u on t.k = u.k group by t.k",
        "select sum(y * w) as b, count(*) as n from t join u on t.k = u.k",
        "select sum(x * w) as b from t join u on t.k = u.k where y > 0",
        "select k, min(x) as lo, max(y) as hi from t group by k",
        "select distinct x, y from t",
        "select t.k, sum(x) as a from t left join u on t.k = u.k group by t.k",
        "select x, (select sum(w) from u where u.k < t.x) as s from t",
    ]
    twins.sql("CREATE TABLE t (k int, x int, y int not null); CREATE TABLE u (k int, w int not null)")
    random = Random(4)
    for _ in range(70):
        name, query = f"v{random.randrange(5)}", random.choice(queries)
        exists = name in twins.plain.mill.views
        match random.random():
            case chance if chance < 0.3 and not exists:
                twins.view(name, query, random.choice(STRATEGIES))
            case chance if chance < 0.45 and exists:
                for twin in (twins.plain, twins.fast):
                    twin.told.pop(name, None)
                twins.sql(f"DROP MATERIALIZED VIEW {name}")
            case chance if chance < 0.55 and exists:
                for twin in (twins.plain, twins.fast):
                    twin.told.pop(name, None)
                twins.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}")
            case _:
                twins.insert("t", *(tuple(random.randrange(-1, 3) for _ in range(3)) for _ in range(3)))
                twins.insert("u", *(tuple(random.randrange(-1, 3) for _ in range(2)) for _ in range(2)))
    assert twins.compiled


def test_a_pool_outlives_the_store_it_is_named_after(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, x int, y int); CREATE TABLE u (k int, w int)")
    twins.insert("t", (1, 5, 2), (2, 6, 3), (1, None, 4))
    twins.insert("u", (1, 1), (2, 2))
    joined = "from t join u on t.k = u.k"
    twins.view("v1", f"select sum(x * w) as a, count(*) as n {joined}", "recursive")
    twins.view("v2", f"select count(*) as n {joined}", "recursive")
    del twins.plain.told["v1"], twins.fast.told["v1"]
    twins.sql("DROP MATERIALIZED VIEW v1")
    twins.view("v3", f"select sum(y * w) as a {joined}", "recursive")
    twins.insert("t", (1, 5, 2), (2, 6, 3))
    twins.insert("u", (1, 1), (2, 2))
    twins.delete("t", (1, None, 4))
    assert twins.rows("v3") == [(2 * 2 * 2 + 2 * 4 * 3,)]


def test_names_that_the_engine_gives_itself_may_be_taken(twins: Twins) -> None:
    twins.sql("CREATE TABLE set_1 (k int, s string); CREATE TABLE q (k int)")
    twins.view("rows_1", "select k, count(*) as n from set_1 group by k")
    twins.view(
        "set_2", "select k, count(distinct s) as n from set_1 where k in (select k from q) group by k", "recursive"
    )
    twins.view("rows", "select k from q union select k from set_1")
    for i in range(3):
        twins.insert("set_1", (1, "a"), (2, "b"))
        twins.insert("q", (i,))
    assert twins.rows("set_2") == [(1, 1), (2, 1)]


@pytest.mark.parametrize("room", [2, 8])
def test_a_store_may_be_sliced_in_many_ways(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "SPARE_SLICES", room)
    monkeypatch.setattr(pools, "MOST_SPARE_SLICES", room)
    twins = Twins(monkeypatch)
    twins.sql("CREATE TABLE t (a int, b int, c int, d int); CREATE TABLE s (x int, y int, z int)")
    for columns in ("a", "b", "c", "d", "ab", "ac", "ad", "bc", "bd", "cd", "abc"):
        on = " and ".join(f"t.{t} = s.{s}" for t, s in zip(columns, "xyz", strict=False))
        twins.view(f"v_{columns}", f"select t.*, s.z from t join s on {on}", "first_order")
    random = Random(2)
    for _ in range(3):
        twins.insert("t", *(tuple(random.randrange(3) for _ in range(4)) for _ in range(4)))
        twins.insert("s", *(tuple(random.randrange(3) for _ in range(3)) for _ in range(2)))
    assert twins.rows("v_ab")
    assert twins.compiled


# --- what was wrong once


def test_sets_of_statements_that_run_by_themselves_are_their_own(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, s string)")
    twins.view("v", "select count(distinct s) as c, sum(distinct k) as s, count(distinct k) as n from t", "reevaluate")
    twins.insert("t", (1, "a"), (2, "b"), (2, "c"))
    assert twins.rows("v") == [(3, 3, 2)]


def test_subscribers_hear_of_what_no_change_restricts(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int); CREATE TABLE s (k int); CREATE TABLE e (x int)")
    twins.view("v", "select distinct t.k from t left anti join s on t.k = s.k, e", "reevaluate")
    twins.insert("t", (1,), (2,))
    twins.insert("e", (1,))
    twins.insert("s", (2,))
    twins.delete("e", (1,))
    assert twins.rows("v") == []


def test_a_record_may_be_there_for_another_lane(twins: Twins) -> None:
    """The sum of volumes is 0 where their number is not: the store and its change have the row, once."""
    twins.sql("CREATE TABLE t (k int, s string); CREATE TABLE u (k int, s string, w int not null)")
    twins.view("v", "select k, s from t where (select sum(w) from u where u.k = t.k and u.s < t.s) > 7", "recursive")
    twins.insert("t", (1, "m"))
    for row in [(1, "a", 0), (1, "a", 5), (1, "a", 3), (1, "b", 0), (1, "b", -1)]:
        twins.insert("u", row)
    assert twins.rows("v") == []


@pytest.mark.parametrize(
    "query",
    [
        "select ceil(f) as c, floor(f) as f, sign(f) as s from t",
        "select ceil(m) as c, round(m, 1) as r, floor(m, 1) as f from t",
        "select d + interval 1 day as x, ts + interval 2 days as y, ts + interval 1 month as z from t",
        "select case when f > 1 then m else 0 end as x, coalesce(f, m) as y, greatest(m, 2) as z from t",
    ],
)
def test_values_have_the_type_of_what_computes_them(query: str, twins: Twins) -> None:
    twins.sql("CREATE TABLE t (f double, m decimal(10,2), d date, ts timestamp)")
    twins.view("v", query)
    moment = datetime(2024, 2, 28, 12)
    twins.insert("t", (2.5, Decimal("1.25"), date(2024, 2, 28), moment), (-0.5, Decimal("-1.25"), None, None))
    twins.insert("t", (None, None, date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 999999)))
    twins.delete("t", (-0.5, Decimal("-1.25"), None, None))
    assert twins.compiled


def test_a_date_has_to_be_in_the_calendar(twins: Twins) -> None:
    twins.sql("CREATE TABLE t (d date)")
    twins.view("v", "select date_add(d, 1) as e from t")
    twins.insert("t", (date(9999, 12, 30),))
    assert twins.do(lambda mill: mill.insert("t", [(date(9999, 12, 31),)]))
    assert twins.rows("v") == [(date(9999, 12, 31),)]


@pytest.mark.parametrize(
    "query",
    [
        "select s, count(*) as n from t group by s",
        "select concat(s, '-', s) as c, upper(s) as u, substring(s, 2, 2) as p, length(s) as l from t",
        "select case when s is null then 'none' when s like '%a%' then s else '' end as c, count(*) from t group by 1",
        "select min(s) as lo, max(s) as hi, count(distinct s) as n from t",
        "select x.s, (select count(*) from t y where y.s < x.s) as below from t x",
        "select s from t where s not in (select s from t where k = 1)",
        "select k, f, count(*) as n, min(f) as lo, max(f) as hi from t group by k, f",
        "select -f as g, count(*) as n from t group by -f",
        "select x.k from t x join t y on x.f = y.f and x.s <> y.s",
        "select b, count(*) as n, count(*) filter (where not b or k > 1) as m from t group by b",
    ],
)
def test_nasty_values(query: str, twins: Twins) -> None:
    twins.sql("CREATE TABLE t (k int, s string, f double, b boolean)")
    twins.view("v", query)
    random, here = Random(1), []
    texts = [None, "", "a", "A", "ab", "a\0b", "\0", "é", "😀", "😀a", "z" * 300, " ", "%"]
    doubles = [None, 0.0, -0.0, 1.5, -1.5, INFINITE, -INFINITE, NAN, 5e-324, 1e300]
    for _ in range(6):
        new = [
            (
                random.choice([None, 1, 2]),
                random.choice(texts),
                random.choice(doubles),
                random.choice([None, True, False]),
            )
            for _ in range(5)
        ]
        here += new
        twins.insert("t", *new)
        random.shuffle(here)
        twins.delete("t", here.pop(), here.pop())
    twins.delete("t", *here)
    assert twins.compiled
