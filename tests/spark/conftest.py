"""One Spark for all tests of a run: it takes seconds to start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from viewmill.engines.spark.anchor import Anchor, anchored
from viewmill.engines.spark.session import maintenance_session, spark_session

BUCKETS = 4


@pytest.fixture(scope="session")
def spark(machine_code: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = str(tmp_path_factory.mktemp("scratch"))  # where workers keep buckets
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        session = spark_session(master="local[2]", spark_driver_memory="1g")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def session(spark: SparkSession) -> SparkSession:
    return maintenance_session(spark, BUCKETS)


@pytest.fixture(scope="session")
def anchor(session: SparkSession) -> Anchor:
    return anchored(session, BUCKETS)
