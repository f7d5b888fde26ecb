"""TPC-H data: `tpchgen-cli` runs once per scale factor, later runs read what it made.

Each table is kept as one Arrow record batch with the declared types in a file of its own, so that a process has it in
memory in a second, and any run of rows is a slice that copies nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet

from viewmill.bench.queries import TABLES, arrow_schemas
from viewmill.errors import UnsupportedError

Data: TypeAlias = dict[str, pa.RecordBatch]
"""All rows of every table."""


def default_folder() -> Path:
    """Where data is kept unless the user says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "viewmill" / "tpch"


def ensure(scale: float, folder: Path) -> Path:
    """The folder of one scale factor, filled if it is not yet there."""
    made = folder / f"sf{scale:g}"
    if not made.is_dir():
        with _generated(scale, folder) as parquet:
            arrow = parquet.with_name("arrow")
            arrow.mkdir()
            for name in TABLES:
                _convert(parquet / f"{name}.parquet", arrow / f"{name}.arrow", arrow_schemas()[name])
            arrow.replace(made)  # a whole folder or none
    return made


def ensure_parquet(scale: float, folder: Path) -> Path:
    """The same tables in Parquet, as they are generated."""
    made = folder / f"sf{scale:g}-parquet"
    if not made.is_dir():
        with _generated(scale, folder) as parquet:
            parquet.replace(made)
    return made


def load(folder: Path, tables: Iterable[str] = TABLES) -> Data:
    """Tables as they were generated, in memory."""
    return {name: _read(folder / f"{name}.arrow") for name in tables}


@contextmanager
def _generated(scale: float, folder: Path) -> Iterator[Path]:
    """New tables in a folder that is gone afterwards, on the disk where they are to be kept."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as draft:
        _generate(scale, Path(draft) / "parquet")
        yield Path(draft) / "parquet"


def _generate(scale: float, folder: Path) -> None:
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    if program is None:
        raise UnsupportedError("tpchgen-cli is not installed", hint="pip install 'viewmill[bench]'")
    command = [program, "parquet", "-s", f"{scale:g}", "-o", str(folder), "-q"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UnsupportedError(f"tpchgen-cli failed at scale {scale:g}: {done.stderr.strip()}")


def _convert(parquet: Path, arrow: Path, schema: pa.Schema) -> None:
    table = pa.parquet.read_table(parquet).select(schema.names).cast(schema).combine_chunks()
    with pa.ipc.new_file(arrow, schema) as writer:
        writer.write_table(table, max_chunksize=max(1, table.num_rows))


def _read(file: Path) -> pa.RecordBatch:
    with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as reader:
        return reader.get_batch(0)
