"""Errors that cross from a Spark job back to us.

A check inside a Spark expression can only raise an error of Spark's, and what a Python task raises arrives as text.
What is ours is marked there, and turned back into an error of ours here; every other failure of a job is Spark's own,
and stays as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from viewmill import errors
from viewmill.errors import DataError, InternalError, UnsupportedError, ViewmillError

CORRECT = "correct the rows and apply the batch again: nothing of it was"
"""What to do about rows that are wrong."""

_MARK, _END = "viewmill: ", " :viewmill"
_ABSENT = "ModuleNotFoundError: No module named 'viewmill'"


def raised(message: str | Column) -> Column:
    """An expression that fails the job: `refused` knows it again."""
    return F.raise_error(F.concat(F.lit(_MARK), F.lit(message)))


class Told(Exception):
    """An error of ours in a Python task, in a form that survives the way to the driver."""

    def __init__(self, error: ViewmillError) -> None:
        super().__init__(_MARK + json.dumps([type(error).__name__, error.message, error.hint]) + _END)


@contextmanager
def told() -> Iterator[None]:
    """What is wrong in here is told to the driver."""
    try:
        yield
    except ViewmillError as error:
        raise Told(error) from error


def refused(error: Exception) -> ViewmillError | None:
    """What is wrong with the batch, with what is kept, or with Spark's Python, if that is why a job has failed."""
    if isinstance(error, PySparkException) and _ABSENT in str(error):
        return UnsupportedError(
            "the Python that runs Spark's tasks does not find viewmill",
            hint=f"before Spark is started, set PYSPARK_PYTHON to one that does, such as {sys.executable}",
        )
    _, mark, told = str(error).partition(f"{_MARK}[")
    if mark and isinstance(error, PySparkException):
        name, message, hint = json.loads(f"[{told.partition(_END)[0]}")
        return named(name, message, hint)
    if not isinstance(error, PySparkException) or error.getCondition() != "USER_RAISED_EXCEPTION":
        return None
    message = (error.getMessageParameters() or {}).get("errorMessage", "")
    if not message.startswith(_MARK):
        return None
    return DataError(message.removeprefix(_MARK), hint=CORRECT)


def named(name: str, message: str, hint: str | None) -> ViewmillError:
    """An error of ours by the name of its class; one that is not among the public ones is a `DataError`."""
    kind = getattr(errors, name, DataError)
    if kind is InternalError:
        return InternalError(message)
    error: ViewmillError = kind(message, hint=hint)
    return error
