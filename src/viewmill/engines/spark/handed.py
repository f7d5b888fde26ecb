"""Rows of ours as DataFrames of another session: at one version for ever, with the types that a view's columns have."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from viewmill.arrow import with_moments
from viewmill.catalog import ColumnInfo
from viewmill.engines.spark.columns import spark_type
from viewmill.engines.spark.failure import refused


def spark_schema(columns: Sequence[ColumnInfo]) -> StructType:
    return StructType([StructField(column.name, spark_type(column.type), column.nullable) for column in columns])


def local_frame(spark: SparkSession, table: pa.Table, columns: Sequence[ColumnInfo]) -> DataFrame:
    """Rows that the driver has."""
    return spark.createDataFrame(table.cast(with_moments(table.schema)), spark_schema(columns))


def handed_over(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """A frame of our session, computed now, as a frame of another session of the same Spark.

    Executors keep the rows. If one of them is lost, reading the frame is an error: it cannot be computed again, since
    the buckets have gone on. What is not used any more is given up when the driver collects garbage.
    """
    name = f"viewmill_{uuid.uuid4().hex}"
    try:
        kept = frame.localCheckpoint(eager=True)
    except PySparkException as error:
        raise refused(error) or error from None
    kept.createGlobalTempView(name)  # what all sessions of a Spark share
    try:
        return spark.table(f"{spark.conf.get('spark.sql.globalTempDatabase', 'global_temp')}.{name}")
    finally:
        spark.catalog.dropGlobalTempView(name)
