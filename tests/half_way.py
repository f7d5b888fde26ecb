"""Drivers that die in the middle of what takes several jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from viewmill.engines.spark.cluster import Cluster


@contextmanager
def dying_in_job(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What runs inside dies when it is about to run this job."""
    run, runs = Cluster.run, []

    def die(self, *given):
        runs.append(given)
        if len(runs) == number:
            raise KeyboardInterrupt
        return run(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "run", die)
        with pytest.raises(KeyboardInterrupt):
            yield
