"""The queries in the package are those of the tests, and are read correctly."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpch_schema import TPCH_SCHEMA, catalog_of

from viewmill.bench.queries import KEYS, TABLES, chosen_queries, schema_sql, tpch_queries
from viewmill.errors import BindError
from viewmill.session import Mill

FIXTURES = Path(__file__).parents[1] / "fixtures" / "tpch"


def test_there_are_the_same_22():
    ours = {name: query.sql.split() for name, query in tpch_queries().items()}
    assert ours == {file.stem: file.read_text().split() for file in FIXTURES.glob("q*.sql")}


def test_the_schema_is_the_same_but_for_keeping_rows():
    ours, theirs = catalog_of(schema_sql()).relations, catalog_of(TPCH_SCHEMA).relations
    assert set(ours) == set(theirs) == set(TABLES)
    for name in TABLES:
        assert ours[name].columns == theirs[name].columns
        assert ours[name].primary_key == theirs[name].primary_key == KEYS[name]
        assert not ours[name].stored


@pytest.mark.parametrize("name", ["q01", "q13", "q16", "q22"])
def test_a_query_reads_what_the_view_follows(name):
    query = tpch_queries()[name]
    mill = Mill()
    mill.sql(schema_sql())
    mill.sql(query.create("recursive"))
    assert {line.relation for line in mill.status().view(name).maintenance} == set(query.reads)


def test_order_and_limit():
    query = tpch_queries()["q02"]
    assert query.limit == 100 and query.sorted_by == ("s_acctbal", "n_name", "s_name", "p_partkey")
    assert "limit" not in query.unlimited and "order by" in query.unlimited
    assert tpch_queries()["q06"].limit is None and tpch_queries()["q06"].sorted_by == ()


def test_queries_by_name():
    assert [query.name for query in chosen_queries("q17, Q01")] == ["q17", "q01"]
    assert len(chosen_queries("")) == 22
    with pytest.raises(BindError, match="there is no query 'q23'"):
        chosen_queries("q23")
