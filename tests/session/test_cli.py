"""The command line mirrors the session."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from viewmill.cli import app

PIPELINE = """
CREATE TABLE orders (id INT PRIMARY KEY, region STRING, price DECIMAL(10, 2));
CREATE MATERIALIZED VIEW revenue AS SELECT region, sum(price) AS total FROM orders GROUP BY region ORDER BY region;
INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 20);
"""


@pytest.fixture
def pipeline(tmp_path):
    file = tmp_path / "pipeline.sql"
    file.write_text(PIPELINE)
    return file


def viewmill(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_run_prints_the_views(pipeline):
    output = viewmill("run", pipeline)
    assert "view revenue, version 1, 2 rows" in output and "south" in output and "20.00" in output


def test_run_prints_answers(pipeline):
    pipeline.write_text(PIPELINE + "SELECT total FROM revenue WHERE region = 'north'")
    output = viewmill("run", pipeline)
    assert "10.00" in output and "20.00" not in output


def test_run_loads_files_in_one_batch(pipeline, tmp_path):
    pyarrow.parquet.write_table(pa.table({"id": [3], "region": ["west"], "price": ["5"]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("id,region,price\n4,east,7.25\n")
    output = viewmill("run", pipeline, "--load", f"orders={tmp_path}/a.parquet", "--load", f"orders={tmp_path}/b.csv")
    assert "version 2, 4 rows" in output and "7.25" in output


def test_explain_status_verify(pipeline):
    assert "on orders:" in viewmill("explain", pipeline, "revenue")
    assert "d_orders(" in viewmill("explain", pipeline, "--stage", "delta")
    assert "revenue" in viewmill("status", pipeline)
    assert "view revenue is right: 2 rows" in viewmill("verify", pipeline)


def test_errors_are_messages(pipeline):
    assert 'BindError: there is no view "nope"' in viewmill("explain", pipeline, "nope", code=1)
    assert "names no table" in viewmill("run", pipeline, "--load", "nope=x.csv", code=1)
    assert "there is no file" in viewmill("run", pipeline, "--load", "orders=x.csv", code=1)
    pipeline.write_text("SELECT 1 +")
    assert "ParseError" in viewmill("run", pipeline, code=1)


def test_demo(tmp_path):
    output = viewmill("demo", "--engine", "local", "--scale", "0.001", "--batches", "3", "--data", str(tmp_path))
    assert output.count("yes") == 6
    assert "batch 3: " in output and "times as long" in output
