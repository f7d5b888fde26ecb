"""What a sink is told after a batch, and what it has to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from viewmill.sinks.parquet import Rows


@dataclass(frozen=True, slots=True)
class Moment:
    """A committed version of a view.

    `change` are the rows that differ from the version before, each with its `weight_`; None if it is not known.
    `whole` gives all rows, as readers see them, and `session` can ask Spark about them.
    """

    version: int
    change: pa.Table | None
    whole: Callable[[], Rows]
    session: SparkSession


class Sink(Protocol):
    """A place that a view is written to.

    It knows which version it has. Law: after `take`, it has that of the moment, whatever it had before; so a version
    that could not be written is made up for by the next.
    """

    @property
    def view(self) -> str: ...

    @property
    def place(self) -> str:
        """What the user called it."""

    def take(self, moment: Moment) -> None: ...
