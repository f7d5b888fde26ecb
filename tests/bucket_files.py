"""Where the executors of this machine keep the buckets of a mill."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from viewmill.spark_mill import SparkMill


def bucket_folder(mill: SparkMill) -> Path:
    """The folder that is there: in memory, or on disk."""
    name = f"viewmill-{os.getuid()}-{mill._engine.commit.mill}"
    (folder,) = (each / name for each in (Path("/dev/shm"), Path(tempfile.gettempdir())) if (each / name).is_dir())
    return folder
