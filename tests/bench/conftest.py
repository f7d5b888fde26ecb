"""A little TPC-H data: some hundred rows, cut so that joins still meet."""

from __future__ import annotations

import pytest

from viewmill.bench.data import ensure, load

ROWS = {"lineitem": 400, "orders": 120, "partsupp": 160, "part": 40, "customer": 60}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tpch")


@pytest.fixture(scope="session")
def data(folder):
    whole = load(ensure(0.001, folder))
    return {name: batch.slice(0, ROWS.get(name, batch.num_rows)) for name, batch in whole.items()}
