"""What the logs of a checkpoint hold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from viewmill.durable.files import Files
from viewmill.engines.spark.arrivals import from_messages
from viewmill.engines.spark.work import from_log
from viewmill.spark_mill import SparkMill


def rows_logged(mill: SparkMill, logs: Iterable[Path]) -> list[int]:
    """How many rows arrived, by these logs, each of a bucket and a block."""
    files = mill._engine.files
    tables = [from_log(Files(files.root).read(str(log.relative_to(files.root)))) for log in logs]
    arrived = [from_messages(mill._engine.deployed, table) for table in tables]
    return [sum(arrival.rows.num_rows for arrival in arrivals.values()) for arrivals in arrived]
