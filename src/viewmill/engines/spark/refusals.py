"""Errors that are the fault of a row, on their way from a task to the driver.

They do not fail the task, which Spark would only run again: they are messages, and the driver refuses the batch.
"""

from __future__ import annotations

import json

import pyarrow as pa

from viewmill.engines.spark.failure import named
from viewmill.engines.spark.hash import bucket_keys
from viewmill.engines.spark.message import MESSAGES
from viewmill.errors import ViewmillError

REFUSAL = -3
"""The target of such a message."""


def refused_as_message(error: ViewmillError, bucket: int, buckets: int) -> pa.Table:
    data = json.dumps([type(error).__name__, error.message, error.hint]).encode()
    row = {"key": bucket_keys(buckets)[bucket], "target": REFUSAL, "origin": bucket, "data": data}
    return pa.Table.from_pylist([row], MESSAGES)


def refusal(data: bytes) -> ViewmillError:
    """The error that a task has told."""
    return named(*json.loads(data))
