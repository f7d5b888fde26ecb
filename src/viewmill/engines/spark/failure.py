"""Errors that cross from a Spark job back to us.

A check inside a Spark expression can only raise an error of Spark's. What we raise there is marked, and turned back
into a `DataError` here; every other failure of a job is Spark's own, and stays as it is.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from viewmill.errors import DataError

_MARK = "viewmill: "


def raised(message: str) -> Column:
    """An expression that fails the job: `refused` knows it again."""
    return F.raise_error(F.lit(_MARK + message))


def refused(error: Exception) -> DataError | None:
    """What is wrong with the batch, if that is why a job has failed."""
    if not isinstance(error, PySparkException) or error.getCondition() != "USER_RAISED_EXCEPTION":
        return None
    message = (error.getMessageParameters() or {}).get("errorMessage", "")
    if not message.startswith(_MARK):
        return None
    return DataError(message.removeprefix(_MARK), hint="correct the rows and apply the batch again: nothing of it was")
