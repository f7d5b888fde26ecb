"""A sink under a name of Spark's catalog.

The rows are in files, as for a place that is a path; the name is a view of the catalog over them. For mode "versioned"
it is replaced when the version is there, which the catalog does at once: a query sees one version or the other.
"""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from viewmill.errors import DataError
from viewmill.sinks.changes import ChangesSink
from viewmill.sinks.sink import Moment
from viewmill.sinks.versioned import VersionedSink
from viewmill.wording import quoted

_OWNER = "viewmill.view"
_TABLE = re.compile(r"\w+(\.\w+){0,2}")


def is_table(target: str) -> bool:
    """`name`, `schema.name` or `catalog.schema.name`; everything else is a path."""
    return _TABLE.fullmatch(target) is not None


class TableSink:
    """`inner` writes the files."""

    def __init__(self, spark: SparkSession, name: str, owner: str, inner: VersionedSink | ChangesSink) -> None:
        """`owner` names the mill and the view: a name of the catalog that is anything else's is refused."""
        self.place = name
        self._spark = spark
        self._owner = owner
        self._inner = inner
        self._shown: str | None = None
        self._check()

    @property
    def view(self) -> str:
        return self._inner.view

    def take(self, moment: Moment) -> None:
        self._inner.take(moment)
        if self._shown == self._inner.shown:
            return
        folder = self._inner.shown.replace("`", "``")
        try:
            self._spark.sql(
                f"CREATE OR REPLACE VIEW {_quoted(self.place)} TBLPROPERTIES ('{_OWNER}' = '{self._owner}') "
                f"AS SELECT * FROM parquet.`{folder}`"
            )
        except PySparkException as error:
            raise DataError(
                f"Spark's catalog does not take view {quoted(self.place)}: {_line(error)}",
                hint="write the view to a path, or to a catalog that has views",
            ) from None
        self._shown = self._inner.shown

    def _check(self) -> None:
        """What has the name already must be ours."""
        try:
            told = self._spark.sql(f"SHOW TBLPROPERTIES {_quoted(self.place)}").collect()
        except AnalysisException:  # there is nothing of that name
            return
        if (_OWNER, self._owner) not in [(row["key"], row["value"]) for row in told]:
            raise DataError(
                f"Spark's catalog has another table or view {quoted(self.place)}",
                hint="write the view under another name, or drop what is there",
            )


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def _line(error: PySparkException) -> str:
    return " ".join(str(error).split("JVM stacktrace")[0].split())
