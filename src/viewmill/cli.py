"""The command line: `viewmill run pipeline.sql`, `explain`, `status`, `verify`, `demo`, `bench`.

A pipeline is a file of SQL statements that create tables, streams and views. Data comes from its INSERTs and from
files: `--load orders=orders.parquet` (or `.csv`), which are applied together as one batch after the last statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer
from rich.console import Console

from viewmill.arrow import arrow_type
from viewmill.bench.cli import app as bench
from viewmill.catalog import RelationInfo
from viewmill.errors import BindError, DataError, ViewmillError
from viewmill.result import Result
from viewmill.session import Mill
from viewmill.wording import titled

app = typer.Typer(help="Keeps SQL views fresh.", no_args_is_help=True, add_completion=False)
app.add_typer(bench, name="bench")
console = Console()
errors = Console(stderr=True)

P = ParamSpec("P")

Pipeline = Annotated[Path, typer.Argument(help="A file of SQL statements.", exists=True, dir_okay=False)]
Loads = Annotated[list[str] | None, typer.Option("--load", metavar="TABLE=FILE", help="Parquet or CSV to insert.")]
Names = Annotated[list[str] | None, typer.Argument(help="Views; all of them if none is named.")]
Dialect = Annotated[str, typer.Option(help="The SQL dialect of the file.")]


def _reported(command: Callable[P, None]) -> Callable[P, None]:
    """Errors of ours are messages, not tracebacks."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except ViewmillError as error:
            errors.print(f"{type(error).__name__}: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return run


@app.command()
@_reported
def run(pipeline: Pipeline, load: Loads = None, dialect: Dialect = "spark") -> None:
    """Run a pipeline; print the answer of every SELECT, and the views if there is none."""
    mill = Mill(dialect=dialect)
    answers = 0
    for answer in mill.script(pipeline.read_text()):
        if answer.columns:
            answers += 1
            console.print(answer)
    _load(mill, load or ())
    if not answers or load:
        for name in mill.views:
            _print_view(name, mill.view(name).read())


@app.command()
@_reported
def explain(
    pipeline: Pipeline,
    views: Names = None,
    stage: Annotated[str, typer.Option(help="sql, bound, algebra, delta or program.")] = "program",
    dialect: Dialect = "spark",
) -> None:
    """Show how views are compiled, at any stage."""
    mill = _prepared(pipeline, (), dialect)
    for name in views or mill.views:
        console.print(mill.explain(name, stage=stage), markup=False, highlight=False, soft_wrap=True)


@app.command()
@_reported
def status(pipeline: Pipeline, load: Loads = None, dialect: Dialect = "spark") -> None:
    """Show rows, stores, and how each view is maintained and why."""
    console.print(_prepared(pipeline, load or (), dialect).status())


@app.command()
@_reported
def verify(
    pipeline: Pipeline,
    views: Names = None,
    load: Loads = None,
    reference: Annotated[bool, typer.Option(help="Use the slow, independent evaluator.")] = False,
    dialect: Dialect = "spark",
) -> None:
    """Recompute views and compare; exit 1 if any row differs."""
    mill = _prepared(pipeline, load or (), dialect)
    checks = [mill.verify(name, by="reference" if reference else "engine") for name in views or mill.views]
    for check in checks:
        console.print(str(check), markup=False, highlight=False)
    if not all(checks):
        raise typer.Exit(1)


@app.command()
@_reported
def demo(
    engine: Annotated[str, typer.Option(help="spark, or local for this process.")] = "spark",
    scale: Annotated[float, typer.Option(help="Scale factor of TPC-H.", min=0.001)] = 0.1,
    batches: Annotated[int, typer.Option(help="How many.", min=1)] = 20,
    share: Annotated[float, typer.Option(help="Share of the orders that a batch changes.", min=0.0001, max=0.5)] = 0.01,
    data: Annotated[Path | None, typer.Option(help="Where generated data is kept.")] = None,
) -> None:
    """Watch views follow a stream of inserts, updates and deletes, and check them in the end."""
    if engine not in ("spark", "local"):
        raise BindError(f'there is no engine "{engine}"', hint="the engines are spark and local")
    from viewmill.demo.run import run as run_demo  # what it needs is not installed with the package alone

    right = run_demo(
        console,
        engine="spark" if engine == "spark" else "local",
        scale=scale,
        batches=batches,
        share=share,
        folder=data,
    )
    if not right:
        raise typer.Exit(1)


def _prepared(pipeline: Path, load: Iterable[str], dialect: str) -> Mill:
    mill = Mill(dialect=dialect)
    mill.sql(pipeline.read_text())
    _load(mill, load)
    return mill


def _load(mill: Mill, load: Iterable[str]) -> None:
    with mill.batch() as batch:
        for entry in load:
            name, equals, file = entry.partition("=")
            info = mill.tables.get(name.lower())
            if not equals or info is None:
                raise BindError(f"--load {entry!r} names no table", hint=f"the tables are {', '.join(mill.tables)}")
            batch.insert(name, _read_file(Path(file), info))


def _read_file(file: Path, info: RelationInfo) -> pa.Table:
    if not file.is_file():
        raise DataError(f"there is no file {str(file)!r}")
    try:
        if file.suffix == ".parquet":
            return pyarrow.parquet.read_table(file)
        types = {column.name: arrow_type(column.type) for column in info.columns}
        return pyarrow.csv.read_csv(file, convert_options=pyarrow.csv.ConvertOptions(column_types=types))
    except pa.ArrowInvalid as error:
        raise DataError(f"cannot read {str(file)!r} for {titled(info)}: {error}") from None


def _print_view(name: str, result: Result) -> None:
    console.print(f"view {name}, version {result.version}, {len(result)} rows", highlight=False)
    console.print(result)


if __name__ == "__main__":
    app()
