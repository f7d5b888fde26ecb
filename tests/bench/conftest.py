"""A little TPC-H data: few enough rows that nothing is compiled for them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from viewmill.bench.data import ensure, load

ROWS = {"lineitem": 100, "orders": 40, "partsupp": 40, "part": 10, "customer": 60}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Data as the benchmark keeps it, for a scale factor of 0.001."""
    base = tmp_path_factory.mktemp("tpch")
    for name, batch in load(ensure(0.001, base / "whole")).items():
        file = base / "sf0.001" / f"{name}.arrow"
        file.parent.mkdir(exist_ok=True)
        with pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch.slice(0, ROWS.get(name, batch.num_rows)))
    return base


@pytest.fixture(scope="session")
def data(folder):
    return load(folder / "sf0.001")
