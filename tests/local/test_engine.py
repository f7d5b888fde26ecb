"""The compiled engine keeps the stores that the interpreter keeps, row for row, on programs of TPC-H queries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tpch_data import tpch
from tpch_schema import tpch_catalog
from workload import Churn

from viewmill.catalog import Catalog, ColumnInfo, RelationInfo
from viewmill.definition import define
from viewmill.engines.interpreter import Interpreter
from viewmill.engines.local.run import LocalEngine
from viewmill.errors import DataError, UnsupportedError
from viewmill.materialize.compile import ViewSpec, add_view
from viewmill.program.nodes import EMPTY
from viewmill.sql.bind import bind
from viewmill.types import BIGINT, STRING

pytestmark = pytest.mark.slow  # machine code is made on first use, which takes longer than the tests

QUERIES = Path(__file__).parents[1] / "fixtures" / "tpch"
BATCHES = 6


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIEWMILL_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


def program_of(sql, catalog, maintain="recursive"):
    definition = define("v", sql, bind(sql, catalog))
    return add_view(EMPTY, ViewSpec("v", definition.expr, definition.fields, maintain), catalog, {})


def batches():
    """Net changes of all eight tables, step by step."""
    churn = Churn(tpch().tables, 5)
    churn.load(tpch().initial)
    old: dict[str, Counter] = {}
    for step in range(BATCHES):
        if step:
            churn.step()
        new = {name: Counter(rows) for name, rows in churn.snapshot().items()}
        yield {name: _difference(rows, old.get(name, Counter())) for name, rows in new.items()}
        old = new


def _difference(new, old):
    return {row: count for row in {**old, **new} if (count := new[row] - old[row])}


# One of each kind: a filter and a sum; EXISTS; an outer join; a nested aggregate; MIN in a subquery; a CTE with MAX.
@pytest.mark.parametrize("query", ["q06", "q04", "q13", "q17", "q15"])
def test_stores_are_those_of_the_interpreter(query):
    catalog = tpch_catalog()
    program = program_of((QUERIES / f"{query}.sql").read_text(), catalog)
    compiled, plain = LocalEngine(catalog), Interpreter()
    compiled.install(program, {})
    plain.install(program, {})
    for batch in batches():
        plain.apply(batch)
        compiled.apply(batch)
        for store in program.stores:
            assert compiled.store(store) == plain.store(store), store
    assert compiled.nbytes > 0


def two_columns(kind):
    info = RelationInfo("r", (ColumnInfo("a", BIGINT), ColumnInfo("b", kind)))
    return Catalog().with_relation(info)


def test_a_batch_that_overflows_changes_nothing():
    catalog = two_columns(BIGINT)
    program = program_of("select a, sum(b * b) as s from r group by a", catalog)
    engine = LocalEngine(catalog)
    engine.install(program, {"r": {(1, 3): 1}})
    before = {name: engine.store(name) for name in program.stores}
    with pytest.raises(DataError, match="64 bits"):
        engine.apply({"r": {(1, 4): 1, (2, 2**40): 1}})
    assert {name: engine.store(name) for name in program.stores} == before
    engine.apply({"r": {(1, 4): 1}})
    assert any(weight == 25 for name in program.stores for weight in engine.store(name).values())


def test_stores_are_filled_from_rows_that_are_there():
    catalog = two_columns(STRING)
    sql = "select b, count(*) as n from r where b like 'x%' group by b"
    program = program_of(sql, catalog)
    rows = {(1, "x1"): 2, (2, "y"): 1, (3, None): 1, (4, "x2"): 1}
    engine, plain = LocalEngine(catalog), Interpreter()
    engine.install(program, {"r": rows})
    plain.install(program, {"r": rows})
    for name in program.stores:
        assert engine.store(name) == plain.store(name)


def test_what_it_has_no_code_for_is_refused_with_the_reason():
    catalog = two_columns(STRING)
    program = program_of("select count(*) as n from r x, r y where x.b < y.b", catalog)
    with pytest.raises(UnsupportedError, match="the order of two strings"):
        LocalEngine(catalog).install(program, {})
