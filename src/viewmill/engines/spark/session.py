"""Spark sessions: one of our own for maintenance, and a quiet one for those who bring none."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from viewmill.engines.spark.java import java_home

_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_BYTES_AT_ONCE, _UNBOUNDED = 2**26, 2**31 - 1
_KNOWN_WARNING = "PySpark does not yet fully support pandas"  # we exchange Arrow, never pandas


def maintenance_session(spark: SparkSession, buckets: int) -> SparkSession:
    """A session of our own beside the user's, with the settings that a maintenance job needs."""
    session = spark.newSession()
    for name, value in _settings(buckets).items():
        session.conf.set(name, value)
    return session


def use_buckets(session: SparkSession, buckets: int) -> None:
    """From now on, what the session shuffles goes to so many buckets."""
    session.conf.set("spark.sql.shuffle.partitions", str(buckets))


def mind_bytes(session: SparkSession, minded: bool) -> None:
    """Whether what Spark hands to Python at once is bounded in bytes, too, and not only in rows.

    Spark adds up the bytes of all columns for every row that it hands over, which takes as long as handing it over. Not
    to do so is safe where rows are few words, but messages are rows, too: all that arrives in a bucket is then in
    Spark's memory in one piece.
    """
    session.conf.set(_BYTES, str(_BYTES_AT_ONCE if minded else _UNBOUNDED))


def _settings(buckets: int) -> dict[str, str]:
    return {
        # One bucket is one partition: nothing may coalesce, split or re-plan partitions.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(buckets),
        # A bucket's messages come as one Arrow batch, and of rows as many as a processor's cache has room for.
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(2**15),
        _BYTES: str(_BYTES_AT_ONCE),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Timestamps are kept in UTC.
        "spark.sql.session.timeZone": "UTC",
        # SQL is as we understand it, whatever the cluster is set to: errors are errors, and text is what is written.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.parser.escapedStringLiterals": "false",
        "spark.sql.groupByOrdinal": "true",
        "spark.sql.orderByOrdinal": "true",
        "spark.sql.groupByAliases": "true",
        "spark.sql.caseSensitive": "false",
        "spark.sql.decimalOperations.allowPrecisionLoss": "true",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
    }


def spark_session(*, master: str = "local[*]", **conf: str) -> SparkSession:
    """A quiet Spark on this machine, also where no Java is installed.

    Settings are written with underscores for dots: `spark_session(spark_driver_memory="4g")`.
    """
    warnings.filterwarnings("ignore", message=_KNOWN_WARNING)
    builder = SparkSession.builder.master(master).appName("viewmill")
    folder = Path(tempfile.mkdtemp(prefix="viewmill-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, value in {**_quiet(folder), **{key.replace("_", "."): value for key, value in conf.items()}}.items():
        builder = builder.config(name, value)
    with _environment():
        spark = builder.getOrCreate()
    return spark


_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def _quiet(folder: Path) -> dict[str, str]:
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    return {
        # Java's default collector marks beside the work, again and again where the heap is small, on a machine whose
        # cores a batch needs.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging} -XX:+UseParallelGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.python.daemon.module": "viewmill.engines.spark.daemon",
        # Between Java and Python quicker than TCP: an empty job of three stages took 80 to 350 ms less.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # One machine: the 200 that Spark would take are mostly the work of handing out tasks.
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    }


@contextmanager
def _environment() -> Iterator[None]:
    """What the JVM and its Python workers inherit, put back as it was once they have started."""
    wanted = {
        "JAVA_HOME": java_home(),
        "PYSPARK_PYTHON": sys.executable,  # Spark would take any python3
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": _import_path(),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(
        {name: str(value) for name, value in wanted.items() if value and (name == "PYTHONPATH" or not before[name])}
    )
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _import_path() -> str | None:
    """Where workers find this package, if it is not installed where they look anyway."""
    package = Path(__file__).resolve().parents[3]
    if "site-packages" in package.parts:
        return None
    return os.pathsep.join((str(package), *filter(None, (os.environ.get("PYTHONPATH"),))))
