"""Where the demo runs: on Spark, or in this process. Both take the same batches and are checked by another engine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from time import perf_counter
from typing import Protocol

import pyarrow as pa

from viewmill.bench.orders import Changed
from viewmill.bench.queries import Query, schema_sql
from viewmill.bench.truth import compare
from viewmill.session import Mill, connect
from viewmill.view import View


class Place(Protocol):
    """A mill, and something else that can answer the same queries."""

    name: str
    oracle: str

    def define(self, queries: list[Query]) -> None: ...

    def fill(self, tables: Mapping[str, pa.Table]) -> None: ...

    def take(self, changes: Mapping[str, Changed]) -> None: ...

    def view(self, name: str) -> View: ...

    def check(self, queries: list[Query], tables: Mapping[str, pa.Table]) -> dict[str, tuple[str, float]]:
        """For each view what is wrong with it, if anything, and the seconds it took to compute it anew."""


class Embedded:
    """In this process. DuckDB checks."""

    def __init__(self) -> None:
        self.name, self.oracle = "embedded", "DuckDB"
        self._mill: Mill = connect()

    def define(self, queries: list[Query]) -> None:
        self._mill.sql(schema_sql())
        for query in queries:
            self._mill.sql(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")

    def fill(self, tables: Mapping[str, pa.Table]) -> None:
        with self._mill.batch() as batch:
            for name, rows in tables.items():
                batch.insert(name, rows)

    def take(self, changes: Mapping[str, Changed]) -> None:
        with self._mill.batch() as batch:
            for name, changed in changes.items():
                batch.delete(name, pa.concat_tables([changed.deleted, changed.before]))
                batch.insert(name, pa.concat_tables([changed.inserted, changed.after]))

    def view(self, name: str) -> View:
        return self._mill.view(name)

    def check(self, queries: list[Query], tables: Mapping[str, pa.Table]) -> dict[str, tuple[str, float]]:
        import duckdb

        found = {}
        with duckdb.connect() as connection:
            for name, table in tables.items():
                connection.register(f"{name}_given", table)
                connection.sql(f"CREATE TABLE {name} AS SELECT * FROM {name}_given")
            for query in queries:
                start = perf_counter()
                answer = connection.sql(query.sql).to_arrow_table()
                seconds = perf_counter() - start
                candidates = answer if query.limit is None else connection.sql(query.unlimited).to_arrow_table()
                view = self.view(query.name).to_arrow()
                found[query.name] = compare(view, answer, candidates, query.sorted_by), seconds
        return found


class OnSpark:
    """On Spark, in `local[*]`. Spark SQL checks, over cached tables."""

    def __init__(self) -> None:
        from viewmill.engines.spark.session import spark_session  # Spark takes seconds to start

        self.name, self.oracle = "Spark", "Spark SQL"
        self._spark = spark_session()
        self._folder = tempfile.TemporaryDirectory(prefix="viewmill-demo-")
        self._mill = connect(spark=self._spark, checkpoint=f"{self._folder.name}/checkpoint")

    def define(self, queries: list[Query]) -> None:
        self._mill.sql(schema_sql())
        for query in queries:
            self._mill.sql(f"CREATE MATERIALIZED VIEW {query.name} AS {query.sql}")

    def fill(self, tables: Mapping[str, pa.Table]) -> None:
        self._mill.apply(**{name: self._spark.createDataFrame(rows) for name, rows in tables.items()})

    def take(self, changes: Mapping[str, Changed]) -> None:
        frame = self._spark.createDataFrame
        with self._mill.batch() as batch:
            for name, changed in changes.items():
                batch.delete(name, frame(pa.concat_tables([changed.deleted, changed.before])))
                batch.insert(name, frame(pa.concat_tables([changed.inserted, changed.after])))

    def view(self, name: str) -> View:
        return self._mill.view(name)

    def check(self, queries: list[Query], tables: Mapping[str, pa.Table]) -> dict[str, tuple[str, float]]:
        for name, rows in tables.items():
            frame = self._spark.createDataFrame(rows).cache()
            frame.count()
            frame.createOrReplaceTempView(name)
        found = {}
        for query in queries:
            self._spark.sql(query.sql).toArrow()  # once before: nothing that is timed is done for the first time
            start = perf_counter()
            answer = self._spark.sql(query.sql).toArrow()
            seconds = perf_counter() - start
            candidates = answer if query.limit is None else self._spark.sql(query.unlimited).toArrow()
            view = self.view(query.name).to_arrow()
            found[query.name] = compare(view, answer, candidates, query.sorted_by), seconds
        return found
