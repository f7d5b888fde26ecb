"""A driver dies between the mill's commit and Spark's own, or before both: the batch that Spark repeats counts once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from diary import Diary
from mortal_commits import tell

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("stream_driver.py")
BATCHES = 3


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
    }
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)], env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.mark.parametrize("moment", ["after", pytest.param("before", marks=pytest.mark.exhaustive)])
def test_a_repeated_batch_counts_once(tmp_path, moment):
    for table in ("kept", "passed"):
        (tmp_path / table).mkdir()
        for number in range(BATCHES):
            file = tmp_path / table / f"{number}.json"
            file.write_text(json.dumps({"id": number, "a": "x", "b": 10**number}))
            os.utime(file, (1_700_000_000 + number,) * 2)  # Spark takes the oldest file first

    tell(tmp_path, moment, version=2)
    assert run(tmp_path).returncode == -signal.SIGKILL
    (streams,) = (tmp_path / "checkpoint" / "streams").iterdir()
    assert (streams / "offsets" / "1").exists() and not (streams / "commits" / "1").exists(), "Spark knows no end of it"
    last = run(tmp_path)
    assert last.returncode == 0, last.stderr

    events = Diary(tmp_path / "diary").events()
    connected = [event.facts["version"] for event in events if event.what == "connected"]
    assert connected == [0, 2 if moment == "after" else 1]
    everything = [["x", BATCHES, 111]]
    assert events[-1].facts == {"version": BATCHES, "views": {"of_kept": everything, "of_passed": everything}}
