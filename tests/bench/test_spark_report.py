"""What is told of a run on Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from viewmill.bench.queries import tpch_queries
from viewmill.bench.spark_report import grids, read, save
from viewmill.bench.spark_run import Refresh, SparkPlan, SparkRun
from viewmill.cli import app
from viewmill.distribute import ALL_PASSES
from viewmill.errors import DataError


@pytest.fixture
def run() -> SparkRun:
    place = {"commit": "abc", "date": "today", "machine": "one", "versions": "some"}
    refreshes = [
        Refresh(("q03", "q06"), 20.0, (2.0, 3.0, 2.5), 1000, 1, 3, 2_000_000),
        Refresh(("q03",), 10.0, (0.5, 0.4, 0.5), 1000, 1, 2, 1_000_000),
        Refresh(("q06",), 5.0, (0.25, 0.25, 0.3), 900, 1, 1, None),
        Refresh(("q03",), 10.0, (1.5, 1.5, 1.5), 1000, 1, 4, 3_000_000, passes=()),
        Refresh(("q03",), 10.0, (1.0, 1.0, 1.0), 1000, 1, 3, 2_000_000, passes=ALL_PASSES[:1]),
    ]
    turns = {"q03": (2.0, 2.0, 9.0), "q06": (2.5, 2.5, 2.5)}
    return SparkRun(1.0, 0.01, 2, place, refreshes, {"q03": 5.0, "q06": 1.0}, 0.3, 0.15, turns)


def test_every_mill_is_compared_with_spark_sql(run):
    speed, cost, passes = grids(run)
    assert [row[0] for row in speed.rows] == ["2 views", "q03", "q06"]
    assert [row[-1] for row in speed.rows] == ["2.40x", "10.0x", "4.00x"]
    assert "2.00x a job of two Python stages" in speed.note
    assert "all 2 views take 4.00x to 10.0x as long as that one, 7.00x in the middle, and 6.00x the mean" in speed.note
    assert "Of 9 batches of all views, with the snapshots that were due, the mean is 3.11 s and the longest 9.00 s" in (
        speed.note
    )
    assert [row[1:] for row in cost.rows] == [
        ("1", "3", "2.00 MB", "-"),
        ("1", "2", "1.00 MB", "1, 3"),
        ("1", "1", "-", "1, 1"),
    ]
    assert [row[0] for row in passes.rows] == ["none", f"+ {ALL_PASSES[0]}", "all"]


def test_it_is_kept_as_text_as_data_and_as_a_picture(run, tmp_path):
    files = save(run, tmp_path / "new", "spark-sf1")
    assert [file.name for file in files] == [f"spark-sf1.{suffix}" for suffix in ("md", "json", "png", "svg")]
    assert all(file.stat().st_size for file in files)
    text = files[0].read_text()
    assert "![spark-sf1](spark-sf1.png)" in text and "Commit abc" in text
    assert json.loads(files[1].read_text())["refreshes"][1]["views"] == ["q03"]
    assert "q03" in files[3].read_text()
    assert read(files[1]) == run
    drawn = CliRunner().invoke(app, ["bench", "draw", str(files[1]), "--output", str(tmp_path / "again")])
    assert drawn.exit_code == 0 and "What a batch costs Spark" in drawn.output
    assert (tmp_path / "again/spark-sf1.md").read_text() == text


def test_what_is_no_result_of_spark_is_told(tmp_path):
    file = tmp_path / "some.json"
    file.write_text('{"cells": []}')
    assert read(file) is None
    file.write_text('{"refreshes": [], "turns": {}, "scale": 1}')
    with pytest.raises(DataError, match="cannot read results from .*some.json"):
        read(file)


def test_a_mill_whose_tables_do_not_change_is_left_out(run):
    run.refreshes.insert(3, Refresh(("q02",), 5.0, (0.00001,), 0, 0, 0, 0))
    run.recomputed["q02"] = 1.0
    speed, cost, _ = grids(run)
    assert "q02" not in [row[0] for row in (*speed.rows, *cost.rows)]
    assert "Batches change nothing that q02 read" in speed.note


def test_the_largest_mill_is_measured_last():
    """What comes first is measured while the JVM compiles."""
    some = tuple(tpch_queries()[name] for name in ("q03", "q06", "q07"))
    plan = SparkPlan(some, some[:2], 1.0, 0.01, 7, 2, Path(), "1g")
    assert sorted(plan.order) == list(range(len(plan.mills)))
    assert plan.mills[plan.order[-1]] == (some, ALL_PASSES)


@pytest.mark.parametrize("alone, chosen", [(("q01", "q03", "q06"), "q03"), (("q06", "q07"), "q06"), ((), None)])
def test_one_query_is_measured_with_some_passes_only_all_in_a_row(alone, chosen):
    some = tuple(tpch_queries()[name] for name in alone)
    plan = SparkPlan((), some, 1.0, 0.01, 7, 2, Path(), "1g")
    counts = [len(passes) for (query,), passes in plan.mills if query.name == chosen]
    assert counts == (list(range(len(ALL_PASSES) + 1)) if chosen else [])
    assert [query.name for (query,), passes in plan.mills if passes == ALL_PASSES] == list(alone)
    without = replace(plan, passes=False)
    assert [passes for _, passes in without.mills] == [ALL_PASSES] * len(alone)
