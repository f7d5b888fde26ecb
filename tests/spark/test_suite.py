"""The small queries of the SQL suite as views of mills on Spark, against DuckDB after every batch.

At the end they are compared with Spark SQL over the same tables as well, their types included. All queries of a theme
are views of one mill, so that a batch is one job for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest
import sqlglot
from follow import Story, failures, tell
from oracle import Answer, Question, disagreement, questions_of, rows_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from sqlglot import exp
from workload import SUITE, Batch, Churn, Database, Operation, Table

import viewmill
from viewmill.spark_mill import SparkMill

pytestmark = pytest.mark.spark

QUERIES = Path(__file__).parents[1] / "fixtures" / "queries"
THEMES = sorted(file.stem for file in QUERIES.glob("*.txt"))
BUCKETS = 3


def test_one_query_of_each_theme(spark: SparkSession, tmp_path: Path):
    """Every kind of query together in one mill; which one of a theme it is, is left to chance."""
    themes = {theme: list(questions_of(QUERIES / f"{theme}.txt")) for theme in THEMES}
    some = [questions[crc32(theme.encode()) % len(questions)] for theme, questions in themes.items()]
    follow(spark, tmp_path, some, seed=5, stored=True, changes=2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "feed"])
@pytest.mark.parametrize("theme", THEMES)
def test_all_queries(spark: SparkSession, tmp_path: Path, theme: str, stored: bool):
    seed = crc32(theme.encode()) + stored
    follow(spark, tmp_path, list(questions_of(QUERIES / f"{theme}.txt")), seed=seed, stored=stored, changes=2)


def follow(
    spark: SparkSession, folder: Path, questions: Sequence[Question], *, seed: int, stored: bool, changes: int
) -> None:
    last: dict[str, Database] = {}
    story = tell(SUITE, questions, remembered(steps(seed, changes), last))
    mills: list[SparkMill] = []

    def connect() -> SparkMill:
        place = str(folder / f"checkpoint-{len(mills)}")
        mills.append(viewmill.connect(spark=spark, checkpoint=place, buckets=BUCKETS))
        return mills[-1]

    wrong = failures(in_one_go(story) if stored else fed(story), "auto", connect)
    assert not wrong, "\n\n".join(wrong)
    wrong = list(unlike_spark(spark, mills[-1], questions, last["database"]))
    assert not wrong, "\n\n".join(wrong)


def steps(seed: int, changes: int) -> Iterator[tuple[Batch, Database]]:
    """Tables that fill, change, empty, fill again and change."""
    churn = Churn(SUITE, seed)
    yield churn.start(rows=12), churn.snapshot()
    for _ in range(changes):
        yield churn.step(), churn.snapshot()
    yield churn.clear(), churn.snapshot()
    yield churn.start(rows=8), churn.snapshot()
    yield churn.step(), churn.snapshot()


def remembered(steps: Iterator[tuple[Batch, Database]], last: dict[str, Database]) -> Iterator[tuple[Batch, Database]]:
    for batch, database in steps:
        last["database"] = database
        yield batch, database


def in_one_go(story: Story) -> Story:
    """The same batches in fewer operations: each is a DataFrame. Those of one table stay in their order."""
    return replace(story, batches=tuple(_fewer(batch) for batch in story.batches))


def _fewer(batch: Batch) -> Batch:
    """Updates stay single: the second one of a row must come after the first."""
    numbered = sorted(enumerate(batch), key=lambda pair: pair[1].table)
    runs = groupby(numbered, lambda pair: (pair[1].table, pair[1].kind, pair[0] if pair[1].kind == "update" else 0))
    return tuple(
        Operation(kind, table, tuple(row for _, one in run for row in one.rows)) for (table, kind, _), run in runs
    )


def fed(story: Story) -> Story:
    """The same with tables that keep no rows: they are told what is gone and what is new."""
    tables = tuple(replace(table, ddl=f"{table.ddl} WITH (stored = false)") for table in story.tables)
    kept: dict[str, Counter[tuple[object, ...]]] = {table.name: Counter() for table in tables}
    return replace(story, tables=tables, batches=tuple(_net(batch, kept, tables) for batch in story.batches))


def _net(batch: Batch, kept: dict[str, Counter[tuple[object, ...]]], tables: Sequence[Table]) -> Batch:
    before = {name: Counter(rows) for name, rows in kept.items()}
    keys = {table.name: table.key for table in tables}
    for operation in batch:
        rows, key = kept[operation.table], keys[operation.table]
        for row in operation.rows:
            if operation.kind == "update":
                rows[next(old for old in +rows if all(old[i] == row[i] for i in key))] -= 1
            rows[row] += -1 if operation.kind == "delete" else 1
    found = []
    for name, rows in kept.items():
        gone, new = before[name] - rows, rows - before[name]
        found += [Operation("delete", name, tuple(gone.elements()))] if gone else []
        found += [Operation("insert", name, tuple(new.elements()))] if new else []
    return tuple(found)


# --- against Spark SQL


def unlike_spark(
    spark: SparkSession, mill: SparkMill, questions: Sequence[Question], database: Database
) -> Iterator[str]:
    """What Spark SQL says differently of the tables as they are."""
    try:
        for table in SUITE:
            rows = [dict(zip(table.schema.names, row, strict=True)) for row in database[table.name]]
            spark.createDataFrame(pa.Table.from_pylist(rows, table.schema)).createOrReplaceTempView(table.name)
        for number, question in enumerate(questions):
            if wrong := _unlike(spark, mill, f"v{number}", question):
                yield f"{question.title}\n{question.sql}\n{wrong}"
    finally:
        for table in SUITE:
            spark.catalog.dropTempView(table.name)


def _unlike(spark: SparkSession, mill: SparkMill, name: str, question: Question) -> str:
    try:
        answer = spark.sql(_for_spark(question))
        truth = answer.toArrow()
    except AnalysisException:
        return ""  # we understand some queries that Spark does not: those correlated over two levels
    except Py4JJavaError as error:
        if "Cannot generate code for expression: outer(" not in str(error):
            raise
        return ""  # it is correlated over two levels, and Spark has not noticed
    view = mill.view(name).to_df()
    theirs, ours = ([(f.name.lower(), f.dataType) for f in frame.schema] for frame in (answer, view))
    if theirs != ours:
        return f"columns {ours}\ninstead of {theirs}"
    if question.query.find(exp.Limit, exp.Offset) is not None:
        # Which of rows that tie are within a limit is up to each. Also, Spark 4.3 forgets the order of a limited
        # subquery over which the select list has a correlated one, and takes any rows.
        return ""
    return disagreement(question, rows_of(mill.view(name).to_arrow()), Answer(rows_of(truth), None))


def _for_spark(question: Question) -> str:
    """`x IN (subquery)` as a value is FALSE in Spark where SQL, DuckDB and we say NULL: there it is spelled out."""
    query = question.query.copy()
    tests = [test for test in query.find_all(exp.In) if "query" in test.args and _is_value(test)]
    for test in tests:
        among, value = f"{test.args['query'].sql('spark')} as among (member)", test.this.sql("spark")
        test.replace(
            sqlglot.parse_one(
                f"case when exists (select 1 from {among} where member = {value}) then true"
                f" when exists (select 1 from {among} where member is null or {value} is null) then null"
                " else false end",
                dialect="spark",
            )
        )
    return query.sql("spark") if tests else question.sql


def _is_value(test: exp.In) -> bool:
    """Whether it matters if it is FALSE or NULL: a condition holds for neither."""
    above = test.parent
    while isinstance(above, exp.Paren | exp.And | exp.Or | exp.Not):
        above = above.parent
    return not isinstance(above, exp.Where | exp.Having | exp.Join)
