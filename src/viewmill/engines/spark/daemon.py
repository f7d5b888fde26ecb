"""Spark's Python daemon with our imports done: the workers that it forks need not do them again.

`spark.python.daemon.module` names it. Where Spark is started without (a session that somebody else has made), each
worker imports what it needs when its first task comes, which takes about a second longer.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import viewmill.engines.spark.task  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    manager()
