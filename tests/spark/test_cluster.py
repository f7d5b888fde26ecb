"""On several executors, a bucket is worked on where its anchor is cached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_cluster import cluster


@pytest.mark.spark
@pytest.mark.slow
def test_a_bucket_stays_on_its_executor(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with cluster(tmp_path / "cluster", workers=2) as running:
        assert running.url.startswith("spark://127.0.0.1:")
        script = Path(__file__).with_name("anchored_on_cluster.py")
        done = subprocess.run(
            [sys.executable, str(script), running.url], env=environment, capture_output=True, text=True, timeout=240
        )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    cached = answer["cached"]
    assert set(cached) == {"0", "1", "2", "3"}
    assert set(cached.values()) == {"0", "1"}, "both executors have buckets"
    assert answer["ran"] == [cached] * 4
