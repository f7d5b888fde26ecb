"""Spark's Python daemon with our imports done: the workers that it forks need not do them again.

`spark.python.daemon.module` names it. Where Spark is started without (a session that somebody else has made), each
worker imports what it needs when its first task comes, which takes about a second longer.

Buckets may be in memory, which the daemon gives back when it ends (`homes.py`).

Spark closes the socket of a worker that had nothing to do for a minute. That is no failure, and not worth a traceback.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable

from pyspark import daemon

import viewmill.engines.spark.task  # noqa: F401
from viewmill.engines.spark import homes

Worker = Callable[[socket.socket, bool], int]


def _until_closed(worker: Worker) -> Worker:
    def work(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return 1  # the daemon then ends this worker

    return work


if __name__ == "__main__":
    daemon.worker = _until_closed(daemon.worker)  # type: ignore[assignment]
    homes.enter()
    gc.freeze()
    try:
        daemon.manager()
    finally:
        homes.leave()
