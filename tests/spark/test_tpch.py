"""All TPC-H views in one mill on Spark equal Spark SQL on the same tables, types included, after every batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import viewmill
from viewmill.bench import data
from viewmill.bench.orders import Changed, Orders
from viewmill.bench.queries import schema_sql, tpch_queries
from viewmill.bench.reference import SPARK_JOBS, SPARK_STAGES
from viewmill.bench.truth import compare
from viewmill.engines.spark.jobs import counting
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> data.Data:
    tables = data.load(data.ensure(0.001, tmp_path_factory.mktemp("tpch")))
    # With ten suppliers, the generator gives some parts the same one twice.
    partsupp = tables["partsupp"]
    keys = zip(partsupp["ps_partkey"].to_pylist(), partsupp["ps_suppkey"].to_pylist(), strict=True)
    places = list({key: place for place, key in enumerate(keys)}.values())
    return {**tables, "partsupp": partsupp.take(pa.array(places))}


def mill_of(spark: SparkSession, folder: Path, names: list[str], *, stored: bool) -> SparkMill:
    mill = viewmill.connect(spark=spark, checkpoint=str(folder), buckets=4)
    mill.sql(schema_sql().replace("stored = false", "stored = true") if stored else schema_sql())
    for name in names:
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {tpch_queries()[name].sql}")
    return mill


def take(mill: SparkMill, changes: dict[str, Changed], *, stored: bool) -> None:
    with mill.batch() as batch:
        for name, changed in changes.items():
            if stored:
                batch.delete(name, changed.deleted)
                batch.update(name, changed.after)
                batch.insert(name, changed.inserted)
            else:
                batch.delete(name, pa.concat_tables([changed.deleted, changed.before]))
                batch.insert(name, pa.concat_tables([changed.inserted, changed.after]))


def check(mill: SparkMill, spark: SparkSession, tables: dict[str, pa.Table]) -> None:
    for name, rows in tables.items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    for name in mill.views:
        query = tpch_queries()[name]
        answer = spark.sql(query.sql)
        candidates = answer if query.limit is None else spark.sql(query.unlimited)
        view = mill.view(name).to_df()
        assert [(f.name, f.dataType) for f in view.schema] == [(f.name, f.dataType) for f in answer.schema], name
        wrong = compare(view.toArrow(), answer.toArrow(), candidates.toArrow(), query.sorted_by)
        assert not wrong, f"{name}: {wrong}"


@pytest.mark.parametrize("stored", [False, True], ids=["feed", "stored"])
def test_some_views(spark, tables, tmp_path, stored):
    follow(spark, tables, tmp_path, ["q03", "q06", "q13", "q18"], batches=2, stored=stored)


@pytest.mark.exhaustive
@pytest.mark.parametrize("stored", [False, True], ids=["feed", "stored"])
def test_all_views(spark, tables, tmp_path, stored):
    follow(spark, tables, tmp_path, list(tpch_queries()), batches=5, stored=stored)


def follow(
    spark: SparkSession, tables: data.Data, folder: Path, names: list[str], *, batches: int, stored: bool
) -> None:
    orders = Orders(tables)
    mill = mill_of(spark, folder, names, stored=stored)
    mill.apply(**orders.start)
    check(mill, spark, orders.tables)
    for changes in orders.batches(batches, 0.1):
        take(mill, changes, stored=stored)
        check(mill, spark, orders.tables)


def test_any_column_of_any_table(spark, tables, tmp_path):
    touch(spark, tables, tmp_path, ["q11", "q16"], batches=2, stored=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("stored", [False, True], ids=["feed", "stored"])
def test_any_column_of_any_table_under_all_views(spark, tables, tmp_path, stored):
    touch(spark, tables, tmp_path, list(tpch_queries()), batches=4, stored=stored)


def touch(
    spark: SparkSession, tables: data.Data, folder: Path, names: list[str], *, batches: int, stored: bool
) -> None:
    """Each batch changes all tables, and of a row also columns that no view reads."""
    random = np.random.default_rng(5)
    now = {name: pa.table(rows) for name, rows in tables.items()}
    away = {name: rows.slice(0, 0) for name, rows in now.items()}
    mill = mill_of(spark, folder, names, stored=stored)
    mill.apply(**now)
    check(mill, spark, now)
    for _ in range(batches):
        changes = {}
        for name, there in now.items():
            fate = random.choice(["stays", "changes", "goes"], len(there), p=[0.8, 0.15, 0.05])
            before, gone = (there.filter(pa.array(fate == word)) for word in ("changes", "goes"))
            after = mixed(before, key_of(mill, name), random)
            changes[name] = Changed(away[name], gone, before, after)
            now[name] = pa.concat_tables([there.filter(pa.array(fate == "stays")), after, away[name]]).combine_chunks()
            away[name] = gone
        take(mill, changes, stored=stored)
        check(mill, spark, now)


def mixed(rows: pa.Table, key: tuple[str, ...], random: np.random.Generator) -> pa.Table:
    """One column that is not in the key has its values in another order."""
    place = int(random.choice([at for at, name in enumerate(rows.column_names) if name not in key]))
    order = pa.array(random.permutation(len(rows)))
    return rows.set_column(place, rows.schema.field(place), rows.column(place).take(order))


def key_of(mill: SparkMill, table: str) -> tuple[str, ...]:
    return mill._definitions.catalog.relations[table].primary_key


@pytest.mark.parametrize("names", [["q01"], ["q03"], ["q01", "q06"]], ids="+".join)
def test_jobs_and_stages(spark, tables, tmp_path, names):
    assert_at_most(spark, tables, tmp_path, names, *worst(names))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(tpch_queries()))
def test_jobs_and_stages_of_every_query(spark, tables, tmp_path, name):
    assert_at_most(spark, tables, tmp_path, [name], *worst([name]))


def worst(names: list[str]) -> tuple[int, int]:
    numbers = [int(name[1:]) - 1 for name in names]
    return max(SPARK_JOBS[i] for i in numbers), max(SPARK_STAGES[i] for i in numbers)


def assert_at_most(
    spark: SparkSession, tables: data.Data, folder: Path, names: list[str], jobs: int, stages: int
) -> None:
    """For a batch that changes every table that the queries read."""
    mill = mill_of(spark, folder, names, stored=False)
    read = sorted({table for name in names for table in tpch_queries()[name].reads})
    mill.apply(**{name: tables[name].slice(0, 5) for name in read})
    with counting(spark) as cost:
        mill.apply(**{name: tables[name].slice(5, 20) for name in read})
    assert cost().jobs <= jobs
    assert cost().stages <= stages
