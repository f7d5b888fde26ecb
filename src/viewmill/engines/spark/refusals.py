"""Errors that are the fault of a row, on their way from a task to the driver.

They do not fail the task, which Spark would only run again: they are messages, and the driver refuses the batch. What
may be an error, and is known in the last step only, waits for that in the bucket: a message from it to itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from viewmill.engines.spark.failure import named
from viewmill.engines.spark.hash import bucket_keys
from viewmill.engines.spark.message import MESSAGES
from viewmill.errors import DataError, ViewmillError

REFUSAL = -3
"""The target of such a message."""

DOUBT = -5
"""The target of a message that names a view in doubt."""


class StateError(DataError):
    """An error that is one in the state that a batch has found, and might not be one in another."""


def _plain(error: StateError) -> DataError:
    return DataError(error.message, hint=error.hint)


@contextmanager
def final(is_last: bool, told: Callable[[StateError], DataError] = _plain) -> Iterator[None]:
    """For a part of a batch: in the last one, an error of the state is the batch's own, and `told` as one."""
    try:
        yield
    except StateError as error:
        if not is_last:
            raise
        raise told(error) from None


def refused_as_message(error: ViewmillError, bucket: int, buckets: int, *, by_state: bool = False) -> pa.Table:
    data = json.dumps([type(error).__name__, error.message, error.hint, by_state]).encode()
    row = {"key": bucket_keys(buckets)[bucket], "target": REFUSAL, "origin": bucket, "data": data}
    return pa.Table.from_pylist([row], MESSAGES)


def doubts_as_messages(views: Iterable[str], bucket: int, buckets: int) -> pa.Table:
    key = bucket_keys(buckets)[bucket]
    rows = [{"key": key, "target": DOUBT, "origin": bucket, "data": view.encode()} for view in sorted(views)]
    return pa.Table.from_pylist(rows, MESSAGES)


def doubts(messages: pa.Table) -> frozenset[str]:
    """The views in doubt, of messages that have come here."""
    told = messages.filter(pc.equal(messages.column("target"), DOUBT))
    return frozenset(data.decode() for data in told.column("data").to_pylist())


def refusal(data: bytes) -> ViewmillError:
    """The error that a task has told."""
    name, message, hint, by_state = json.loads(data)
    error = named(name, message, hint)
    return StateError(message, hint=hint) if by_state and isinstance(error, DataError) else error
