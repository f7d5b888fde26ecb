"""The bar of a long job: it is there while the job runs, on a terminal only, and says how far Spark is."""

from __future__ import annotations

import io

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from viewmill.engines.spark import progress
from viewmill.engines.spark.jobs import grouped
from viewmill.engines.spark.progress import how_far, shown

pytestmark = pytest.mark.spark


def test_all_tasks_are_done_in_the_end(spark: SparkSession):
    context = spark.sparkContext
    with grouped(context) as group:
        spark.range(0, 1000, 1, 3).repartition(2).count()
    far = how_far(context, group)
    assert far.done == far.total >= 5


def test_a_bar_is_drawn_on_a_terminal(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "_MOMENT", 0.02)
    screen = io.StringIO()
    with shown(spark, "filling the views", Console(file=screen, force_terminal=True, width=80)):
        spark.range(0, 20, 1, 4).mapInPandas(_slowly, "id bigint").count()
    assert "filling the views" in screen.getvalue() and "tasks" in screen.getvalue()
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_nothing_is_drawn_elsewhere(spark: SparkSession):
    screen = io.StringIO()
    with shown(spark, "filling the views", Console(file=screen)):
        spark.range(10).count()
    assert screen.getvalue() == ""


def _slowly(batches):
    import time

    for batch in batches:
        time.sleep(0.2)
        yield batch
